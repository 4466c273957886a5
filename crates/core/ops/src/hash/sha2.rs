//! SHA-256 (FIPS 180-4), with the processor's SHA instructions where it has them.

use ::sha2::{Digest, Sha256};

use super::function::{HashLibrary, function};
use crate::variant::Library;

pub(super) const LIBRARY: HashLibrary = HashLibrary {
    library: Library {
        name: "sha2",
        label: "sha2",
        title: "RustCrypto sha2",
        version: || "0.11.1".into(),
        simd: true,
    },
    functions: &[function!(
        Sha256,
        |bytes: &[u8]| -> [u8; 32] { Sha256::digest(bytes).into() },
        Some(several)
    )],
};

fn several(segments: &[&[u8]]) -> [u8; 32] {
    let mut state = Sha256::new();
    segments.iter().for_each(|segment| state.update(segment));
    state.finalize().into()
}
