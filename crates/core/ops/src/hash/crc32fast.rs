//! CRC-32 with carry-less multiplication.

use super::function::{HashLibrary, function};
use crate::variant::Library;

pub(super) const LIBRARY: HashLibrary = HashLibrary {
    library: Library {
        name: "crc32fast",
        label: "crc32fast",
        title: "crc32fast",
        version: || "1.5.4".into(),
        simd: true,
    },
    functions: &[function!(Crc32, ::crc32fast::hash, Some(several))],
};

fn several(segments: &[&[u8]]) -> u32 {
    let mut state = ::crc32fast::Hasher::new();
    segments.iter().for_each(|segment| state.update(segment));
    state.finalize()
}
