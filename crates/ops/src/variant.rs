//! Libraries as named variants of an operation.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::{Config, Error, Operation};

/// One library that does one operation.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The name that boxes and the command line use: `isal`, `libdeflate`, `zlib`, `hyperscan`...
    pub name: &'static str,
    /// The library's own name.
    pub library: &'static str,
    /// The version that is linked, as the library reports it or as it was built.
    pub version: String,
    /// Written for SIMD units; false for portable scalar code.
    pub simd: bool,
    /// The compression levels it has and the one it uses unasked; `None` without levels.
    pub levels: Option<(RangeInclusive<u32>, u32)>,
}

/// What a kernel made of one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Bytes written at the beginning of the destination.
    pub written: usize,
    /// Matching only: for `search` the offset of the first matching record (`None`: no record
    /// matches), for `count` and `bitmap` the number of matching records.
    pub value: Option<u64>,
}

/// An operation made ready, shared by the threads that run it.
pub trait Prepared: Send + Sync {
    /// The library that was chosen; never "auto".
    fn variant(&self) -> &Variant;

    /// A worker for one thread.
    ///
    /// # Errors
    /// [`Error::Library`] if the library cannot allocate its state.
    fn kernel(&self) -> Result<Box<dyn Kernel>, Error>;
}

/// One thread's worker.
pub trait Kernel: Send {
    /// Processes the concatenation of the `source` segments into the beginning of `destination`.
    /// Each source stands for itself: one call makes or takes one complete stream.
    ///
    /// # Errors
    /// [`Error::OutputTooSmall`], [`Error::Corrupt`], [`Error::TooLarge`] if the library takes
    /// fewer segments, [`Error::Library`]. The kernel can be used again after any of them.
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error>;

    /// The most source segments that one call takes.
    fn max_segments(&self) -> usize {
        1
    }
}

/// The variants of `operation`, the one that `auto` takes first.
pub fn variants(operation: Operation) -> Vec<Variant> {
    let _ = operation;
    Vec::new()
}

/// Makes an operation ready.
///
/// # Errors
/// [`Error::UnknownVariant`], [`Error::Level`], [`Error::Pattern`], [`Error::NoPattern`].
pub fn prepare(config: &Config) -> Result<Arc<dyn Prepared>, Error> {
    Err(Error::UnknownVariant {
        operation: config.operation.to_string(),
        name: config.variant.clone(),
        known: String::new(),
    })
}
