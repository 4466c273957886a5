//! Streams of producers: their batches, duplicates, and acknowledgements.

pub mod batch;
pub mod metadata;
pub(crate) mod opening;
pub(crate) mod producers;
pub(crate) mod put;
pub(crate) mod schemas;
