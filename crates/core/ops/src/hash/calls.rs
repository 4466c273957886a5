//! Hashes called in a loop without a kernel between loop and hash: the cost of one call can only be
//! measured where the loop does nothing else.

use super::function::{self, Function, Inputs};
use crate::registry::unknown_variant;
use crate::{Error, HashAlgorithm, Operation, Variant};

/// Hash of one library in two loops: dependent calls and independent calls.
pub struct Calls {
    function: &'static Function,
    /// Library that computes the hash.
    pub variant: Variant,
}

impl Calls {
    /// Returns the loops of a hash, by a variant's name or `auto`.
    ///
    /// # Errors
    /// [`Error::UnknownVariant`]
    pub fn new(algorithm: HashAlgorithm, variant: &str) -> Result<Self, Error> {
        let (library, function) = function::all(algorithm)
            .find(|(library, _)| variant == "auto" || library.library.name == variant)
            .ok_or_else(|| unknown_variant(Operation::Hash(algorithm), variant))?;
        Ok(Self { function, variant: library.library.variant() })
    }

    /// Runs `calls` dependent calls: the digest of each picks the input of the next, so none can
    /// begin before the last has ended. Returns the sum of [`low`](super::low) of the digests.
    pub fn chain(&self, inputs: &Inputs, calls: u64) -> u64 {
        (self.function.chain)(inputs, calls)
    }

    /// Runs `calls` independent calls over the inputs in order: the next may begin before the last
    /// has ended. Returns the sum of [`low`](super::low) of the digests.
    pub fn row(&self, inputs: &Inputs, calls: u64) -> u64 {
        (self.function.row)(inputs, calls)
    }
}
