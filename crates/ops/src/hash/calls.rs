//! Hashes as calls in a loop, without a kernel between the loop and the hash: what one call costs
//! shows only where nothing else happens beside it.

use std::hint::black_box;

use super::function::{self, Digest, Function};
use crate::variant::unknown_variant;
use crate::{Error, HashAlgorithm, Operation, Variant};

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

/// One hash by one library, in two loops.
pub struct Calls {
    function: &'static Function,
    /// The library.
    pub variant: Variant,
}

impl Calls {
    /// The hash by a variant's name or `auto`.
    ///
    /// # Errors
    /// [`Error::UnknownVariant`]
    pub fn new(algorithm: HashAlgorithm, variant: &str) -> Result<Self, Error> {
        let (library, function) = function::all(algorithm)
            .find(|(library, _)| variant == "auto" || library.library.name == variant)
            .ok_or_else(|| unknown_variant(Operation::Hash(algorithm), variant))?;
        Ok(Self {
            function,
            variant: library.library.variant(),
        })
    }

    /// So many calls, each of an input that the digest before it picks: none can begin before the
    /// last has ended. Returns the sum of [`low`] of the digests.
    pub fn chain(&self, inputs: &Inputs, calls: u64) -> u64 {
        (self.function.chain)(inputs, calls)
    }

    /// So many calls, of one input after the other: the next may begin before the last has ended.
    /// Returns the sum of [`low`] of the digests.
    pub fn row(&self, inputs: &Inputs, calls: u64) -> u64 {
        (self.function.row)(inputs, calls)
    }
}

/// The last eight bytes of a digest as a number, or all if it is shorter.
pub fn low(digest: &[u8]) -> u64 {
    let from = digest.len().saturating_sub(8);
    let add = |sum: u64, &byte: &u8| sum << 8 | u64::from(byte);
    digest[from..].iter().fold(0, add)
}

#[inline(always)]
pub(super) fn chain<D: Digest>(hash: impl Fn(&[u8]) -> D, inputs: &Inputs, calls: u64) -> u64 {
    let (bytes, len, mask) = (&inputs.bytes[..], inputs.len, inputs.mask);
    let (mut at, mut sum) = (0, 0_u64);
    for _ in 0..calls {
        let digest = hash(&bytes[at..at + len]).low();
        sum = sum.wrapping_add(digest);
        at = digest as usize & mask;
    }
    sum
}

#[inline(always)]
pub(super) fn row<D: Digest>(hash: impl Fn(&[u8]) -> D, inputs: &Inputs, calls: u64) -> u64 {
    let (bytes, len, mask) = (&inputs.bytes[..], inputs.len, inputs.mask);
    let (mut at, mut sum) = (0, 0_u64);
    for _ in 0..calls {
        let digest = hash(black_box(&bytes[at..at + len])).low();
        sum = sum.wrapping_add(digest);
        at = (at + inputs.stride) & mask;
    }
    sum
}
