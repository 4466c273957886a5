//! What the task `network` declares of itself.

use overside_probe::network::CONNECTIONS_MAX;

use crate::tasks::spec::{
    Charts, Choice, Metric, Parameter, Reference, Report, TaskSpec, higher, latencies, lower,
};
use crate::test::{BUFFER_SIZE_MAX, DEPTH_MAX, SAMPLE_BYTES_MAX, THREADS_MAX};

/// The operations that can run beside the traffic.
const JOBS: [&str; 6] = [
    "copy",
    "compress-deflate",
    "compress-lz4",
    "compress-zstd",
    "hash-sha256",
    "hash-crc32",
];
/// What lies between two namespaces; `python/overside/bench/network_path.py` builds them.
pub(in crate::tasks) const MODES: [&str; 7] = [
    "direct",
    "bridge",
    "ovs-kernel",
    "ovs-userspace",
    "ovs-dpdk",
    "dpdk-af_packet",
    "dpdk-virtio_user",
];
/// The most cores of a hop: what its devices have queues for.
const FORWARDING_CORES_MAX: u64 = 16;

/// How many cores forward.
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
        "socket_buffer",
        "server_cores",
        "slice_ms",
    ];
    TaskSpec {
        name: "network",
        description: "round trips and streams over TCP, also through a forwarding hop",
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
            ]
            .map(|(name, title)| Choice { name, title })
            .into(),
            ..Report::new("TCP {pattern}", &ways)
                .titled_when("jobs", "TCP {pattern} beside jobs ({jobs})")
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
        Parameter::integer("message_size", "one message; 64, streams 131072", 1, 16 << 20)
            .unit("bytes"),
        Parameter::integer("connections", "data connections", 1, CONNECTIONS_MAX as u64).default(1),
        Parameter::integer("threads", "threads of either end", 1, 64).default(1).or_all(),
        Parameter::integer("depth", "round trips: messages outstanding on a connection", 1, 4096)
            .default(1),
        Parameter::integer("batch", "messages in one write", 1, 4096).default(1),
        Parameter::number("rate", "round trips: send so many a second, at even distances; \
            latencies count from the intended times", 0.001, 1e7).unit("messages/s"),
        Parameter::choice("completion", "wait for sockets, or ask them", &["event", "poll"])
            .default("event"),
        Parameter::cores("cores", "the cores that the client's threads are pinned to"),
        forwarding_cores(),
        Parameter::cores("server_cores", "the same of the server's"),
        Parameter::integer("socket_buffer", "asked of the sockets; without it the system decides",
            1, 1 << 30).unit("bytes"),
        Parameter::number("slice_ms", "tell the sample in slices of this length", 0.1, 60_000.0)
            .unit("ms"),
    ]
}

/// The parameters of the jobs beside.
#[rustfmt::skip]
fn jobs() -> Vec<Parameter> {
    vec![
        Parameter::choice("jobs", "run this operation in the middle third of the sample", &JOBS),
        Parameter::text("device", "jobs: what runs them").names(Reference::Device),
        Parameter::text("variant", "jobs: the library by name").names(Reference::Variant),
        Parameter::integer("buffer_size", "jobs: one buffer", 1, BUFFER_SIZE_MAX).unit("bytes"),
        Parameter::integer("job_depth", "jobs in flight", 1, DEPTH_MAX as u64),
        Parameter::choice("job_completion", "jobs: wait for completions, or ask", &["event",
            "poll"]),
        Parameter::integer("job_threads", "jobs: threads of the device", 1, THREADS_MAX as u64)
            .or_all(),
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
        lower("cpu_seconds", "s", "host CPU seconds of both ends and of the hop's processes"),
        lower("cpu_cost", "s/GB", "the same per 10^9 bytes of messages in one direction"),
    ];
    let whens = ["before", "during", "after"];
    let throughput = whens.map(|when| {
        let description = format!("mean throughput {when} the jobs");
        higher(format!("throughput_{when}"), "MB/s", description)
    });
    let jitter = whens.map(|when| {
        let description =
            format!("standard deviation of the slices' throughput {when} the jobs, of its mean");
        lower(format!("jitter_{when}"), "%", description)
    });
    let latency = whens.map(|when| {
        let description = format!("mean time of a round trip {when} the jobs");
        lower(format!("latency_{when}"), "µs", description)
    });
    let jobs = higher("job_throughput", "MB/s", "that of the jobs beside");
    (traffic.into_iter())
        .chain(latencies("time of a round trip"))
        .chain(connections)
        .chain(cost)
        .chain(throughput)
        .chain(jitter)
        .chain(latency)
        .chain([jobs])
        .collect()
}
