//! The formats of compressed files.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use overside_ops::{Format, Operation, variants};
use serde::Serialize;

use crate::{gzip, lz4, zlib, zstd};

/// Length of the longest chunk in bytes. Longer chunks of compressed files are decompressed in
/// pieces, so this bounds memory.
pub const MAX_CHUNK_BYTES: usize = 64 << 20;

/// Format of a compressed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Container {
    /// gzip (RFC 1952): one member a chunk.
    Gzip,
    /// zlib (RFC 1950): one stream.
    Zlib,
    /// LZ4 frames (lz4_Frame_format.md): one block a chunk.
    Lz4,
    /// Zstandard (RFC 8878): one frame a chunk.
    Zstd,
}

impl Container {
    /// All containers.
    pub const ALL: [Self; 4] = [Self::Gzip, Self::Zlib, Self::Lz4, Self::Zstd];

    /// Returns the suffix of the format's file names: `.gz`, `.zz`, `.lz4`, `.zst`.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Gzip => ".gz",
            Self::Zlib => ".zz",
            Self::Lz4 => ".lz4",
            Self::Zstd => ".zst",
        }
    }

    /// The longest input of a chunk in bytes.
    pub const fn max_chunk_bytes(self) -> usize {
        match self {
            Self::Lz4 => 4 << 20,
            _ => MAX_CHUNK_BYTES,
        }
    }

    /// Returns the operation that compresses a chunk.
    pub const fn compress(self) -> Operation {
        Operation::Compress(match self {
            Self::Gzip => Format::Deflate,
            Self::Zlib => Format::DeflatePart,
            Self::Lz4 => Format::Lz4Block,
            Self::Zstd => Format::Zstd,
        })
    }

    /// The levels that the CPU's libraries have between them, and the one that is used unasked.
    pub fn levels(self) -> Option<(RangeInclusive<u32>, u32)> {
        let libraries = variants(self.compress());
        let ranges = || libraries.iter().filter_map(|library| library.levels.as_ref());
        let (_, default) = ranges().next()?;
        let least = ranges().map(|(range, _)| *range.start()).min()?;
        let most = ranges().map(|(range, _)| *range.end()).max()?;
        Some((least..=most, *default))
    }

    /// Returns the operation that decompresses a part by itself. Returns `None` for zlib, whose
    /// streams have no such parts.
    pub const fn decompress(self) -> Option<Operation> {
        match self {
            Self::Gzip => Some(Operation::Decompress(Format::Deflate)),
            Self::Zlib => None,
            Self::Lz4 => Some(Operation::Decompress(Format::Lz4Block)),
            Self::Zstd => Some(Operation::Decompress(Format::Zstd)),
        }
    }

    /// Detects the format of a file that begins with `bytes`, of which 4 are enough. A skippable frame can
    /// begin an LZ4 file as well as a Zstandard one, so it is not detected here. zlib streams with a window
    /// below 32 KiB, which hardly exist, are too similar to text to be detected.
    pub fn detect(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(&gzip::MAGIC) {
            Some(Self::Gzip)
        } else if lz4::MAGICS.iter().any(|magic| bytes.starts_with(magic)) {
            Some(Self::Lz4)
        } else if bytes.starts_with(&zstd::MAGIC) {
            Some(Self::Zstd)
        } else if zlib::is_usual_header(bytes) {
            Some(Self::Zlib)
        } else {
            None
        }
    }
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Error for a text that names no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no format is called {0:?}; there are gzip, zlib, lz4 and zstd")]
pub struct UnknownContainer(pub String);

impl FromStr for Container {
    type Err = UnknownContainer;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        (Self::ALL.into_iter())
            .find(|container| container.to_string() == name)
            .ok_or_else(|| UnknownContainer(name.into()))
    }
}
