//! Metrics in Prometheus's text exposition format, version 0.0.4. Counts are plain integers of each
//! worker, added up at each scrape; a library's registry would have shared atomics instead.

use overside_http::Exposition;

use super::StorageBackend;
use super::client::Clients;
use super::counters::{CloseReason, Counters};
use super::state::State;
use crate::stages::Stage;

const PREFIX: &str = "overside_kv_";

/// All metrics.
pub(super) fn all(
    state: &State,
    clients: &Clients,
    backing: &dyn StorageBackend,
    now_ms: u64,
) -> Exposition {
    let mut out = Exposition::new(PREFIX);
    let figures = state.total(clients);
    let counters = &figures.counters;
    let s = backing.statistics();
    let uptime_s = now_ms.saturating_sub(state.shared.started_ms) as f64 / 1e3;
    out.gauge("uptime_seconds", "Time since the start.", uptime_s);
    out.counter("commands_total", "Commands executed.", figures.commands);
    out.counter("hits_total", "Reads that found their key.", s.hits);
    out.counter("misses_total", "Reads that did not.", s.misses);
    let regions = "Clients that write into request regions.";
    out.gauge("request_region_clients", regions, figures.region_clients);
    let evicted = "Keys dropped to make room.";
    out.counter("evictions_total", evicted, s.evictions);
    let expired = "Keys removed because their time had passed.";
    out.counter("expirations_total", expired, s.expirations);
    let refused = "Writes refused because the store was full.";
    out.counter("refusals_total", refused, s.refusals);
    out.gauge("items", "Keys.", s.items);
    let expiring = "Keys that have an expiry.";
    out.gauge("items_with_expiry", expiring, s.items_with_expiry);
    let payload = "Bytes of keys and values.";
    out.gauge("payload_bytes", payload, s.payload_bytes);
    let memory = "Memory of the store, its index included.";
    out.gauge("memory_bytes", memory, s.memory_bytes);
    let limit = "Most memory that the store may take.";
    out.gauge("memory_limit_bytes", limit, s.memory_limit_bytes);
    out.gauge(
        "connections",
        "Clients that are connected.",
        figures.clients,
    );
    let speaking = "Those of them that speak memcached's protocol.";
    out.gauge("memcached_connections", speaking, figures.memcached_clients);
    let held = "Memory of all connections.";
    out.gauge(
        "connections_memory_bytes",
        held,
        figures.clients_memory_bytes,
    );
    let accepted = "Connections accepted.";
    out.counter("connections_total", accepted, counters.connections_accepted);
    let rejected = "Connections beyond the limit.";
    let count = counters.connections_rejected;
    out.counter("connections_rejected_total", rejected, count);
    out.head(
        "connections_closed_total",
        "Connections closed, by reason.",
        "counter",
    );
    for (reason, count) in CloseReason::NAMES.iter().zip(counters.closed) {
        out.sample(
            "connections_closed_total",
            &format_args!("{{reason=\"{reason}\"}}"),
            count,
        );
    }
    let work = figures.partition_work;
    let own = "Requests that came to the core that has their keys.";
    out.counter("requests_at_owner_total", own, work.own);
    let forwarded = "Requests that were sent on to the core that has their keys.";
    out.counter("requests_forwarded_total", forwarded, work.forwarded);
    let wrong = "Wrong passwords.";
    out.counter("wrong_passwords_total", wrong, counters.wrong_passwords);
    let received = "Bytes received from clients.";
    out.counter("received_bytes_total", received, counters.bytes_received);
    let sent = "Bytes sent to clients.";
    out.counter("sent_bytes_total", sent, counters.bytes_sent);
    if state.settings.addresses.has_datagrams() {
        for (name, help, value) in counters.datagrams.fields() {
            match name.ends_with("backlog_bytes")
                || name.ends_with("queue_bytes")
                || name.ends_with("max_bytes")
            {
                true => out.gauge(name, help, value),
                false => out.counter(&format!("{name}_total"), help, value),
            }
        }
    }
    if state.settings.addresses.port.is_some() {
        for (name, help, value) in counters.ethernet.fields() {
            match name {
                "frames_links" => out.gauge(name, help, value),
                _ => out.counter(&format!("{name}_total"), help, value),
            }
        }
    }
    let batches = "Batches of commands executed.";
    out.counter("batches_total", batches, figures.batches);
    let stages = "Time of the threads that serve, by stage.";
    out.head("stage_seconds_total", stages, "counter");
    for (stage, ns) in Stage::ALL.iter().zip(figures.stages_ns) {
        let labels = format_args!("{{stage=\"{}\"}}", stage.name());
        out.sample("stage_seconds_total", &labels, ns as f64 / 1e9);
    }
    turns(&mut out, counters);
    if let Some(registration) = &state.settings.registration {
        let registered = "Endpoints that are in the directory.";
        out.gauge(
            "directory_registered",
            registered,
            registration.registered(),
        );
        let failed = "Times that the directory did not do what it was asked.";
        out.counter("directory_failures_total", failed, registration.failures());
        let lost = "Leases in the directory that ended although the server was there.";
        out.counter(
            "directory_lost_leases_total",
            lost,
            registration.lost_leases(),
        );
    }
    let replication = backing.replication();
    let replication = replication.map(|replication| replication.report().fields());
    for (_, name, value) in replication.into_iter().flatten() {
        // An id of digits is no number.
        if let (Ok(value), false) = (value.parse::<f64>(), name.ends_with("replid")) {
            let help = "See INFO replication and INFO stats.";
            out.gauge(&format!("replication_{name}"), help, value);
        }
    }
    for (name, value) in backing.info() {
        if let Ok(value) = value.parse::<f64>() {
            out.gauge(
                &format!("persistence_{name}"),
                "As in INFO persistence.",
                value,
            );
        }
    }
    out
}

fn turns(out: &mut Exposition, counters: &Counters) {
    let turns = &counters.turns;
    let help = "Time from the first read of a turn to its last write.";
    out.head("turn_seconds", help, "histogram");
    for (seconds, count) in turns.cumulative() {
        out.sample(
            "turn_seconds_bucket",
            &format_args!("{{le=\"{seconds}\"}}"),
            count,
        );
    }
    out.sample("turn_seconds_bucket", &"{le=\"+Inf\"}", turns.count());
    out.sample("turn_seconds_sum", &"", turns.sum_s());
    out.sample("turn_seconds_count", &"", turns.count());
}
