//! Pages served over HTTP: metrics, statistics and a live page.

use overside_http::{Exposition, Response};
use serde_json::Value;

use crate::service::Service;
use crate::statistics;

const PREFIX: &str = "overside_flow_service_";

/// Live page: one file, which fetches the statistics every second.
const PAGE: &str = include_str!("page.html");

/// Returns the page at a path; `None` if there is none.
pub(crate) fn answer(service: &Service, path: &str) -> Option<Response> {
    match path {
        "/" => Some(Response { content_type: "text/html; charset=utf-8", body: PAGE.into() }),
        "/statistics" => {
            Some(Response { content_type: "application/json", body: statistics::json(service) })
        }
        "/metrics" => Some(metrics(service).into_response()),
        _ => None,
    }
}

/// Metrics of each queue: key in the statistics, name, help text and type.
const QUEUE: [(&str, &str, &str, &str); 6] = [
    ("backlog_batches", "queue_batches", "Batches that wait, by queue.", "gauge"),
    ("memory_bytes", "queue_memory_bytes", "Memory of batches that wait, by queue.", "gauge"),
    (
        "spilled_bytes",
        "queue_spilled_bytes",
        "Bytes of batches that wait on disk, by queue.",
        "gauge",
    ),
    (
        "lag_ms",
        "queue_lag_ms",
        "Age of the oldest batch that waits, in milliseconds, by queue.",
        "gauge",
    ),
    ("batches", "queue_batches_total", "Batches that came, by queue.", "counter"),
    (
        "spilled_batches",
        "queue_spilled_batches_total",
        "Batches that were written to disk, by queue.",
        "counter",
    ),
];

/// Metrics of each stage: JSON pointer into its statistics, name and help text.
const STAGE: [(&str, &str, &str); 5] = [
    ("/batches", "stage_batches_total", "Batches that came, by stage."),
    ("/rows_in", "stage_rows_total", "Rows that came, by stage."),
    ("/bytes_in", "stage_bytes_total", "Bytes that came, by stage."),
    (
        "/busy_ns",
        "stage_busy_ns_total",
        "Time in which the stage had work, in nanoseconds, by stage.",
    ),
    (
        "/host/cpu_ns",
        "stage_host_cpu_ns_total",
        "CPU time of the host for the stage, in nanoseconds, by stage.",
    ),
];

fn metrics(service: &Service) -> Exposition {
    let all = statistics::value(service);
    let mut out = Exposition::new(PREFIX);
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    out.gauge("uptime_seconds", "Time since the start.", number(&all["uptime_s"]));
    out.counter("cpu_seconds_total", "CPU time of the process.", number(&all["cpu_s"]));
    out.gauge("memory_bytes", "Resident memory of the process.", number(&all["memory_bytes"]));
    out.gauge("producers", "Producers that are known.", number(&all["producers"]));
    let unacknowledged = "Batches that are accepted and not acknowledged.";
    out.gauge("unacknowledged_batches", unacknowledged, number(&all["unacknowledged_batches"]));
    for (name, value) in all["counters"].as_object().into_iter().flatten() {
        let help = format!("{}.", name.trim_end_matches("_total").replace('_', " "));
        match name.ends_with("_total") {
            true => out.counter(name, &help, value),
            false => out.gauge(name, &help, value),
        }
    }
    let none = Vec::new();
    let outputs = all["outputs"].as_array().unwrap_or(&none);
    let input = all.get("input").map(|input| ("input".to_owned(), input));
    let queues: Vec<(String, &Value)> =
        (input.into_iter()).chain(outputs.iter().map(|output| (name_of(output), output))).collect();
    for (key, name, help, kind) in QUEUE {
        let values = queues.iter().map(|(of, queue)| (of.clone(), number(&queue[key])));
        out.labeled((name, help, kind), "queue", values);
    }
    let subscribers =
        outputs.iter().map(|output| (name_of(output), number(&output["subscribers"])));
    out.labeled(("subscribers", "Subscribers, by output.", "gauge"), "output", subscribers);
    let stages = all["stages"].as_array().unwrap_or(&none);
    let around = |key| all.get(key).into_iter();
    let stages: Vec<&Value> = (around("unpack").chain(stages)).chain(around("repack")).collect();
    for (key, name, help) in STAGE {
        let values =
            stages.iter().map(|stage| (name_of(stage), stage.pointer(key).map_or(0.0, number)));
        out.labeled((name, help, "counter"), "stage", values);
    }
    if all["spill"].is_object() {
        let used = "What is used of the spill directory.";
        out.gauge("spill_bytes", used, number(&all["spill"]["used_bytes"]));
        let limit = "What may be used of the spill directory.";
        out.gauge("spill_limit_bytes", limit, number(&all["spill"]["limit_bytes"]));
    }
    out
}

fn name_of(value: &Value) -> String {
    value["name"].as_str().unwrap_or_default().to_owned()
}
