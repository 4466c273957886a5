//! LZ4, as single blocks and as frames, through the C library and through portable Rust.
//!
//! Frames have independent blocks, the content's size and its checksum, as those of the
//! command-line tool have by default but for the size.

mod block;
mod c;
mod flex;
pub mod frame;

pub(crate) use c::StreamDecoder;

use crate::Format;
use crate::codec::entry::Codec;

/// The registry of libraries for LZ4.
pub(crate) const CODECS: &[&Codec] = &[&c::CODEC, &flex::CODEC];

const FORMATS: &[Format] = &[Format::Lz4Block, Format::Lz4];
