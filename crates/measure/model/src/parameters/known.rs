//! All parameters, by field. Field owners add lines; the first that covers a name is its meaning.

use super::{Parameter, Step};
use crate::Axis::{self, Batch, Bytes, Cores, Depth};
use crate::Dimension::{self, Count, Frequency, Power, Rate, Size, Time};

/// Dimensions of a parameter that some sources print as a time and others only as a ratio.
const TIME: &[Dimension] = &[Time, Count];
/// Dimensions of a parameter that some sources print as a rate and others only as a ratio.
const RATE: &[Dimension] = &[Rate, Count];
/// Dimensions of a parameter that some sources print as operations a second and others only as a
/// ratio.
const OPERATIONS: &[Dimension] = &[Frequency, Count];

/// A ratio, or a share.
const RATIO: &[Dimension] = &[Count];

/// Sources of parameters that no step of `overside calibrate` measures.
mod by {
    pub(super) const SHEET: &str = "the card's data sheet";
    pub(super) const LSPCI: &str = "lspci -vv (LnkSta, MaxPayload)";
    pub(super) const LOOP: &str = "a loop of such operations on one core of either machine";
    pub(super) const HASH: &str = "the task `hash` with `calls` on both (`overside run hash`)";
    pub(super) const STRINGS: &str = "a loop of that function on one core";
    pub(super) const OPENSSL: &str = "openssl speed on one core";
    pub(super) const LATENCY: &str =
        "a chase of dependent reads on both machines: `overside calibrate` on each, and divide";
    pub(super) const PERF: &str = "perf stat -e dTLB-load-misses on both cards";
    pub(super) const SYSBENCH: &str = "sysbench memory with one thread and that block size";
    pub(super) const MEMBENCH: &str = "lmbench's bw_mem on one core";
    pub(super) const FIO: &str =
        "fio with that access and block size, best of all depths and threads";
    pub(super) const DMA_PERF: &str = "the task `dma` with that length on the card, polled and by events, from either side (`overside run dma-latency`)";
    pub(super) const DMA_PEAK: &str = "the task `dma` with 64 KiB and a full queue from that side (`overside run dma-throughput`)";
    pub(super) const DMA_BESIDE: &str =
        "timing DMAs alone, and while a second stream fills the card's path to memory";
    pub(super) const RDMA_OWN: &str =
        "ib_read_lat or ib_write_lat (perftest) between host and card, over a DMA of that length";
    pub(super) const RDMA_INLINE: &str =
        "ib_write_lat -I (perftest) between host and card, over a DMA of that length";
    pub(super) const RDMA_EVENT: &str =
        "ib_write_lat -e (perftest) between host and card, over a polled DMA";
    pub(super) const RDMA_PATH: &str = "ib_read_lat, ib_write_lat or ib_send_lat (perftest) between two hosts, with the card's switch in the path and without";
    pub(super) const RDMA_LAT: &str =
        "ib_read_lat (perftest) from another host to the card and to its host";
    pub(super) const RDMA_BW: &str =
        "ib_read_bw (perftest) from another host to the card and to its host, one connection each";
    pub(super) const IPERF_CORES: &str = "iperf3 that ends on that machine's cores";
    pub(super) const IPERF_PATH: &str = "iperf3 between two hosts through the card in that mode";
    pub(super) const TCP_LAT: &str =
        "sockperf or netperf TCP_RR from another host to the card and to its host";
    pub(super) const TASK: &str = "a box with that task there (`overside run`)";
    pub(super) const ARROW: &str = "timing the conversion of the study's tables there";
    pub(super) const YCSB: &str = "YCSB against such a store there";
    pub(super) const STORE: &str = "running that store's clients and server in both places";
    pub(super) const PROFILER: &str = "perf record of the server's cores under full load";
    pub(super) const SCAN: &str =
        "scanning TPC-H's lineitem there with so many cores, a hundredth of it kept";
    pub(super) const INDEX: &str = "uniform look-ups in a B+tree (LMDB) with all cores";
}

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
    number("network.rate", &[Rate], "one network port").with(by::SHEET),
    number("power.limit", &[Power], "what the card draws at most").with(by::SHEET),

    // Compute and strings, on one core.
    number("compute.int8.*", OPERATIONS, "add, sub, mul or div of such integers, on one core").between(1e6, 1e12).with(by::LOOP),
    number("compute.int32.*", OPERATIONS, "the same").between(1e6, 1e12).with(by::LOOP),
    number("compute.int128.*", OPERATIONS, "the same").between(1e6, 1e12).with(by::LOOP),
    number("compute.fp32.*", OPERATIONS, "add, sub, mul or div of such floating-point numbers, on one core").between(1e6, 1e12).with(by::LOOP),
    number("compute.fp64.*", OPERATIONS, "the same").between(1e6, 1e12).with(by::LOOP),
    number("compute.7zip", &[Frequency], "instructions a second of 7-Zip's benchmark").between(1e6, 1e13).with("7z b"),
    number("compute.single-thread.gain", RATIO, "how much faster one core runs codecs and patterns than one of the card before it").between(0.001, 100.0).with(by::LOOP),
    number("compute.single-thread.gap-to-x86", RATIO, "how much slower one core runs them than a host's").between(0.001, 0.999).with(by::LOOP),
    table("string.*", &[Bytes], OPERATIONS, "a library function on strings of so many bytes, on one core").with(by::STRINGS),
    number("hash.*.over-bf1", RATIO, "bandwidth of a hash function over that on a BlueField-1; `any`: over several functions").between(0.01, 100.0).with(by::HASH),
    number("hash.*.over-bf2", RATIO, "the same, over a BlueField-2").between(0.01, 100.0).with(by::HASH),
    number("hash.*.behind-host", RATIO, "a host's bandwidth of a hash function over the card's").between(0.01, 1000.0).with(by::HASH),
    number("hash.*.latency-saved", RATIO, "how much shorter a hash takes than on the card before it").between(0.001, 0.999).with(by::HASH),
    table("cipher.*", &[Bytes], RATE, "a cipher on one core over buffers of so many bytes").with(by::OPENSSL),

    // Memory and storage.
    table("memory.latency.random", &[Bytes], &[Time], "a dependent read at random from a block of so many bytes, all of it").measured(Step::Memory),
    table("memory.latency.small-pages", &[Bytes], &[Time], "the same beyond what a read of the first-level cache takes, with the system's small pages").measured(Step::Memory),
    table("memory.latency.huge-pages", &[Bytes], &[Time], "the same with huge pages").measured(Step::Memory),
    table("memory.latency.*", &[Bytes], RATIO, "such a read over that of another card or host, or of small pages over huge ones").with(by::LATENCY),
    table("memory.tlb-misses.*", &[Bytes], RATIO, "misses of the translation cache over those of another card").with(by::PERF),
    table("memory.access.random-read", &[Bytes], OPERATIONS, "reads of a word a second at random, in a block of so many bytes").between(1e3, 1e12).with(by::SYSBENCH),
    table("memory.access.random-write", &[Bytes], OPERATIONS, "writes of a word at random").between(1e3, 1e12).with(by::SYSBENCH),
    table("memory.access.sequential-read", &[Bytes], OPERATIONS, "reads of a word in order").between(1e3, 1e12).with(by::SYSBENCH),
    table("memory.access.sequential-write", &[Bytes], OPERATIONS, "writes of a word in order").between(1e3, 1e12).with(by::SYSBENCH),
    table("memory.copy", &[Bytes], RATE, "bytes copied by a library function on one core").with(by::MEMBENCH),
    table("memory.fill", &[Bytes], RATE, "bytes filled by a library function on one core").with(by::MEMBENCH),
    table("memory.load", &[Bytes], RATE, "bytes read on one core").with(by::MEMBENCH),
    table("stream.*", &[Cores], RATE, "a kernel (copy, scale, add, triad) over arrays that fit no cache").measured(Step::Memory),
    table("storage.random-read", &[Bytes], RATE, "reads of so many bytes at random").between(1e3, 1e13).with(by::FIO),
    table("storage.random-write", &[Bytes], RATE, "writes of so many bytes at random").between(1e3, 1e13).with(by::FIO),
    table("storage.sequential-read", &[Bytes], RATE, "reads of so many bytes in order").between(1e3, 1e13).with(by::FIO),
    table("storage.sequential-write", &[Bytes], RATE, "writes of so many bytes in order").between(1e3, 1e13).with(by::FIO),

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

    // The link between host and card.
    number("pcie.rate", &[Rate], "the link between host and card, a direction, after encoding").between(1e7, 1e12).with(by::LSPCI),
    number("pcie.payload", &[Size], "payload of its packets, as negotiated").between(64.0, 4096.0).with(by::LSPCI),
    number("pcie.packet.bytes", &[Size], "the longest packet of a job's data").between(64.0, 4096.0).with(by::LSPCI),
    number("pcie.packet.time", &[Time], "what one more packet adds to a job").between(0.001, 1e6).with(by::DMA_PERF),

    // DMA. Times of short DMAs are counted in that of a polled one, where nobody printed it.
    table("dma.copy.latency.*", &[Bytes], TIME, "one copy of so many bytes, round trip: completion").measured(Step::Copies),
    table("dma.copy.rate.*", &[Bytes], RATE, "copies of so many bytes with a full queue: completion").measured(Step::Copies),
    number("dma.host.peak", &[Rate], "the most that DMAs move, started by the host").between(1e6, 1e12).measured(Step::Copies),
    number("dma.dpu.peak", &[Rate], "the same, started by the card").between(1e6, 1e12).with(by::DMA_PEAK),
    number("dma.host.peak.cores", &[Count], "the fewest cores of the host with which DMAs move the most").between(1.0, 1e4).with(by::DMA_PEAK),
    number("dma.dpu.peak.cores", &[Count], "the same of the card").between(1.0, 1e4).with(by::DMA_PEAK),
    number("dma.polled.rate", &[Frequency], "short polled DMAs a second of one core").between(1e3, 1e9).measured(Step::Copies),
    number("dma.knee", &[Size], "the length that takes as long to move as the rest of a polled DMA").between(1.0, 1e9).with(by::DMA_PERF),
    number("dma.host.read.packet", &[Size], "the length that a packet costs as much as: a read by the host").between(1.0, 1e5).with(by::DMA_PERF),
    number("dma.host.write.packet", &[Size], "the same, a write by the host").between(1.0, 1e5).with(by::DMA_PERF),
    number("dma.dpu.read.packet", &[Size], "the same, a read by the card").between(1.0, 1e5).with(by::DMA_PERF),
    number("dma.dpu.write.packet", &[Size], "the same, a write by the card").between(1.0, 1e5).with(by::DMA_PERF),
    number("dma.event.host.latency", RATIO, "a short DMA by events over a polled one, started by the host").between(0.1, 1e4).with(by::DMA_PERF),
    number("dma.event.dpu.latency", RATIO, "the same, started by the card").between(0.1, 1e4).with(by::DMA_PERF),
    number("dma.event.initiator", RATIO, "latency of a DMA by events started by the card over one by the host").between(0.1, 1e4).with(by::DMA_PERF),
    number("dma.event.throughput", RATIO, "rate of polled DMAs over that of DMAs by events").between(0.1, 1e4).with(by::DMA_PERF),
    number("dma.event.throughput.initiator", RATIO, "rate of DMAs by events started by the host over that of the card's").between(0.1, 1e4).with(by::DMA_PERF),
    number("dma.event.host.core", RATIO, "how busy a core of the host is with short DMAs by events").between(0.001, 1.0).with(by::DMA_PERF),
    number("dma.event.dpu.core", RATIO, "how busy a core of the card is with them").between(0.001, 1.0).with(by::DMA_PERF),
    number("dma.contended.stretch", RATIO, "how many times as long a DMA takes beside a full stream of others").between(1.01, 1e4).with(by::DMA_BESIDE),
    number("dma.contended.drop", RATIO, "what traffic loses beside it").between(0.001, 0.999).measured(Step::Traffic),

    // RDMA: what a DMA takes over it between host and card, and what it takes between machines.
    number("rdma.host.read.small", RATIO, "a short DMA over RDMA: a read by the host").between(0.01, 100.0).with(by::RDMA_OWN),
    number("rdma.host.read.large", RATIO, "the same, long").between(0.01, 100.0).with(by::RDMA_OWN),
    number("rdma.host.write.small", RATIO, "the same, a short write by the host").between(0.01, 100.0).with(by::RDMA_OWN),
    number("rdma.host.write.large", RATIO, "the same, long").between(0.01, 100.0).with(by::RDMA_OWN),
    number("rdma.host.write.inline", RATIO, "the same, with the payload in the request").between(0.01, 100.0).with(by::RDMA_INLINE),
    number("rdma.dpu.read.small", RATIO, "the same, a short read by the card").between(0.01, 100.0).with(by::RDMA_OWN),
    number("rdma.dpu.read.large", RATIO, "the same, long").between(0.01, 100.0).with(by::RDMA_OWN),
    number("rdma.dpu.write.small", RATIO, "the same, a short write by the card").between(0.01, 100.0).with(by::RDMA_OWN),
    number("rdma.dpu.write.large", RATIO, "the same, long").between(0.01, 100.0).with(by::RDMA_OWN),
    number("rdma.dpu.write.inline", RATIO, "the same, with the payload in the request").between(0.01, 100.0).with(by::RDMA_INLINE),
    number("rdma.event.latency", RATIO, "RDMA by events over a short polled DMA").between(0.1, 1e4).with(by::RDMA_EVENT),
    number("rdma.onpath.*.small", RATIO, "how much longer a short message takes between hosts with the card's switch in the path: read, write or send").between(0.001, 10.0).with(by::RDMA_PATH),
    number("rdma.onpath.*.large", RATIO, "the same from 8 KiB on").between(0.001, 10.0).with(by::RDMA_PATH),
    number("rdma.remote.latency", RATIO, "a read that ends on the card over one on its host").between(0.01, 100.0).with(by::RDMA_LAT),
    number("rdma.remote.rate", RATIO, "throughput of one connection that ends on the card over one on its host").between(0.01, 100.0).with(by::RDMA_BW),

    // TCP.
    number("tcp.core.rate", &[Rate], "TCP that ends on one core").between(1e5, 1e12).with(by::IPERF_CORES),
    number("tcp.peak.rate", &[Rate], "TCP that ends on all cores").between(1e5, 1e12).with(by::IPERF_CORES),
    number("tcp.remote.latency", RATIO, "a ping-pong that ends on the card over one on its host").between(0.01, 100.0).with(by::TCP_LAT),
    number("tcp.fastpath.rate", &[Rate], "TCP between hosts past the card's cores").between(1e5, 1e12).with(by::IPERF_PATH),
    number("tcp.sm1.rate", &[Rate], "through Open vSwitch in the kernel of the card's cores").between(1e5, 1e12).with(by::IPERF_PATH),
    number("tcp.sm2.rate", &[Rate], "through Open vSwitch on DPDK on them").between(1e5, 1e12).with(by::IPERF_PATH),
    number("tcp.sm3.gain", RATIO, "through a DPDK driver alone, over that").between(0.01, 100.0).with(by::IPERF_PATH),
    number("tcp.slowpath.deficit", RATIO, "how much less passes through the card's cores than past them").between(0.001, 0.999).with(by::IPERF_PATH),

    // Codecs and Arrow.
    number("codec.core.gap", &[Count], "how much slower one core runs than the host's: 0.51 is half as fast").between(0.001, 0.999).with(by::TASK),
    number("codec.core.gain", &[Count], "how much faster one core runs than the one before it: 0.4 is 1.4 times as fast").with(by::TASK),
    number("codec.context.init.share", &[Count], "initialising a context as a share of a task's time").between(0.001, 0.999).with(by::TASK),
    number("codec.engine.rate", &[Rate], "the engine by its own clock, mean over all its tasks").with(by::TASK),
    number("codec.*.*.engine.**", &[Rate], "the engine by its own clock: codec, direction, then corpus or sweep").with(by::TASK),
    number("codec.*.*.engine", &[Rate], "the engine by its own clock, mean over files: codec, direction").with(by::TASK),
    number("codec.*.*.split", &[Rate], "its part of an input shared between a core and an engine, on the uncompressed side: codec, direction").with(by::TASK),
    number("codec.*.*.split.host", &[Count], "throughput of a shared input from the host over that from the card's cores: codec, direction").with(by::TASK),
    number("codec.*.*.saved", &[Count], "share of the host's CPU time saved with nine tenths on the device: codec, direction").between(0.001, 0.999).with(by::TASK),
    number("codec.*.reduction", &[Count], "how much smaller the corpus gets: codec").between(0.001, 0.999).with(by::TASK),
    table("codec.*.*.speedup.**", &[Bytes], &[Count], "the engine over all threads of the card's own cores: codec, direction").with(by::TASK),
    table("codec.*.*.speedup", &[Bytes], &[Count], "the engine over all threads of its study's host: codec, direction").with(by::TASK),
    table("codec.regex.slowdown.**", &[Bytes], &[Count], "all threads of the card's own cores over the engine").with(by::TASK),
    table("codec.regex.slowdown", &[Bytes], &[Count], "all threads of its study's host over the engine").with(by::TASK),
    table("codec.regex.*.batch", &[Batch], &[Rate], "the engine by jobs a doorbell, at 1 KiB buffers: pattern").with(by::TASK),
    number("codec.regex.*.rate", &[Rate], "matching on a core: library").with(by::TASK),
    number("codec.*.*.*", &[Rate], "a codec on one core: codec, direction, then rate, small, large or corpus (inputs)").with(by::TASK),
    number("arrow.*.*.time", &[Time], "one table of the study, on one thread: direction, codec").with(by::ARROW),
    number("arrow.left.*", &[Count], "what a codec leaves of a table's bytes").between(0.001, 1.0).with(by::ARROW),
    number("arrow.left.*.*", &[Count], "the same of one table of the study: codec, table").between(0.001, 1.0).with(by::ARROW),
    number("arrow.partition.host", &[Count], "partitioning on the host over the card's cores").with(by::ARROW),
    number("arrow.core.gap", &[Count], "the host's cores over the card's").with(by::ARROW),
    number("arrow.*.*.*", &[Count], "speed-up of the engine over the host's codec: direction, codec, then one thread or all").with(by::ARROW),
    number("arrow.*.*.*.*", &[Count], "the same for one table of the study: direction, codec, threads, table").with(by::ARROW),

    // Key-value stores.
    number("kv.dpu-only.rate.*", &[Frequency], "requests a second of a store on the card alone, all its cores: mix of YCSB").with(by::YCSB),
    number("kv.dpu-only.latency.*", &[Time], "its mean latency under full load: mix").with(by::YCSB),
    number("kv.cpu-only.rate.*", &[Frequency], "requests a second of a store on the host alone, with as many cores as the card has: mix").with(by::YCSB),
    number("kv.cpu-only.rate", &[Frequency], "the same, mix and card not stated").with(by::YCSB),
    number("kv.cpu-only.latency.*", &[Time], "its mean latency under full load: mix").with(by::YCSB),
    number("kv.cpu-only.gain", &[Count], "throughput of a store on the host over one on the card").with(by::YCSB),
    number("kv.cpu-only.deficit", &[Count], "how much less throughput a store on the host has than one on the card").between(0.001, 0.999).with(by::YCSB),
    number("kv.cpu-only.delay.*", &[Count], "latency of a store on the host over one on the card: least and most, by load").with(by::YCSB),
    number("kv.cpu-only.delay-excess", &[Count], "how much more latency a store on the host has than one on the card").with(by::YCSB),
    number("kv.lat.rate.*", &[Frequency], "requests a second with communication on the card and a host core for each Arm core: mix").with(by::YCSB),
    number("kv.lat.latency.*", &[Time], "its mean latency under full load: mix").with(by::YCSB),
    number("kv.engine.rate", &[Frequency], "requests a second of one host core that only gets and sets").with(by::YCSB),
    number("kv.dual.dma-doubling", &[Count], "throughput gained on the card by DMAs of 4 KiB instead of 2 KiB").between(0.0, 0.999).with(by::YCSB),
    number("kv.dual.loss", &[Count], "throughput that the card loses when many host cores serve clients of their own").between(0.001, 0.999).with(by::YCSB),
    number("kv.dual.knee", &[Count], "host cores from which it loses that").between(1.0, 1e4).with(by::YCSB),
    number("kv.endpoints", &[Count], "machines of host and card that clients can connect to at once: 2 in the separated-host mode, 1 without it").between(1.0, 2.0).with(by::YCSB),
    number("kv.share.*.*", &[Count], "part of a host core's time: receive, parse, response, getset or others, then mix").between(0.001, 0.999).with(by::PROFILER),
    number("kv.packet.overhead", &[Size], "bytes that a packet takes over PCIe beside key and value").with(by::YCSB),
    number("kv.redis.rate", &[Frequency], "requests a second of Redis").with(by::YCSB),
    number("kv.onpath.*.rate", &[Frequency], "requests a second of a server on the host: submode").with(by::STORE),
    number("kv.onpath.*.latency", &[Time], "its latency at the highest load: submode").with(by::STORE),
    number("kv.onpath.*.gain", &[Count], "throughput over that of submodes 1 and 2: submode").with(by::STORE),
    number("kv.herd.**", &[Count], "pairings of HERD's clients and server, against both on hosts").with(by::STORE),
    number("kv.mica.**", &[Count], "pairings of MICA's clients and server, against both on hosts").with(by::STORE),
    number("kv.hash.*.*", &[Count], "part of a core's time that hashing takes: store, then host or soc").between(0.001, 0.999).with(by::PROFILER),

    // Scans and indexes.
    table("scan.speedup", &[Cores], RATIO, "a table scanned where it lies by so many cores, over a host that pulls it").between(1e-3, 1e4).with(by::SCAN),
    number("scan.pull", &[Frequency], "rows a second of a host that pulls the table").between(1.0, 1e12).with("scanning TPC-H's lineitem over the network"),
    number("index.lookup", &[Frequency], "look-ups a second of all cores").between(1.0, 1e12).with(by::INDEX),
];
