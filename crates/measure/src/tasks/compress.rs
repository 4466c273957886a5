//! `compress` and `decompress`: buffers of a data set through the codecs.

use super::jobs;
use super::spec::{Metric, Parameter, TaskSpec, higher, lower};
use crate::test::BUFFER_SIZE_MAX;

/// The formats, as boxes and as titles name them.
const FORMATS: [(&str, &str); 6] = [
    ("deflate", "DEFLATE"),
    ("zlib", "DEFLATE in zlib framing"),
    ("gzip", "DEFLATE in gzip framing"),
    ("lz4-block", "LZ4 blocks"),
    ("lz4", "LZ4 frames"),
    ("zstd", "Zstandard"),
];

/// The libraries that come with a system.
const USUAL: &[&str] = &["zlib", "lz4"];

fn format() -> Parameter {
    Parameter::titled("format", "the format of the compressed side", FORMATS).default("deflate")
}

fn output_size() -> Parameter {
    let doc = "a job's output buffer at first, twice as large each time that a result does not fit; \
               without one every result fits; not of placements";
    Parameter::integer("output_size", doc, 1, BUFFER_SIZE_MAX).unit("bytes")
}

#[rustfmt::skip]
fn metrics() -> Vec<Metric> {
    jobs::metrics(vec![
        higher("compressed_throughput", "MB/s", "bytes of the compressed side in the elapsed time; \
            MB is 10^6 bytes"),
        lower("ratio", "-", "compressed bytes / uncompressed bytes"),
        lower("grown", "-", "output_size: mean number of times that a job was run again with a \
            larger output buffer"),
    ])
}

pub(super) fn compress() -> TaskSpec {
    let level = "compression level; without one the library's own";
    jobs::task(
        "compress",
        "compress buffers; each output is restored and compared",
        "compress-{format}",
        vec![
            format(),
            Parameter::integer("level", level, 0, 22),
            output_size(),
        ],
        metrics(),
        "Compress to {format}",
    )
    .compared_with(USUAL)
}

pub(super) fn decompress() -> TaskSpec {
    jobs::task(
        "decompress",
        "restore compressed buffers; each output is compared with the original",
        "decompress-{format}",
        vec![format(), output_size()],
        metrics(),
        "Decompress {format}",
    )
    .compared_with(USUAL)
}
