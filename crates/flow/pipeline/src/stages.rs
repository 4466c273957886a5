//! Kinds of stages, one file each.

mod codec;
pub(super) mod compress;
pub(super) mod decompress;
pub(super) mod filter;
pub(super) mod matching;
pub(super) mod partition;
pub(super) mod rechunk;
pub(super) mod select;
pub(super) mod sort;
mod values;
