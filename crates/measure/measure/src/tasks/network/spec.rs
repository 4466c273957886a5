//! Declaration of the task `network`.

use std::sync::LazyLock;

use overside_ops::FAMILIES;
use overside_probe::dma::Link;
use overside_probe::network::CONNECTIONS_MAX;

use crate::node::LOCAL;
use crate::tasks::processor_events;
use crate::tasks::spec::{
    Charts, Choice, Metric, Parameter, Reference, Report, TaskSpec, higher, latencies, lower,
};
use crate::test::{BUFFER_SIZE_MAX, DEPTH_MAX, PATTERNS_MAX, SAMPLE_BYTES_MAX, THREADS_MAX};

/// Names of the jobs that can run beside the traffic: operations of devices, and bytes that move by DMA.
static JOBS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let operations = FAMILIES.iter().flat_map(|family| family.measured());
    let moves = ["dma-read", "dma-write", "dma-send"].map(String::from);
    (operations.map(|operation| operation.to_string())).chain(moves).collect()
});
/// Forwarding paths between two namespaces; `python/overside/bench/network_path.py` builds them.
pub(in crate::tasks) const MODES: [&str; 7] = [
    "direct",
    "bridge",
    "ovs-kernel",
    "ovs-userspace",
    "ovs-dpdk",
    "dpdk-af_packet",
    "dpdk-virtio_user",
];
/// Maximum number of cores of a hop: the number of queues of its devices.
const FORWARDING_CORES_MAX: u64 = 16;

/// Returns the parameter for the number of cores that forward; used by the modes of DPDK.
pub(in crate::tasks) fn forwarding_cores() -> Parameter {
    let doc = "modes of DPDK: the cores that forward, each polling a queue of both ports";
    Parameter::integer("forwarding_cores", doc, 1, FORWARDING_CORES_MAX)
}

pub(in crate::tasks) fn spec() -> TaskSpec {
    let ways = [
        "device",
        "variant",
        "threads",
        "cores",
        "depth",
        "batch",
        "completion",
        "mode",
        "forwarding_cores",
        "source",
        "destination",
        "connections",
        "rate",
        "bit_rate",
        "socket_buffer",
        "server_cores",
        "slice_ms",
    ];
    TaskSpec {
        name: "network",
        description: "round trips and streams over TCP and UDP, at a given rate, through a hop, and \
                      beside jobs",
        operation: None,
        verified: true,
        parameters: traffic().into_iter().chain(jobs()).collect(),
        metrics: metrics(),
        report: Report {
            size: "message_size",
            advised: false,
            charts: Charts::Traffic,
            axes: [
                ("message_size", "Message size"),
                ("depth", "Messages outstanding on a connection"),
                ("connections", "Connections"),
                ("rate", "Offered messages per second"),
                ("bit_rate", "Offered Gb/s"),
            ]
            .map(|(name, title)| Choice { name, title })
            .into(),
            ..Report::new("{protocol} {pattern}", &ways)
                .titled_when("jobs", "{protocol} {pattern} beside jobs ({jobs})")
        },
    }
}

#[rustfmt::skip]
fn traffic() -> Vec<Parameter> {
    let patterns = [("round-trip", "round trips"), ("stream", "stream")];
    let end = |name, who: &str| {
        let doc = format!("{who}: `host`, this machine; or an agent by its name");
        Parameter::text(name, doc)
            .default("host")
            .names(Reference::Node)
    };
    vec![
        Parameter::titled("pattern", "each message comes back, or messages go one way", patterns)
            .default("round-trip"),
        end("source", "who sends and looks at the clock"),
        end("destination", "who answers"),
        Parameter::choice("mode", "build namespaces with this between the ends; without one, the \
            network as it is", &MODES),
        Parameter::titled("protocol", "what carries the messages; UDP: streams with a rate",
            [("tcp", "TCP"), ("udp", "UDP")]).default("tcp"),
        Parameter::integer("message_size", "one message; 64, streams 131072, UDP 1400", 1, 16 << 20)
            .unit("bytes"),
        Parameter::integer("connections", "data connections", 1, CONNECTIONS_MAX as u64).default(1),
        Parameter::integer("threads", "threads of either end", 1, 64).default(1).or_all(),
        Parameter::integer("depth", "round trips: messages outstanding on a connection", 1, 4096)
            .default(1),
        Parameter::integer("batch", "messages in one write", 1, 4096).default(1),
        Parameter::number("rate", "send so many a second over all connections, at even distances; \
            latencies and delays count from the intended times", 0.001, 1e7).unit("messages/s"),
        Parameter::number("bit_rate", "the same as bits of messages; in place of rate", 1e-6, 1e3)
            .unit("Gb/s"),
        Parameter::choice("completion", "wait for sockets, or ask them", &["event", "poll"])
            .default("event"),
        Parameter::cores("cores", "the cores that the client's threads are pinned to"),
        forwarding_cores(),
        processor_events::parameter().default(false),
        Parameter::cores("server_cores", "the same of the server's"),
        Parameter::integer("socket_buffer", "asked of the sockets; without it the system decides",
            1, 1 << 30).unit("bytes"),
        Parameter::number("slice_ms", "tell the sample in slices of this length", 0.1, 60_000.0)
            .unit("ms"),
    ]
}

/// The parameters of the background jobs.
#[rustfmt::skip]
fn jobs() -> Vec<Parameter> {
    vec![
        Parameter::titled("jobs", "run this operation alone, and then in the middle third of the \
            sample", JOBS.iter().map(|name| (name.as_str(), name.as_str()))),
        Parameter {
            links: Link::ALL.map(Link::name).into(),
            ..Parameter::text("device", "jobs: what runs them; dma: what the bytes go over")
                .names(Reference::Device)
        },
        Parameter::text("variant", "jobs: the library by name").names(Reference::Variant),
        Parameter::integer("buffer_size", "jobs: one buffer", 1, BUFFER_SIZE_MAX).unit("bytes"),
        Parameter::integer("job_depth", "jobs in flight", 1, DEPTH_MAX as u64),
        Parameter::choice("job_completion", "jobs: wait for completions, or ask", &["event",
            "poll"]),
        Parameter::integer("job_threads", "jobs: threads of the device", 1, THREADS_MAX as u64)
            .or_all(),
        Parameter::text("job_node", "who runs the jobs, on a device of its own: this machine (local), \
            or an agent by its name").default(LOCAL).names(Reference::Node),
        Parameter::choice("job_initiator", "dma: who starts operations", &["host", "dpu"]),
        Parameter::texts("job_patterns", "match: regular expressions, or the published queries q1 \
            to q4; a list is one value", PATTERNS_MAX).names(Reference::Patterns),
        Parameter::text("data", "jobs: the data set").names(Reference::Data),
        Parameter::integer("sample_bytes", "jobs: how much of it is used", 1, SAMPLE_BYTES_MAX)
            .unit("bytes"),
    ]
}

#[rustfmt::skip]
fn metrics() -> Vec<Metric> {
    let traffic = [
        higher("throughput", "MB/s", "bytes of messages in one direction in the elapsed time; MB \
            is 10^6 bytes"),
        higher("bit_rate", "Gb/s", "the same in 10^9 bits"),
        higher("rate", "messages/s", "messages completed per second"),
    ];
    let connections = [
        higher("connection_throughput_min", "MB/s", "that of the slowest connection"),
        higher("connection_throughput_max", "MB/s", "that of the fastest connection"),
    ];
    let cost = [
        lower("client_cpu", "%", "CPU time of the client's threads; one core is 100"),
        lower("server_cpu", "%", "CPU time of the server's threads; one core is 100"),
        lower("hop_cpu", "%", "CPU time of the hop's processes; one core is 100"),
        lower("machine_cpu", "%", "time that cores of this machine were busy, with the kernel's \
            part of a hop and whatever else ran; one core is 100"),
        lower("machine_cpu_idle", "%", "the same in the idle phase: whatever else ran"),
        lower("cpu_seconds", "s", "host CPU seconds of both ends and of the hop's processes"),
        lower("cpu_cost", "s/GB", "the same per 10^9 bytes of messages in one direction"),
    ];
    let by_phase = |make: fn(String, &'static str, String) -> Metric, name, unit, what: &str| {
        ["before", "during", "after"]
            .map(|when| make(format!("{name}_{when}"), unit, what.replace("WHEN", when)))
    };
    let phases = [
        by_phase(higher, "throughput", "MB/s", "mean throughput WHEN the jobs"),
        by_phase(lower, "jitter", "%", "standard deviation of the slices' throughput WHEN the jobs, of \
            its mean"),
        by_phase(lower, "latency", "µs", "mean time of a round trip WHEN the jobs"),
        by_phase(lower, "delay", "µs", "mean one-way delay WHEN the jobs"),
        by_phase(lower, "delay_max", "µs", "longest one-way delay WHEN the jobs"),
        by_phase(lower, "loss", "%", "messages of the time WHEN the jobs that never came, of all"),
    ];
    let recovery = [
        lower("catch_up", "ms", "from the end of the jobs until the mean delay of a slice is no \
            more than the highest before them"),
        higher("throughput_after_max", "MB/s", "that of the fastest slice after the jobs, when the \
            sender makes up for what was held back"),
    ];
    let jobs = [
        higher("job_throughput", "MB/s", "that of the jobs beside the traffic"),
        higher("job_throughput_alone", "MB/s", "that of the jobs without the traffic"),
    ];
    let loss = [
        lower("loss", "%", "messages that were sent and never came, of all"),
        lower("lost", "messages", "the same as a number"),
        lower("duplicates", "messages", "messages that came again"),
        lower("reordered", "messages", "messages that came after one with a higher number"),
        lower("late", "%", "messages that were sent more than a millisecond after their time"),
    ];
    let clocks = [
        lower("delay_error", "µs", "how far every delay may be off, because the two ends' clocks \
            are two"),
        lower("clock_drift", "ppm", "by how much the receiver's clock is faster"),
        lower("clock_drift_error", "ppm", "how far that may be off"),
    ];
    let job_events = processor_events::metrics("an operation of dma-read, dma-write or dma-send beside");
    let job_events = job_events.into_iter().map(|metric| Metric {
        name: format!("job_{}", metric.name),
        ..metric
    });
    let delays = latencies("one-way delay of a message of a stream with a rate").into_iter();
    let delays = delays.map(|metric| Metric {
        name: metric.name.replace("latency", "delay"),
        ..metric
    });
    (traffic.into_iter())
        .chain(latencies("time of a round trip"))
        .chain(delays)
        .chain(loss)
        .chain(clocks)
        .chain(connections)
        .chain(cost)
        .chain(phases.into_iter().flatten())
        .chain(recovery)
        .chain(jobs)
        .chain(processor_events::metrics("a message, on the client's threads"))
        .chain(job_events)
        .collect()
}
