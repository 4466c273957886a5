//! Metrics in Prometheus's text exposition format, version 0.0.4. Counts are plain integers of each
//! worker, added up at each scrape; a library's registry would have shared atomics instead.

use overside_http::Exposition;

use super::StorageBackend;
use super::client::Clients;
use super::counters::{CloseReason, Counters};
use super::state::WorkerContext;
use crate::stages::Stage;

const PREFIX: &str = "overside_kv_";

/// All metrics.
pub(super) fn all(
    state: &WorkerContext,
    clients: &Clients,
    backing: &dyn StorageBackend,
    now_ms: u64,
) -> Exposition {
    let mut out = Exposition::new(PREFIX);
    let figures = state.total(clients);
    let counters = &figures.counters;
    let uptime_s = now_ms.saturating_sub(state.shared.started_ms) as f64 / 1e3;
    out.gauge("uptime_seconds", "Time since the start.", uptime_s);
    let (clients, memcached) = (figures.clients as u64, figures.memcached_clients as u64);
    let clients_bytes = figures.clients_memory_bytes as u64;
    let regions = "Clients that write into request regions.";
    let own = [
        ("commands_total", "Commands executed.", figures.commands),
        ("batches_total", "Batches of commands executed.", figures.batches),
        ("connections", "Clients that are connected.", clients),
        ("memcached_connections", "Those that speak memcached's protocol.", memcached),
        ("connections_memory_bytes", "Memory of all connections.", clients_bytes),
        ("request_region_clients", regions, figures.region_clients as u64),
    ];
    let counted = (backing.statistics().fields())
        .chain(counters.traffic.fields())
        .chain(figures.partition_work.fields());
    for (name, help, value) in own.into_iter().chain(counted) {
        match name.ends_with("_total") {
            true => out.counter(name, help, value),
            false => out.gauge(name, help, value),
        }
    }
    let closed = CloseReason::NAMES.map(str::to_owned).into_iter().zip(counters.closed);
    out.labeled(
        ("connections_closed_total", "Connections closed, by reason.", "counter"),
        "reason",
        closed,
    );
    let addresses = &state.settings.addresses;
    let datagrams = addresses.has_datagrams().then(|| counters.datagrams.fields());
    let frames = addresses.port.as_ref().map(|_| counters.ethernet.fields());
    let (datagrams, frames) = (datagrams.into_iter().flatten(), frames.into_iter().flatten());
    for (name, help, value) in datagrams.chain(frames) {
        const OF_NOW: [&str; 4] = ["backlog_bytes", "queue_bytes", "max_bytes", "frames_links"];
        match OF_NOW.iter().any(|end| name.ends_with(end)) {
            true => out.gauge(name, help, value),
            false => out.counter(&format!("{name}_total"), help, value),
        }
    }
    let stages = Stage::ALL
        .iter()
        .zip(figures.stages_ns)
        .map(|(stage, ns)| (stage.name().to_owned(), ns as f64 / 1e9));
    out.labeled(
        ("stage_seconds_total", "Time of the threads that serve, by stage.", "counter"),
        "stage",
        stages,
    );
    turns(&mut out, counters);
    if let Some(registration) = &state.settings.registration {
        let registered = "Endpoints that are in the directory.";
        out.gauge("directory_registered", registered, registration.registered());
        let failed = "Times that the directory did not do what it was asked.";
        out.counter("directory_failures_total", failed, registration.failures());
        let lost = "Leases in the directory that ended although the server was there.";
        out.counter("directory_lost_leases_total", lost, registration.lost_leases());
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
            out.gauge(&format!("persistence_{name}"), "As in INFO persistence.", value);
        }
    }
    out
}

fn turns(out: &mut Exposition, counters: &Counters) {
    let turns = &counters.turns;
    let help = "Time from the first read of a turn to its last write.";
    out.head("turn_seconds", help, "histogram");
    for (seconds, count) in turns.cumulative() {
        out.sample("turn_seconds_bucket", &format_args!("{{le=\"{seconds}\"}}"), count);
    }
    out.sample("turn_seconds_bucket", &"{le=\"+Inf\"}", turns.count());
    out.sample("turn_seconds_sum", &"", turns.sum_s());
    out.sample("turn_seconds_count", &"", turns.count());
}
