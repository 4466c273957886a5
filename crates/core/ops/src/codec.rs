//! The registry of compression libraries.

pub(crate) mod entry;

use entry::Codec;

use crate::family::{Chosen, Family, Lengths, Memory, Parameter, Verification};
use crate::variant::Entry;
use crate::{Format, Operation, deflate, lz4, zstd};

const FORMAT: Parameter = Parameter {
    name: "format",
    doc: "the format of the compressed side",
    default: "deflate",
};
/// The libraries that come with a system.
const USUAL: &[&str] = &["zlib", "lz4"];
const ENGINE: &str = "compression";

/// Registry entry of compression.
pub(crate) static COMPRESS: Family = Family {
    verb: "compress",
    description: "compress buffers; each output is restored and compared",
    title: "Compress to {format}",
    parameter: Some(FORMAT),
    operations: || Format::ALL.map(Operation::Compress).into(),
    lengths: Lengths::Shrinks,
    verification: Verification::Inverse,
    has_levels: true,
    has_patterns: false,
    data: "corpus",
    references: USUAL,
    engine: Some(ENGINE),
    // Stored DEFLATE blocks add 5 bytes each 64 KiB or less, LZ4 1 byte in 255, frames a header; some
    // libraries take a slower path unless they are given more than they need.
    result_bytes_max: |_, _, bytes| bytes + bytes / 64 + 1024,
    entries: |operation| ranked(operation, |codec| codec.compress_rank, Codec::compressor),
    memory: |_, chosen, source_bytes| {
        let bytes = of(chosen, |codec, level| {
            (codec.compressor_bytes)(level, source_bytes)
        });
        Memory {
            shared: 0,
            kernel: bytes,
        }
    },
    known_answers: |_| Ok(()),
};

/// Registry entry of decompression.
pub(crate) static DECOMPRESS: Family = Family {
    verb: "decompress",
    description: "restore compressed buffers; each output is compared with the original",
    title: "Decompress {format}",
    operations: || Format::ALL.map(Operation::Decompress).into(),
    lengths: Lengths::Expands,
    verification: Verification::Original,
    has_levels: false,
    result_bytes_max: |_, _, bytes| bytes,
    entries: |operation| {
        ranked(
            operation,
            |codec| codec.decompress_rank,
            Codec::decompressor,
        )
    },
    memory: |_, chosen, _| Memory {
        shared: 0,
        kernel: of(chosen, |codec, _| codec.decompressor_bytes),
    },
    ..COMPRESS
};

/// Returns what `bytes` says about the codec that was chosen, and 0 if none was.
fn of(chosen: Option<Chosen>, bytes: impl Fn(&Codec, u32) -> u64) -> u64 {
    let codec = |one: &Chosen| {
        all()
            .into_iter()
            .find(|codec| codec.library.name == one.variant)
    };
    let found = chosen.and_then(|one| Some((codec(&one)?, one.level)));
    found.map_or(0, |(codec, level)| bytes(codec, level))
}

fn all() -> Vec<&'static Codec> {
    [deflate::CODECS, lz4::CODECS, zstd::CODECS].concat()
}

/// Returns the libraries for the operation's format, the one with the lowest rank first.
fn ranked(
    operation: Operation,
    rank: fn(&Codec) -> u8,
    entry: fn(&'static Codec, Format) -> Entry,
) -> Vec<Entry> {
    let (Operation::Compress(format) | Operation::Decompress(format)) = operation else {
        return Vec::new();
    };
    let mut codecs: Vec<&Codec> = (all().into_iter())
        .filter(|codec| codec.formats.contains(&format))
        .collect();
    codecs.sort_by_key(|codec| rank(codec));
    codecs
        .into_iter()
        .map(|codec| entry(codec, format))
        .collect()
}
