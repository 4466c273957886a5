//! MD5 (RFC 1321).

use ::md5::{Digest, Md5};

use super::function::{HashLibrary, function};
use crate::variant::Library;

pub(super) const LIBRARY: HashLibrary = HashLibrary {
    library: Library {
        name: "md5",
        label: "md5",
        title: "RustCrypto md-5",
        version: || "0.11.0".into(),
        simd: false,
    },
    functions: &[function!(
        Md5,
        |bytes: &[u8]| -> [u8; 16] { Md5::digest(bytes).into() },
        Some(several)
    )],
};

fn several(segments: &[&[u8]]) -> [u8; 16] {
    let mut state = Md5::new();
    segments.iter().for_each(|segment| state.update(segment));
    state.finalize().into()
}
