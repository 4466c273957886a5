//! MurmurHash2 and MurmurHash3 (Austin Appleby, SMHasher) with seed 0. Bytes are read as
//! little-endian words, as the reference does on little-endian machines.

use super::function::{HashLibrary, function};
use super::own_version;
use crate::variant::Library;

pub(super) const LIBRARY: HashLibrary = HashLibrary {
    library: Library {
        name: "murmur",
        label: "murmur",
        title: "overside",
        version: own_version,
        simd: false,
    },
    functions: &[
        function!(Murmur2Short, |bytes: &[u8]| murmur2_32(bytes, 0)),
        function!(Murmur2, |bytes: &[u8]| murmur2_64(bytes, 0)),
        function!(Murmur3Short, |bytes: &[u8]| murmur3_32(bytes, 0)),
        function!(Murmur3, |bytes: &[u8]| murmur3_128(bytes, 0)),
    ],
};

/// Reads `bytes`, at most eight, as the low bytes of a word.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// MurmurHash2, 32 bits.
pub(super) fn murmur2_32(bytes: &[u8], seed: u32) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let (words, rest) = bytes.as_chunks::<4>();
    let mut hash = seed ^ bytes.len() as u32;
    for &chunk in words {
        let mut k = u32::from_le_bytes(chunk).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        hash = (hash ^ word(rest) as u32).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// MurmurHash64A, the 64-bit MurmurHash2.
pub(super) fn murmur2_64(bytes: &[u8], seed: u64) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(M);
    for &chunk in words {
        let mut k = u64::from_le_bytes(chunk).wrapping_mul(M);
        k ^= k >> 47;
        hash = (hash ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        hash = (hash ^ word(rest)).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 47)).wrapping_mul(M);
    hash ^ (hash >> 47)
}

/// MurmurHash3_x86_32.
pub(super) fn murmur3_32(bytes: &[u8], seed: u32) -> u32 {
    let mixed = |k: u32| k.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let (words, rest) = bytes.as_chunks::<4>();
    let mut hash = seed;
    for &chunk in words {
        hash = (hash ^ mixed(u32::from_le_bytes(chunk))).rotate_left(13);
        hash = hash.wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    hash ^= mixed(word(rest) as u32) ^ bytes.len() as u32;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

/// MurmurHash3_x64_128; its first word becomes the low half.
pub(super) fn murmur3_128(bytes: &[u8], seed: u64) -> u128 {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let first = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let second = |k: u64| k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let (blocks, rest) = bytes.as_chunks::<16>();
    let (mut h1, mut h2) = (seed, seed);
    for block in blocks {
        h1 = (h1 ^ first(word(&block[..8]))).rotate_left(27);
        h1 = h1.wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 = (h2 ^ second(word(&block[8..]))).rotate_left(31);
        h2 = h2.wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (low, high) = rest.split_at(rest.len().min(8));
    h1 ^= first(word(low)) ^ bytes.len() as u64;
    h2 ^= second(word(high)) ^ bytes.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finished(h1);
    h2 = finished(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    u128::from(h2) << 64 | u128::from(h1)
}

fn finished(mut k: u64) -> u64 {
    k = (k ^ (k >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    k = (k ^ (k >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}
