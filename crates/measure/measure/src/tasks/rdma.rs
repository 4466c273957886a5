//! `rdma`: RDMA verbs by perftest's programs, which `python/overside/tasks/rdma.py` runs.

use overside_probe::perftest::MESSAGE_BYTES_MAX;

use super::place::node;
use super::spec::{Parameter, Report, TaskSpec, higher, lower};

#[rustfmt::skip]
pub(super) fn spec() -> TaskSpec {
    let parameters = vec![
        Parameter::choice("operation", "the verb", &["send", "write", "read"]).default("write"),
        Parameter::choice("metric", "latency or bandwidth", &["latency", "bandwidth"])
            .default("latency"),
        Parameter::choice("transport", "how both ends are connected: reliably (rc), unreliably (uc), \
            by datagrams (ud), reliably with shared receive queues (xrc)",
            &["rc", "uc", "ud", "xrc"]).default("rc"),
        Parameter::text("source", "the end that starts operations and measures: this machine \
            (host), an agent, or one that is started here (here)").default("host"),
        Parameter::text("destination", "the other end: host, an agent, here, or the address of a \
            machine where perftest's server for this test waits").default("host"),
        Parameter::text("device", "the source's RDMA device by name; without one, the first"),
        Parameter::text("destination_device", "the destination's; without one, the first"),
        Parameter::integer("port", "the server's TCP port; without one any that is free", 1024,
            65535),
        Parameter::integer("message_size", "one message", 1, MESSAGE_BYTES_MAX).default(2).unit("bytes"),
        Parameter::integer("iterations", "messages of a sample", 5, 100_000_000).default(5000),
        Parameter::integer("depth", "bandwidth: messages in flight", 1, 16384).default(128),
        Parameter::integer("queue_pairs", "bandwidth: queue pairs", 1, 1024).default(1),
        Parameter::choice("completion", "wait for completions, or ask for them", &["event", "poll"])
            .default("poll"),
        Parameter::boolean("inline", "writes and sends: copy the payload into the queue when it is \
            posted").default(false),
        node("is called host here, and measures"),
    ];
    let times = [
        ("p50", "median"),
        ("mean", "mean"),
        ("min", "shortest"),
        ("max", "longest"),
        ("p99", "99th percentile of the"),
        ("p999", "99.9th percentile of the"),
    ];
    let latency = |(name, what): (&str, &str)| {
        let description = format!(
            "{what} time of an operation; of a round trip for send and write, of which perftest \
             prints the half"
        );
        lower(format!("latency_{name}"), "µs", description)
    };
    let bandwidth = [
        higher("throughput", "MB/s", "mean bandwidth; MB is 10^6 bytes"),
        higher("bit_rate", "Gb/s", "the same in 10^9 bits"),
        higher("peak_bit_rate", "Gb/s", "peak bandwidth, as perftest finds it"),
        higher("rate", "messages/s", "messages a second"),
    ];
    TaskSpec {
        name: "rdma",
        description: "RDMA verbs by perftest's programs (ib_write_lat, ib_send_bw, ...)",
        operation: None,
        // perftest compares nothing.
        verified: false,
        parameters,
        metrics: times.map(latency).into_iter().chain(bandwidth).collect(),
        report: Report {
            size: "message_size",
            ..Report::new(
                "RDMA {operation}, {metric}",
                &[
                    "transport",
                    "source",
                    "destination",
                    "device",
                    "destination_device",
                    "depth",
                    "queue_pairs",
                    "completion",
                    "inline",
                ],
            )
        },
    }
}
