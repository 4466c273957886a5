//! All parameters, by field. Field owners add lines; the first that covers a name is its meaning.

use super::{Parameter, Step};
use crate::Axis::{self, Batch, Bytes, Cores, Depth};
use crate::Dimension::{self, Count, Frequency, Power, Rate, Size, Time};

/// Where some sources print a time and others only how it compares.
const TIME: &[Dimension] = &[Time, Count];
/// Where some sources print a rate and others only how it compares.
const RATE: &[Dimension] = &[Rate, Count];
/// Where some sources print operations a second and others only how they compare.
const OPERATIONS: &[Dimension] = &[Frequency, Count];

/// Where each study varies something else.
const ANY: &[Axis] = &[Bytes, Cores, Depth, Batch];

const fn number(
    name: &'static str,
    dimensions: &'static [Dimension],
    about: &'static str,
) -> Parameter {
    Parameter::number(name, dimensions, about)
}

const fn table(
    name: &'static str,
    by: &'static [Axis],
    dimensions: &'static [Dimension],
    about: &'static str,
) -> Parameter {
    Parameter::table(name, by, dimensions, about)
}

/// Every parameter.
#[rustfmt::skip]
pub static PARAMETERS: &[Parameter] = &[
    // The machine.
    number("cpu.cores", &[Count], "cores").between(1.0, 1e4).measured(Step::Machine),
    number("cpu.threads", &[Count], "hardware threads of all cores").between(1.0, 1e5).measured(Step::Machine),
    number("cpu.clock", &[Frequency], "clock of a core").between(1e7, 2e10).measured(Step::Machine),
    number("memory.size", &[Size], "memory").measured(Step::Machine),
    number("memory.l2", &[Size], "second-level caches, all of them together").measured(Step::Machine),
    number("memory.l3", &[Size], "third-level caches, all of them together").measured(Step::Machine),
    number("network.rate", &[Rate], "one network port"),
    number("pcie.rate", &[Rate], "the link between host and card, a direction, after encoding"),
    number("power.limit", &[Power], "what the card draws at most"),

    // Compute and strings, on one core.
    number("compute.**", OPERATIONS, "operations of one kind, type and direction on one core"),
    table("string.*", &[Bytes], OPERATIONS, "a library function on strings of so many bytes, on one core"),
    table("hash.**", ANY, &[Rate, Time, Frequency, Count], "a hash function over keys of so many bytes, on one core"),
    table("cipher.*", &[Bytes], RATE, "a cipher on one core over buffers of so many bytes"),
    number("ml.**", &[Time, Count], "inference of a model"),

    // Memory and storage.
table("memory.latency.random", &[Bytes], &[Time], "a dependent read at random from a block of so many bytes, all of it").measured(Step::Memory),
    table("memory.latency.small-pages", &[Bytes], &[Time], "the same beyond what a read of the first-level cache takes, with the system's small pages").measured(Step::Memory),
    table("memory.latency.huge-pages", &[Bytes], &[Time], "the same with huge pages").measured(Step::Memory),
    table("memory.latency.*", &[Bytes], &[Count], "such a read over that of another card or host, or of small pages over huge ones"),
    table("memory.tlb-misses.*", &[Bytes], &[Count], "misses of the translation cache over those of another card"),
    table("memory.access.**", &[Bytes], OPERATIONS, "reads or writes of a word a second, in order or at random, in a block of so many bytes"),
    table("memory.**", &[Bytes], RATE, "bytes moved on one core by a library function"),
    table("stream.*", &[Cores], RATE, "a kernel (copy, scale, add, triad) over arrays that fit no cache").measured(Step::Memory),
    table("storage.latency.**", &[Bytes], TIME, "one access of so many bytes at a time"),
    table("storage.**", &[Bytes], RATE, "accesses of so many bytes"),

    // Jobs on a device, by completion: `poll` or `event`.
    number("job.cost.*.*", TIME, "a job's part in the time between doorbells: operation, completion").measured(Step::Jobs),
    number("batch.cost.*.*", TIME, "a doorbell's part in the time between doorbells, whatever the number of jobs: operation, completion").measured(Step::Jobs),
    number("job.latency.*.*", TIME, "one job of the smallest size on an idle device, round trip: operation, completion").measured(Step::Jobs),
    table("job.rate.*", &[Bytes], RATE, "what the caller sees with jobs of so many bytes of source and a full queue: operation").measured(Step::Jobs),
    table("job.depth.*", &[Depth], RATE, "what the caller sees with so many jobs in flight: operation").measured(Step::Jobs),
    table("job.batch.*", &[Batch], RATE, "what the caller sees with so many jobs a doorbell: operation").measured(Step::Jobs),
    table("job.cores.*", &[Cores], RATE, "what the caller sees with so many threads of the device: operation").measured(Step::Jobs),
    number("job.cpu.*.*", TIME, "time of the host's cores that a job takes: operation, completion").measured(Step::Jobs),

    // Contexts.
    number("context.init.*", TIME, "initialising a context: operation").measured(Step::Contexts),
    number("context.memory.*", TIME, "making and mapping memory of a context: operation").measured(Step::Contexts),
    number("context.discovery.*", TIME, "finding and opening the device: operation").measured(Step::Contexts),
    number("context.end.*", TIME, "ending a context, seen by asking without pause: operation").measured(Step::Contexts),
    number("context.reconfiguration.*", TIME, "changing a context that is in use: operation").measured(Step::Contexts),

    // DMA and RDMA.
    table("dma.copy.latency.*", &[Bytes], TIME, "one copy of so many bytes, round trip: completion").measured(Step::Copies),
    table("dma.copy.rate.*", &[Bytes], RATE, "copies of so many bytes with a full queue: completion").measured(Step::Copies),
    number("dma.max", &[Size], "the longest copy"),
    table("dma.**", ANY, &[Time, Rate, Frequency, Size, Count], "DMA between host and card"),
    table("rdma.**", ANY, &[Time, Rate, Frequency, Size, Count], "RDMA between nodes"),
    table("tcp.**", ANY, &[Rate, Time, Frequency, Count], "TCP between nodes"),
    table("pcie.**", ANY, &[Rate, Time, Size, Count], "the link between host and card"),
    table("routing.**", ANY, &[Rate, Time, Count], "traffic that the card forwards"),

    // Codecs and Arrow.
    number("codec.core.gap", &[Count], "how much slower one core runs than the host's: 0.51 is half as fast").between(0.001, 0.999),
    number("codec.core.gain", &[Count], "how much faster one core runs than the one before it: 0.4 is 1.4 times as fast"),
    number("codec.context.init.share", &[Count], "initialising a context as a share of a task's time").between(0.001, 0.999),
    number("codec.engine.rate", &[Rate], "the engine by its own clock, mean over all its tasks"),
    number("codec.*.*.engine.**", &[Rate], "the engine by its own clock: codec, direction, then corpus or sweep"),
    number("codec.*.*.engine", &[Rate], "the engine by its own clock, mean over files: codec, direction"),
    number("codec.*.*.split", &[Rate], "its part of an input shared between a core and an engine, on the uncompressed side: codec, direction"),
    number("codec.*.*.split.host", &[Count], "throughput of a shared input from the host over that from the card's cores: codec, direction"),
    number("codec.*.*.saved", &[Count], "share of the host's CPU time saved with nine tenths on the device: codec, direction").between(0.001, 0.999),
    number("codec.*.reduction", &[Count], "how much smaller the corpus gets: codec").between(0.001, 0.999),
    table("codec.*.*.speedup.**", &[Bytes], &[Count], "the engine over all threads of the card's own cores: codec, direction"),
    table("codec.*.*.speedup", &[Bytes], &[Count], "the engine over all threads of its study's host: codec, direction"),
    table("codec.regex.slowdown.**", &[Bytes], &[Count], "all threads of the card's own cores over the engine"),
    table("codec.regex.slowdown", &[Bytes], &[Count], "all threads of its study's host over the engine"),
    table("codec.regex.*.batch", &[Batch], &[Rate], "the engine by jobs a doorbell, at 1 KiB buffers: pattern"),
    number("codec.regex.*.rate", &[Rate], "matching on a core: library"),
    number("codec.*.*.*", &[Rate], "a codec on one core: codec, direction, then rate, small, large or corpus (inputs)"),
    number("arrow.*.*.time", &[Time], "one table of the study, on one thread: direction, codec"),
    number("arrow.left.*", &[Count], "what a codec leaves of a table's bytes").between(0.001, 1.0),
    number("arrow.partition.host", &[Count], "partitioning on the host over the card's cores"),
    number("arrow.core.gap", &[Count], "the host's cores over the card's"),
    number("arrow.*.*.*", &[Count], "speed-up of the engine over the host's codec: direction, codec, then one thread or all"),

    // Key-value stores.
    number("kv.dpu-only.rate.*", &[Frequency], "requests a second of a store on the card alone, all its cores: mix of YCSB"),
    number("kv.dpu-only.latency.*", &[Time], "its mean latency under full load: mix"),
    number("kv.cpu-only.rate.*", &[Frequency], "requests a second of a store on the host alone, with as many cores as the card has: mix"),
    number("kv.cpu-only.rate", &[Frequency], "the same, mix and card not told"),
    number("kv.cpu-only.latency.*", &[Time], "its mean latency under full load: mix"),
    number("kv.cpu-only.gain", &[Count], "throughput of a store on the host over one on the card"),
    number("kv.cpu-only.deficit", &[Count], "how much less throughput a store on the host has than one on the card").between(0.001, 0.999),
    number("kv.cpu-only.delay.*", &[Count], "latency of a store on the host over one on the card: least and most, by load"),
    number("kv.cpu-only.delay-excess", &[Count], "how much more latency a store on the host has than one on the card"),
    number("kv.lat.rate.*", &[Frequency], "requests a second with communication on the card and a host core for each Arm core: mix"),
    number("kv.lat.latency.*", &[Time], "its mean latency under full load: mix"),
    number("kv.engine.rate", &[Frequency], "requests a second of one host core that only gets and sets"),
    number("kv.dual.dma-doubling", &[Count], "throughput gained on the card by DMAs of 4 KiB instead of 2 KiB").between(0.0, 0.999),
    number("kv.dual.loss", &[Count], "throughput that the card loses when many host cores serve clients of their own").between(0.001, 0.999),
    number("kv.dual.knee", &[Count], "host cores from which it loses that").between(1.0, 1e4),
    number("kv.share.*.*", &[Count], "part of a host core's time: receive, parse, response, getset or others, then mix").between(0.001, 0.999),
    number("kv.packet.overhead", &[Size], "bytes that a packet takes over PCIe beside key and value"),
    number("kv.redis.rate", &[Frequency], "requests a second of Redis"),
    number("kv.onpath.*.rate", &[Frequency], "requests a second of a server on the host: submode"),
    number("kv.onpath.*.latency", &[Time], "its latency at the highest load: submode"),
    number("kv.onpath.*.gain", &[Count], "throughput over that of submodes 1 and 2: submode"),
    number("kv.herd.**", &[Count], "pairings of HERD's clients and server, against both on hosts"),
    number("kv.mica.**", &[Count], "pairings of MICA's clients and server, against both on hosts"),
    number("kv.hash.*.*", &[Count], "part of a core's time that hashing takes: store, then host or soc").between(0.001, 0.999),

    // Queries.
    table("scan.**", ANY, &[Frequency, Rate, Time, Count], "scanning a table"),
    table("index.**", ANY, &[Frequency, Time, Count], "an index in memory"),
    table("query.**", ANY, &[Time, Frequency, Count], "queries of a database"),
];
