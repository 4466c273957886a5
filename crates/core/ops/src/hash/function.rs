//! Entry of a hash function in the registry, the kernel, and the loops of [`Calls`](super::Calls).

use std::hint::black_box;

use super::LIBRARIES;
use crate::variant::{Library, MAX_SEGMENTS, at_most_segments, written};
use crate::{Error, HashAlgorithm, Kernel, Output};

/// A library with its hash functions.
pub(super) struct HashLibrary {
    pub library: Library,
    pub functions: &'static [Function],
}

/// A hash function; [`function!`](super::function::function) makes one.
pub(super) struct Function {
    pub algorithm: HashAlgorithm,
    pub kernel: fn(HashAlgorithm) -> Box<dyn Kernel>,
    /// Loop of [`Calls::chain`](super::Calls::chain) with the function inlined.
    pub chain: fn(&Inputs, u64) -> u64,
    /// Loop of [`Calls::row`](super::Calls::row) with the function inlined.
    pub row: fn(&Inputs, u64) -> u64,
}

/// Makes a [`Function`] from an algorithm, a function of bytes and, for hashes that can continue
/// with another segment, a function of several segments.
macro_rules! function {
    ($algorithm:ident, $one:expr) => {
        $crate::hash::function::function!($algorithm, $one, None)
    };
    ($algorithm:ident, $one:expr, $several:expr) => {
        $crate::hash::function::Function {
            algorithm: $crate::HashAlgorithm::$algorithm,
            kernel: |algorithm| $crate::hash::function::kernel(algorithm, $one, $several),
            chain: |inputs, calls| $crate::hash::function::chain($one, inputs, calls),
            row: |inputs, calls| $crate::hash::function::row($one, inputs, calls),
        }
    };
}
pub(super) use function;

/// Returns the functions that compute `algorithm`, each with its library.
pub(super) fn all(
    algorithm: HashAlgorithm,
) -> impl Iterator<Item = (&'static HashLibrary, &'static Function)> {
    let of_library = move |library: &&'static HashLibrary| {
        let functions = library.functions;
        let found = functions.iter().find(|one| one.algorithm == algorithm);
        found.map(|function| (*library, function))
    };
    LIBRARIES.iter().filter_map(of_library)
}

/// Digest: a number, written big-endian, or bytes.
pub(super) trait Digest {
    /// Writes it to `to`, which has its length.
    fn write(&self, to: &mut [u8]);

    /// Returns [`low`] of it.
    fn low(&self) -> u64;
}

macro_rules! number {
    ($($number:ty),*) => {$(
        impl Digest for $number {
            fn write(&self, to: &mut [u8]) {
                to.copy_from_slice(&self.to_be_bytes());
            }

            #[inline(always)]
            fn low(&self) -> u64 {
                *self as u64
            }
        }
    )*};
}
number!(u32, u64, u128);

impl<const LEN: usize> Digest for [u8; LEN] {
    fn write(&self, to: &mut [u8]) {
        to.copy_from_slice(self);
    }

    #[inline(always)]
    fn low(&self) -> u64 {
        low(self)
    }
}

/// Returns the last eight bytes of a digest as a number, or all bytes if it is shorter.
pub fn low(digest: &[u8]) -> u64 {
    let from = digest.len().saturating_sub(8);
    let add = |sum: u64, &byte: &u8| sum << 8 | u64::from(byte);
    digest[from..].iter().fold(0, add)
}

/// Inputs of one length that calls hash.
#[derive(Clone, Debug)]
pub struct Inputs {
    bytes: Vec<u8>,
    len: usize,
    /// Distance in bytes from the beginning of an input to the next; a power of two.
    stride: usize,
    /// Mask that maps any number to the offset of an input: a multiple of the stride within `bytes`.
    mask: usize,
}

impl Inputs {
    /// Makes `count` inputs (a power of two) of `len` bytes (at least 1) and fills them with `fill`.
    ///
    /// # Panics
    /// If `count` is not a power of two or `len` is 0.
    pub fn new(len: usize, count: usize, fill: impl FnOnce(&mut [u8])) -> Self {
        assert!(count.is_power_of_two() && len > 0);
        let stride = len.next_power_of_two();
        let mut bytes = vec![0; stride * count];
        fill(&mut bytes);
        Self { bytes, len, stride, mask: stride * (count - 1) }
    }

    /// Yields the inputs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.bytes.chunks(self.stride).map(|input| &input[..self.len])
    }

    /// Returns the index of the input that follows a digest whose last bytes are `low`.
    pub fn after(&self, low: u64) -> usize {
        (low as usize & self.mask) / self.stride
    }
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

/// Function that returns the digest of several segments.
type OfSegments<D> = fn(&[&[u8]]) -> D;

/// Makes a hash function's kernel. Without `several` it joins segments before it hashes them.
pub(super) fn kernel<D: Digest + 'static>(
    algorithm: HashAlgorithm,
    one: fn(&[u8]) -> D,
    several: Option<OfSegments<D>>,
) -> Box<dyn Kernel> {
    Box::new(Hasher { len: algorithm.digest_len(), one, several, joined: Vec::new() })
}

struct Hasher<D> {
    /// Length of the digest in bytes.
    len: usize,
    one: fn(&[u8]) -> D,
    several: Option<OfSegments<D>>,
    /// Buffer for joined segments.
    joined: Vec<u8>,
}

impl<D: Digest> Kernel for Hasher<D> {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        at_most_segments(source)?;
        let capacity = destination.len();
        let to = (destination.get_mut(..self.len)).ok_or(Error::OutputTooSmall { capacity })?;
        let digest = match (source, self.several) {
            ([one], _) => (self.one)(one),
            (segments, Some(several)) => several(segments),
            (segments, None) => {
                self.joined.clear();
                (segments.iter()).for_each(|one| self.joined.extend_from_slice(one));
                (self.one)(&self.joined)
            }
        };
        digest.write(to);
        Ok(written(self.len))
    }

    fn max_segments(&self) -> usize {
        MAX_SEGMENTS
    }
}
