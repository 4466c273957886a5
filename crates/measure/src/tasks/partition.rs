//! `partition`: a table that is unpacked, partitioned and packed again, which
//! `python/overside/tasks/partition.py` has `overside flow bench` do.

use super::spec::{
    Charts, Choice, Labels, Parameter, Reference, Report, TaskSpec, axis, higher, lower,
};

/// How rows come to their partitions.
const ALGORITHMS: [(&str, &str); 3] = [
    ("one-pass", "one pass"),
    ("filters", "filters"),
    ("none", "not partitioned"),
];
const METHODS: [(&str, &str); 2] = [("bits", "lowest bits"), ("hash", "hash")];
/// `--codec` and `--outer` of the command, in one.
const COMPRESSIONS: [(&str, &str); 6] = [
    ("none", "not compressed"),
    ("lz4", "LZ4"),
    ("zstd", "Zstandard"),
    ("outer-deflate", "DEFLATE of messages"),
    ("outer-lz4", "LZ4 of messages"),
    ("outer-zstd", "Zstandard of messages"),
];
const THREADS: [(&str, &str); 8] = [
    ("1", "1"),
    ("2", "2"),
    ("4", "4"),
    ("8", "8"),
    ("16", "16"),
    ("32", "32"),
    ("all", "all cores"),
    ("unbounded", "two a column"),
];

/// All that says how, not what.
const HOW: [&str; 8] = [
    "algorithm",
    "compression",
    "partitions",
    "method",
    "device",
    "threads",
    "rows",
    "passes",
];

/// The stages of a pass: their metrics, and what charts call them.
const STAGES: [(&str, &str); 3] = [
    ("unpack_time", "Unpack"),
    ("partition_time", "Partition"),
    ("repack_time", "Repack"),
];

#[rustfmt::skip]
pub(super) fn spec() -> TaskSpec {
    let parameters = vec![
        Parameter::text("table", "particles or ships, which are made, or a file: Arrow IPC, Parquet or \
            CSV").default("particles"),
        Parameter::integer("rows", "rows of the table; a file is enlarged to so many, and taken as it \
            is without", 1, 100_000_000),
        Parameter::text("key", "the column that decides; of made tables their object's number"),
        Parameter::text("time", "of a file that is enlarged: the column with the time"),
        Parameter::titled("algorithm", "how rows come to their partitions; none: the table is only \
            unpacked and packed", ALGORITHMS).default("one-pass"),
        Parameter::titled("method", "by what of the key", METHODS).default("bits"),
        Parameter::integer("partitions", "tables that it is split into; by bits, a power of two", 2, 1024)
            .default(4),
        Parameter::titled("compression", "of the buffers of messages, or of whole messages (outer), \
            before and after", COMPRESSIONS).default("none"),
        Parameter::text("device", "what compresses and decompresses what it can").names(Reference::Device)
            .default("cpu"),
        Parameter::titled("threads", "threads at once; each submits its jobs to a device", THREADS)
            .default("1"),
        Parameter::integer("passes", "passes of a sample, after one that is not measured", 1, 1000)
            .default(3),
    ];
    TaskSpec {
        name: "partition",
        description: "a table unpacked, partitioned by a key and packed again, from memory to memory",
        operation: None,
        verified: true,
        parameters,
        metrics: vec![
            higher("throughput", "MB/s", "bytes of the table's buffers, not compressed, in the time of all \
                stages"),
            higher("unpack_throughput", "MB/s", "bytes of the table's buffers, not compressed, in the time of \
                unpacking: decompress and validate"),
            higher("partition_throughput", "MB/s", "bytes of the table's buffers in the time of partitioning"),
            higher("repack_throughput", "MB/s", "bytes of the table's buffers, not compressed, in the time of \
                packing: compress and write"),
            lower("time", "ms", "time of a pass, all stages"),
            lower("unpack_time", "ms", "time of unpacking"),
            lower("partition_time", "ms", "time of partitioning"),
            lower("repack_time", "ms", "time of packing"),
            lower("cpu_cost", "s/GB", "host CPU seconds for 10^9 bytes of the table, not compressed"),
            lower("output_bytes", "bytes", "bytes of all partitions, packed"),
            lower("ratio", "-", "bytes of all partitions, packed, over those of the table, not compressed"),
            lower("imbalance", "-", "rows of the largest partition over the mean"),
        ],
        report: Report {
            // Nothing here is a buffer.
            size: "",
            labels: Labels { when: None, parameters: &["algorithm", "compression"] },
            advised: false,
            charts: Charts::Traffic,
            axes: vec![axis("partitions", "Partitions"), axis("rows", "Rows")],
            stages: STAGES.map(|(name, title)| Choice { name, title }).into(),
            ..Report::new("Unpack and pack {table}", &HOW).titled_when("partitions", "Partition {table}")
        },
    }
}
