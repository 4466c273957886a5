//! The registry of compression libraries.

pub(crate) mod entry;

use entry::Codec;

use crate::family::{Chosen, Family, Lengths, Memory, Parameter, Verification};
use crate::variant::Entry;
use crate::{Format, Operation, deflate, lz4, zstd};

const FORMAT: Parameter =
    Parameter { name: "format", doc: "the format of the compressed side", default: "deflate" };
/// Libraries that most systems have installed.
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
    // Stored DEFLATE blocks add 5 bytes for each 64 KiB, LZ4 adds 1 byte in 255, and frames add a
    // header. Some libraries take a slower path if the destination is only as long as the result.
    result_bytes_max: |_, _, bytes| bytes + bytes / 64 + 1024,
    entries: |operation| ranked(operation, |codec| codec.compress_rank, Codec::compressor),
    memory: |_, chosen, source_bytes| {
        let bytes = of(chosen, |codec, level| (codec.compressor_bytes)(level, source_bytes));
        Memory { shared: 0, kernel: bytes }
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
    entries: |operation| ranked(operation, |codec| codec.decompress_rank, Codec::decompressor),
    memory: |_, chosen, _| Memory {
        shared: 0,
        kernel: of(chosen, |codec, _| codec.decompressor_bytes),
    },
    ..COMPRESS
};

/// Applies `bytes` to the chosen codec and level. Returns 0 if no codec was chosen.
fn of(chosen: Option<Chosen>, bytes: impl Fn(&Codec, u32) -> u64) -> u64 {
    let codec = |one: &Chosen| all().into_iter().find(|codec| codec.library.name == one.variant);
    let found = chosen.and_then(|one| Some((codec(&one)?, one.level)));
    found.map_or(0, |(codec, level)| bytes(codec, level))
}

fn all() -> Vec<&'static Codec> {
    [deflate::CODECS, lz4::CODECS, zstd::CODECS].concat()
}

/// Returns the libraries for the operation's format by ascending rank.
fn ranked(
    operation: Operation,
    rank: fn(&Codec) -> u8,
    entry: fn(&'static Codec, Format) -> Entry,
) -> Vec<Entry> {
    let (Operation::Compress(format) | Operation::Decompress(format)) = operation else {
        return Vec::new();
    };
    let mut codecs: Vec<&Codec> =
        (all().into_iter()).filter(|codec| codec.formats.contains(&format)).collect();
    codecs.sort_by_key(|codec| rank(codec));
    codecs.into_iter().map(|codec| entry(codec, format)).collect()
}
