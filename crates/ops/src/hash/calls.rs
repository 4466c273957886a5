//! Hashes as calls in a loop, without a kernel between the loop and the hash: what one call costs
//! shows only where nothing else happens beside it.

use std::hint::black_box;

use md5::Md5;
use sha2::{Digest, Sha256};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};
use xxhash_rust::xxh32::xxh32;
use xxhash_rust::xxh64::xxh64;

use super::{fnv, murmur, spooky};
use crate::{Error, HashAlgorithm, Operation, Variant, deflate, variants};

/// The bytes that calls hash: so many inputs of one length.
#[derive(Clone, Debug)]
pub struct Inputs {
    bytes: Vec<u8>,
    len: usize,
    /// From the beginning of an input to that of the next; a power of two.
    stride: usize,
    /// What leaves of a number a multiple of the stride that is the beginning of an input.
    mask: usize,
}

impl Inputs {
    /// `count` inputs (a power of two) of `len` bytes (at least 1), with what `fill` puts there.
    ///
    /// # Panics
    /// If `count` is no power of two or `len` is 0.
    pub fn new(len: usize, count: usize, fill: impl FnOnce(&mut [u8])) -> Self {
        assert!(count.is_power_of_two() && len > 0);
        let stride = len.next_power_of_two();
        let mut bytes = vec![0; stride * count];
        fill(&mut bytes);
        Self {
            bytes,
            len,
            stride,
            mask: stride * (count - 1),
        }
    }

    /// The inputs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.bytes
            .chunks(self.stride)
            .map(|input| &input[..self.len])
    }

    /// Which input a chain takes after a digest whose last bytes are `low`.
    pub fn after(&self, low: u64) -> usize {
        (low as usize & self.mask) / self.stride
    }
}

type Loop = Box<dyn Fn(&Inputs, u64) -> u64 + Send + Sync>;

/// One hash by one library, in two loops.
pub struct Calls {
    chain: Loop,
    row: Loop,
    /// The library.
    pub variant: Variant,
}

impl Calls {
    /// The hash by a variant's name or `auto`.
    ///
    /// # Errors
    /// [`Error::UnknownVariant`]
    pub fn new(algorithm: HashAlgorithm, variant: &str) -> Result<Self, Error> {
        use HashAlgorithm as A;
        let operation = Operation::Hash(algorithm);
        let known = variants(operation);
        let found = (known.iter()).position(|one| variant == "auto" || one.name == variant);
        let Some(place) = found else {
            let known: Vec<_> = known.iter().map(|one| one.name).collect();
            return Err(Error::UnknownVariant {
                operation: operation.to_string(),
                name: variant.into(),
                known: known.join(", "),
            });
        };
        let variant = known.into_iter().nth(place).expect("it was found there");
        let by = |chain, row| Self {
            chain,
            row,
            variant: variant.clone(),
        };
        // One loop is made of each, with the hash in it.
        macro_rules! calls {
            ($hash:expr) => {
                by(
                    Box::new(|inputs, calls| chain($hash, inputs, calls)),
                    Box::new(|inputs, calls| row($hash, inputs, calls)),
                )
            };
        }
        Ok(match algorithm {
            A::Xxh3 => calls!(xxh3_64),
            A::Xxh3Long => calls!(|bytes: &[u8]| xxh3_128(bytes) as u64),
            A::Xxh32 => calls!(|bytes: &[u8]| xxh32(bytes, 0).into()),
            A::Xxh64 => calls!(|bytes: &[u8]| xxh64(bytes, 0)),
            A::City32 => calls!(|bytes: &[u8]| cityhash_sys::city_hash_32(bytes).into()),
            A::City64 => calls!(cityhash_sys::city_hash_64),
            A::City128 => calls!(|bytes: &[u8]| cityhash_sys::city_hash_128(bytes) as u64),
            A::Murmur2Short => calls!(|bytes: &[u8]| murmur::murmur2_32(bytes).into()),
            A::Murmur2 => calls!(murmur::murmur2_64),
            A::Murmur3Short => calls!(|bytes: &[u8]| murmur::murmur3_32(bytes).into()),
            A::Murmur3 => calls!(|bytes: &[u8]| murmur::murmur3_128(bytes) as u64),
            A::Spooky32 => calls!(|bytes: &[u8]| (spooky::spooky_128(bytes) as u32).into()),
            A::Spooky64 | A::Spooky128 => calls!(|bytes: &[u8]| spooky::spooky_128(bytes) as u64),
            A::Fnv32 => calls!(|bytes: &[u8]| fnv::fnv_32(bytes).into()),
            A::Fnv64 => calls!(fnv::fnv_64),
            A::Fnv128 => calls!(|bytes: &[u8]| fnv::fnv_128(bytes) as u64),
            A::Md5 => calls!(|bytes: &[u8]| low(&Md5::digest(bytes))),
            A::Sha256 => calls!(|bytes: &[u8]| low(&Sha256::digest(bytes))),
            A::Crc32 if variant.name == "zlib" => {
                calls!(|bytes: &[u8]| deflate::zlib_crc32(0, bytes).into())
            }
            A::Crc32 => calls!(|bytes: &[u8]| crc32fast::hash(bytes).into()),
        })
    }

    /// So many calls, each of an input that the digest before it picks: none can begin before the
    /// last has ended. Returns the sum of [`low`] of the digests.
    pub fn chain(&self, inputs: &Inputs, calls: u64) -> u64 {
        (self.chain)(inputs, calls)
    }

    /// So many calls, of one input after the other: the next may begin before the last has ended.
    /// Returns the sum of [`low`] of the digests.
    pub fn row(&self, inputs: &Inputs, calls: u64) -> u64 {
        (self.row)(inputs, calls)
    }
}

/// The last eight bytes of a digest as a number, or all if it is shorter.
pub fn low(digest: &[u8]) -> u64 {
    let from = digest.len().saturating_sub(8);
    let add = |sum: u64, &byte: &u8| sum << 8 | u64::from(byte);
    digest[from..].iter().fold(0, add)
}

#[inline(always)]
fn chain(hash: impl Fn(&[u8]) -> u64, inputs: &Inputs, calls: u64) -> u64 {
    let (bytes, len, mask) = (&inputs.bytes[..], inputs.len, inputs.mask);
    let (mut at, mut sum) = (0, 0_u64);
    for _ in 0..calls {
        let digest = hash(&bytes[at..at + len]);
        sum = sum.wrapping_add(digest);
        at = digest as usize & mask;
    }
    sum
}

#[inline(always)]
fn row(hash: impl Fn(&[u8]) -> u64, inputs: &Inputs, calls: u64) -> u64 {
    let (bytes, len, mask) = (&inputs.bytes[..], inputs.len, inputs.mask);
    let (mut at, mut sum) = (0, 0_u64);
    for _ in 0..calls {
        let digest = hash(black_box(&bytes[at..at + len]));
        sum = sum.wrapping_add(digest);
        at = (at + inputs.stride) & mask;
    }
    sum
}
