//! FNV-1a (draft-eastlake-fnv): a byte at a time.

use super::function::{HashLibrary, function};
use super::own_version;
use crate::variant::Library;

pub(super) const LIBRARY: HashLibrary = HashLibrary {
    library: Library {
        name: "fnv",
        label: "fnv",
        title: "overside",
        version: own_version,
        simd: false,
    },
    functions: &[function!(Fnv32, fnv_32), function!(Fnv64, fnv_64), function!(Fnv128, fnv_128)],
};

/// FNV-1a with 32 bits.
fn fnv_32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// FNV-1a with 64 bits.
fn fnv_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// FNV-1a with 128 bits.
fn fnv_128(bytes: &[u8]) -> u128 {
    let first = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    bytes.iter().fold(first, |hash, &byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    })
}
