//! LZ4 as single blocks and as frames, by the C library and by portable Rust.
//!
//! Frames have independent blocks, the size of the content and its checksum. The command-line tool
//! writes the same by default, without the size.

mod block;
mod c;
mod flex;
pub mod frame;

pub(crate) use c::StreamDecoder;

use crate::Format;
use crate::codec::entry::Codec;

/// Registry of the libraries for LZ4.
pub(crate) const CODECS: &[&Codec] = &[&c::CODEC, &flex::CODEC];

const FORMATS: &[Format] = &[Format::Lz4Block, Format::Lz4];
