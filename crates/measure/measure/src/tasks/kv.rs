//! `kv`: a key-value server under a load, which `python/overside/tasks/kv.py` starts and
//! `overside kv bench` measures.

use super::network::{MODES, forwarding_cores};
use super::place::node;
use super::spec::{
    Charts, Choice, Labels, Metric, Parameter, Report, TaskSpec, axis, higher, latencies, lower,
};

const SERVERS: [(&str, &str); 3] =
    [("overside", "Overside"), ("redis", "Redis"), ("memcached", "memcached")];
const PROTOCOLS: [(&str, &str); 5] = [
    ("redis", "RESP"),
    ("memcached", "memcached text"),
    ("memcached-meta", "memcached meta"),
    ("datagram", "datagrams"),
    ("herd", "one-sided writes"),
];
/// I/O drivers of the server; `dpdk` means `overside kv serve --dpdk-port`.
const DRIVERS: [(&str, &str); 2] = [("epoll", "epoll"), ("dpdk", "DPDK")];
/// Designs: placements of a store's two engines on host and DPU; `overside kv serve --design`.
const DESIGNS: [(&str, &str); 7] = [
    ("cpu-only", "everything on one machine"),
    ("lat", "communication on the DPU"),
    ("sav", "communication on several cores of the DPU"),
    ("dual", "communication on the DPU and on the host's further cores"),
    ("shrd", "keys and clients on both sides"),
    ("proc", "processing on the DPU"),
    ("dpu-only", "everything on the DPU"),
];
/// Locations of clients (C) and server (S), in the notation of studies of hosts and SmartNICs: on a
/// host (H) or on a DPU (D). Python parses the names.
const CASES: [(&str, &str); 6] = [
    ("CH-SH", "clients on another host"),
    ("CD-SH", "clients on another host's DPU"),
    ("CDH-SH", "clients on another host and its DPU"),
    ("L-CD-SH", "clients on this host's own DPU"),
    ("CH-SD", "clients on another host, server on the DPU"),
    ("CD-SD", "clients on another host's DPU, server on the DPU"),
];
/// The stages of a server's time: their metrics, and their names in charts.
const STAGES: [(&str, &str); 6] = [
    ("receive_time", "Receive"),
    ("parse_time", "Parse"),
    ("process_time", "Process"),
    ("persist_time", "Persist"),
    ("respond_time", "Respond"),
    ("other_time", "Other"),
];
/// YCSB's (Cooper et al., SoCC 2010).
const WORKLOADS: [(&str, &str); 6] = [
    ("a", "half updates"),
    ("b", "5 % updates"),
    ("c", "reads only"),
    ("d", "reads of the latest"),
    ("e", "scans"),
    ("f", "read-modify-write"),
];

pub(super) fn spec() -> TaskSpec {
    let parameters = (server().into_iter()).chain(design()).chain(load()).collect();
    TaskSpec {
        name: "kv",
        description: "a key-value server under a YCSB load: this one in each design, Redis, memcached",
        operation: None,
        verified: true,
        parameters,
        metrics: metrics(),
        report: Report {
            size: "value_size",
            labels: Labels { when: None, parameters: &["server", "protocol", "driver", "design"] },
            advised: false,
            charts: Charts::Traffic,
            axes: vec![
                axis("pipeline", "Requests in flight on a connection"),
                axis("threads", "Threads that make the load"),
                axis("connections", "Connections"),
                axis("value_size", "Value"),
                axis("key_size", "Length of keys"),
                axis("rate", "Offered requests per second"),
                axis("load", "Offered load, of what the closed loop reaches"),
                axis("rx_queue", "Receive descriptors"),
                axis("cores", "Cores that serve"),
                axis("dpu_cores", "Cores of the DPU that serve"),
                axis("link_message", "Longest message over the link"),
                axis("direct_connections", "Connections to the host"),
            ],
            stages: STAGES.map(|(name, title)| Choice { name, title }).into(),
            ..Report::new("Key-value store", &WAYS)
        },
    }
}

/// Parameters of how the work is done, not of the work itself.
const WAYS: [&str; 28] = [
    "case",
    "server",
    "protocol",
    "driver",
    "rx_queue",
    "design",
    "dpu",
    "stand_ins",
    "link",
    "link_batch",
    "link_message",
    "overlap",
    "dpu_cores",
    "send",
    "cores",
    "load_from",
    "mode",
    "forwarding_cores",
    "connections",
    "direct_connections",
    "pipeline",
    "threads",
    "rate",
    "load",
    "busy_poll",
    "stages",
    "server_core",
    "client_core",
];

#[rustfmt::skip]
fn server() -> Vec<Parameter> {
    vec![
        Parameter::titled("server", "what serves", SERVERS).default("overside"),
        Parameter::titled("protocol", "what is spoken to it; without one its own. overside: datagram is \
            its own protocol over UDP, herd the same by one-sided writes into the server's memory", PROTOCOLS),
        Parameter::titled("driver", "overside: what requests come by. epoll: sockets; dpdk: datagrams by a port in \
            memory that server and load share (memif), without the kernel", DRIVERS).default("epoll"),
        Parameter::integer("rx_queue", "overside: receive descriptors of each socket for datagrams, or of \
            each queue with driver=dpdk: about so many datagrams wait before more are dropped", 8, 1 << 16),
        Parameter::integer("cores", "overside: cores that serve", 1, 256).default(1),
        Parameter::integer("server_core", "the core that the server is pinned to", 0, 4095),
        Parameter::boolean("busy_poll", "server and load never sleep; not redis and memcached")
            .default(false),
        node("serves, overside alone and all of it"),
    ]
}

#[rustfmt::skip]
fn design() -> Vec<Parameter> {
    vec![
        Parameter::titled("design", "overside: where its two engines run", DESIGNS)
            .default("cpu-only"),
        Parameter::text("dpu", "the DPU's agent by its name; `here`: one is started on this \
            machine, in place of a DPU").default("here"),
        Parameter::boolean("stand_ins", "agents that nobody has added are started on this machine, \
            in place of those machines; what was measured says so").default(false),
        Parameter::choice("link", "what requests go over between the sides, and to the server with \
            protocol=herd", &["shm", "ucx"]).default("shm"),
        Parameter::choice("link_batch", "a write over the link for each batch of requests, or for \
            each request", &["batch", "request"]).default("batch"),
        Parameter::integer("link_message", "longest message over the link; without it 64 requests, \
            however long", 256, 64 << 10).unit("bytes"),
        Parameter::integer("dpu_cores", "cores of the DPU; without it as many as the host's with lat and shrd, and \
            else one", 1, 64),
        Parameter::choice("send", "overside: replies of a batch leave before the next one is parsed, \
            or those of a turn together", &["early", "late"]).default("late"),
        Parameter::choice("overlap", "replies are prepared while the other side executes",
            &["on", "off"]).default("on"),
    ]
}

#[rustfmt::skip]
fn load() -> Vec<Parameter> {
    vec![
        Parameter::titled("case", "where clients (C) and server (S) run, on a host (H) or a DPU (D), L- on \
            this host's own; in place of design and, unless the agents have other names, of load_from", CASES),
        Parameter::text("load_from", "where the load is made: local, or an agent by its name; `here`: \
            one is started on this machine; several are joined by +, and each makes as much")
            .default("local"),
        Parameter::choice("mode", "what requests pass between two network namespaces of this \
            machine, as in the task network; without one, loopback", &MODES),
        forwarding_cores(),
        Parameter::titled("workload", "YCSB's", WORKLOADS).default("b"),
        Parameter::integer("reads", "reads in percent, the rest updates, instead of a workload", 0,
            100),
        Parameter::choice("distribution", "which records are asked for; without one the workload's",
            &["uniform", "zipf", "latest"]),
        Parameter::integer("records", "records written first; 0: as many as fit in half of the free memory, at \
            most 192 million", 0, 1 << 32).default(100_000),
        Parameter::integer("key_size", "length of keys", 1, 64 << 10).default(16).unit("bytes"),
        Parameter::integer("value_size", "length of values", 0, 64 << 20).default(100)
            .unit("bytes"),
        Parameter::integer("connections", "connections of all threads together", 1, 20_000)
            .default(50),
        Parameter::integer("direct_connections", "where clients connect to both sides: so many to the \
            host, and `connections` to the DPU; without it they are dealt out", 1, 63),
        Parameter::integer("pipeline", "requests in flight on a connection", 1, 4096).default(1),
        Parameter::integer("threads", "threads that make the load", 1, 256).default(1),
        Parameter::number("rate", "open loop: so many requests a second; latencies count from the \
            intended times", 1.0, 1e9).unit("requests/s"),
        Parameter::number("load", "open loop: part of the requests a second that the closed loop reaches, which is \
            measured first", 1.0, 99.0).unit("%"),
        Parameter::number("seconds", "how long the load is measured", 0.05, 600.0).default(1.0)
            .unit("s"),
        Parameter::boolean("stages", "measure where the server's time goes as well, by `overside kv profile` \
            after the load, for as long again").default(false),
        Parameter::integer("client_core", "the core of the first thread, others on the next ones",
            0, 4095),
    ]
}

fn metrics() -> Vec<Metric> {
    let first = [higher("rate", "requests/s", "requests a second: median of the sample's windows")];
    let last = [
        lower(
            "host_cpu",
            "µs",
            "CPU time of the host's process for one request; of redis or memcached, of theirs",
        ),
        lower("dpu_cpu", "µs", "CPU time of the DPU's agent for one request"),
        lower("host_cores_used", "-", "cores that the host's process keeps busy, warm-up included"),
        lower("dpu_cores_used", "-", "cores that the DPU's agent keeps busy, warm-up included"),
        higher(
            "host_rate",
            "requests/s",
            "requests a second of the connections to the host, where clients connect to both sides",
        ),
        higher(
            "dpu_rate",
            "requests/s",
            "requests a second of the connections to the DPU, where clients connect to both sides",
        ),
        lower(
            "hop_cpu",
            "µs",
            "CPU time of the program that forwards, for one request; modes bridge and direct have none",
        ),
        lower(
            "link_writes",
            "-",
            "one-sided writes over the link for one request, by the side that asks; with protocol=herd those \
             of the clients",
        ),
        lower(
            "link_bytes",
            "bytes",
            "bytes over the link for one request, both ways, headers of messages included; with protocol=herd \
             those that the clients write",
        ),
        lower("link_sent_bytes", "bytes", "part of link_bytes that goes to the side with the keys"),
        lower(
            "link_received_bytes",
            "bytes",
            "part of link_bytes that comes back with the answers",
        ),
        lower(
            "packet_bytes",
            "bytes",
            "bytes that clients send for one request over the link: whole packets would bring these, and their \
             headers, in place of link_sent_bytes",
        ),
        lower(
            "reply_bytes",
            "bytes",
            "bytes that are sent to clients for one request over the link, in place of link_received_bytes",
        ),
        lower(
            "link_latency",
            "µs",
            "time from a message's write until its answers were there: the mean of all messages",
        ),
        higher(
            "link_message_bytes",
            "bytes",
            "length of a message over the link, by the side that asks: the mean of all",
        ),
        lower(
            "dropped",
            "%",
            "datagrams of requests that were dropped because too many waited, of all that came",
        ),
        lower("backlog", "bytes", "most bytes of datagrams that waited to be received"),
        lower(
            "client_busy",
            "%",
            "time in which the threads of the load were busy; near 100 they may be the limit",
        ),
        lower(
            "core_round_trip",
            "ns",
            "how long a cache line takes from the server's core to the load's and back; of this machine, if the \
             cores are not named: between two of its cores",
        ),
        lower(
            "hash_time",
            "ns",
            "how long the store takes to hash a key, measured before the sample on this machine: what the host \
             would save for a request if it took the DPU's hashes",
        ),
    ];
    let stages = STAGES.map(|(name, stage)| {
        let stage = stage.to_lowercase();
        let text = format!("server's time for one request in stage `{stage}`, with stages=true");
        lower(name, "ns", text)
    });
    let costs = [
        lower("client_time", "ns", "CPU time of the load for one request, with stages=true"),
        lower(
            "link_communication_time",
            "ns",
            "what a link of shared memory would add for one request where requests are parsed, with stages=true",
        ),
        lower(
            "link_processing_time",
            "ns",
            "what a link of shared memory would add for one request where requests are executed, with \
             stages=true",
        ),
    ];
    let latencies = latencies("time of a request")
        .into_iter()
        .filter(|metric| !["latency_mean", "latency_min"].contains(&metric.name.as_str()));
    (first.into_iter().chain(latencies).chain(last)).chain(stages).chain(costs).collect()
}
