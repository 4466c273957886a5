//! What a hash function's entry in the registry holds, and the kernel that is made of it.

use super::calls::Inputs;
use super::{LIBRARIES, low};
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
    /// [`Calls::chain`](super::Calls::chain), with the function in the loop.
    pub chain: fn(&Inputs, u64) -> u64,
    /// [`Calls::row`](super::Calls::row), with the function in the loop.
    pub row: fn(&Inputs, u64) -> u64,
}

/// A [`Function`] out of an algorithm and a function of bytes; and, for what can go on with another
/// segment, one of several segments.
macro_rules! function {
    ($algorithm:ident, $one:expr) => {
        $crate::hash::function::function!($algorithm, $one, None)
    };
    ($algorithm:ident, $one:expr, $several:expr) => {
        $crate::hash::function::Function {
            algorithm: $crate::HashAlgorithm::$algorithm,
            kernel: |algorithm| $crate::hash::function::kernel(algorithm, $one, $several),
            chain: |inputs, calls| $crate::hash::calls::chain($one, inputs, calls),
            row: |inputs, calls| $crate::hash::calls::row($one, inputs, calls),
        }
    };
}
pub(super) use function;

/// The functions that compute `algorithm`, with their libraries.
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

/// A digest: a number, written big-endian, or bytes.
pub(super) trait Digest {
    /// Writes it to a destination of its length.
    fn write(&self, to: &mut [u8]);

    /// [`low`] of it.
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

/// A digest of several segments.
type OfSegments<D> = fn(&[&[u8]]) -> D;

/// A hash function's kernel. Without `several`, several segments are joined first.
pub(super) fn kernel<D: Digest + 'static>(
    algorithm: HashAlgorithm,
    one: fn(&[u8]) -> D,
    several: Option<OfSegments<D>>,
) -> Box<dyn Kernel> {
    Box::new(Hasher {
        len: algorithm.digest_len(),
        one,
        several,
        joined: Vec::new(),
    })
}

struct Hasher<D> {
    /// Of the digest.
    len: usize,
    one: fn(&[u8]) -> D,
    several: Option<OfSegments<D>>,
    /// Several segments in a row.
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
