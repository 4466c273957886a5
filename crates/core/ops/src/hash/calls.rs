//! Hashes as calls in a loop, without a kernel between the loop and the hash: what one call costs
//! shows only where nothing else happens beside it.

use super::function::{self, Function, Inputs};
use crate::registry::unknown_variant;
use crate::{Error, HashAlgorithm, Operation, Variant};

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
    /// last has ended. Returns the sum of [`low`](super::low) of the digests.
    pub fn chain(&self, inputs: &Inputs, calls: u64) -> u64 {
        (self.function.chain)(inputs, calls)
    }

    /// So many calls, of one input after the other: the next may begin before the last has ended.
    /// Returns the sum of [`low`](super::low) of the digests.
    pub fn row(&self, inputs: &Inputs, calls: u64) -> u64 {
        (self.function.row)(inputs, calls)
    }
}
