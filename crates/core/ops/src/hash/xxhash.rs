//! xxHash: XXH3, and the older XXH32 and XXH64.

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64, xxh3_128};
use xxhash_rust::xxh32::xxh32;
use xxhash_rust::xxh64::xxh64;

use super::function::{HashLibrary, function};
use crate::variant::Library;

pub(super) const SIMD: HashLibrary = HashLibrary {
    library: library(true),
    functions: &[
        function!(Xxh3, xxh3_64, Some(|segments| state(segments).digest())),
        function!(Xxh3Long, xxh3_128, Some(|segments| state(segments).digest128())),
    ],
};

pub(super) const SCALAR: HashLibrary = HashLibrary {
    library: library(false),
    functions: &[
        function!(Xxh32, |bytes: &[u8]| xxh32(bytes, 0)),
        function!(Xxh64, |bytes: &[u8]| xxh64(bytes, 0)),
    ],
};

const fn library(simd: bool) -> Library {
    Library {
        name: "xxhash",
        label: "xxHash",
        title: "xxhash-rust",
        version: || "0.8.19".into(),
        simd,
    }
}

fn state(segments: &[&[u8]]) -> Xxh3Default {
    let mut state = Xxh3Default::new();
    segments.iter().for_each(|segment| state.update(segment));
    state
}
