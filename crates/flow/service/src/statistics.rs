//! State of a service as JSON, for the action `statistics` and the live page.

use std::sync::atomic::Ordering;

use overside_base::lock;
use overside_flow::Destination;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::output::PartitionCounts;
use crate::pipeline_host::PipelineHost;
use crate::queue::QueueStatus;
use crate::service::Service;

/// An output and its waiting batches.
#[derive(Serialize)]
struct OutputStatus {
    name: String,
    to: String,
    subscribers: usize,
    dropped_subscribers: u64,
    /// For an output to another service, `true` while it is connected; `None` for other outputs.
    /// `last_error` is the reason of the last failure.
    connected: Option<bool>,
    last_error: Option<String>,
    partitions: Vec<PartitionStatus>,
    #[serde(flatten)]
    queue: QueueStatus,
}

#[derive(Serialize)]
struct PartitionStatus {
    partition: Option<u32>,
    #[serde(flatten)]
    counts: PartitionCounts,
}

/// Returns all statistics as JSON.
pub(crate) fn json(service: &Service) -> String {
    value(service).to_string()
}

/// Statistics of all parts. Times and counts are since the start; a client computes rates from two replies.
pub(crate) fn value(service: &Service) -> Value {
    let mut all = Map::new();
    let mut put = |key: &str, value: Value| drop(all.insert(key.into(), value));
    let state = if service.is_ending() { "draining" } else { "serving" };
    put("state", json!(state));
    put("uptime_s", json!(service.started.elapsed().as_secs_f64()));
    put("cpu_s", json!(process_cpu_s()));
    put("memory_bytes", json!(overside_base::memory_figure("/proc/self/status", "VmRSS")));
    put("producers", json!(service.producers.len()));
    put("unacknowledged_batches", json!(service.producers.unacknowledged()));
    put("counters", json!(counters(service).into_iter().collect::<Map<_, _>>()));
    put("unpack", json!(service.packing.unpack.report()));
    put("repack", json!(service.packing.repack.report()));
    if let Some(hosted) = &service.hosted {
        let definition = hosted.pipeline.definition();
        put("pipeline", json!(definition.name));
        // The partition of rows without a key has this number.
        put("partitions", json!(definition.partitions()));
        let report = hosted.pipeline.report();
        put("stages", json!(report.totals.stages));
        put("events", json!(report.totals.events.kept));
        put("provenance", json!(report.provenance));
        put("input", json!(hosted.input.status()));
        put("outputs", json!(outputs(hosted)));
        put("processing_batches", json!(hosted.processing.load(Ordering::Relaxed)));
        let spill = hosted.spill.as_ref().map(
            |space| json!({"used_bytes": space.used_bytes(), "limit_bytes": space.limit_bytes()}),
        );
        put("spill", json!(spill));
    }
    Value::Object(all)
}

/// Returns all counters with the names of their metrics.
pub(crate) fn counters(service: &Service) -> Vec<(String, Value)> {
    let counters = &service.counters;
    let read = |counter: &std::sync::atomic::AtomicU64| json!(counter.load(Ordering::Relaxed));
    let now = |counter: &std::sync::atomic::AtomicUsize| json!(counter.load(Ordering::Relaxed));
    [
        ("connections_total", read(&counters.connections)),
        ("connections", now(&counters.open_connections)),
        ("connections_rejected_total", read(&counters.rejected_connections)),
        ("unauthenticated_calls_total", read(&counters.unauthenticated)),
        ("put_streams_total", read(&counters.put_streams)),
        ("put_streams", now(&counters.open_put_streams)),
        ("received_batches_total", read(&counters.received_batches)),
        ("received_rows_total", read(&counters.received_rows)),
        ("received_bytes_total", read(&counters.received_bytes)),
        ("duplicate_batches_total", read(&counters.duplicates)),
        ("failed_batches_total", read(&counters.failed_batches)),
        ("lost_batches_total", read(&counters.lost_batches)),
        ("sent_batches_total", read(&counters.sent_batches)),
        ("sent_rows_total", read(&counters.sent_rows)),
        ("sent_bytes_total", read(&counters.sent_bytes)),
        ("node_batches_total", read(&counters.node_batches)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn outputs(hosted: &PipelineHost) -> Vec<OutputStatus> {
    let outputs = hosted.outputs.iter();
    outputs
        .map(|output| OutputStatus {
            name: output.name.to_string(),
            to: output.definition.to.to_string(),
            subscribers: output.subscribers.count(),
            dropped_subscribers: output.subscribers.dropped(),
            connected: matches!(output.definition.to, Destination::Flight(_))
                .then(|| output.link.is_connected.load(Ordering::Relaxed)),
            last_error: lock(&output.link.last_error).clone(),
            partitions: (lock(&output.partitions).iter())
                .map(|(&partition, &counts)| PartitionStatus { partition, counts })
                .collect(),
            queue: output.queue.status(),
        })
        .collect()
}

/// CPU time of the process in seconds.
pub(crate) fn process_cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
