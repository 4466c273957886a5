//! The kinds of stages, one a file.

mod codec;
pub mod compress;
pub mod decompress;
pub mod filter;
pub mod matching;
pub mod partition;
pub mod rechunk;
pub mod select;
pub mod sort;
mod values;
