//! `INFO`, by the names that Redis gives its fields.

use std::fmt::Display;

use overside_base::memory_figure;

use super::StorageBackend;
use super::counters::CloseReason;
use super::shared::Figures;
use super::state::WorkerContext;
use crate::Statistics;
use crate::stages::Stage;

type Field<'f> = &'f mut dyn FnMut(&str, &str, &dyn Display);

/// Passes on every section except `Keyspace`.
pub(super) fn info(
    state: &WorkerContext,
    figures: &Figures,
    backing: &dyn StorageBackend,
    statistics: &Statistics,
    now_ms: u64,
    field: Field<'_>,
) {
    server(state, now_ms, field);
    let limits = &state.settings.limits;
    let mut client = |name: &str, value: &dyn Display| field("Clients", name, value);
    client("connected_clients", &figures.clients);
    client("memcached_clients", &figures.memcached_clients);
    client("request_region_clients", &figures.region_clients);
    client("maxclients", &limits.clients);
    client("blocked_clients", &figures.blocked);
    client("unauthenticated_clients", &figures.unauthenticated);
    client("clients_memory_limit", &limits.memory_bytes);
    memory(state, figures, statistics, field);
    for (name, value) in backing.info() {
        field("Persistence", &name, &value);
    }
    stats(state, figures, statistics, now_ms, field);
    match backing.replication() {
        Some(replication) => {
            for (section, name, value) in replication.report().fields() {
                field(section, &name, &value);
            }
        }
        None => {
            field("Replication", "role", &"master");
            field("Replication", "connected_slaves", &0);
        }
    }
    field("Cluster", "cluster_enabled", &u8::from(state.cluster.is_some()));
    if let Some(cluster) = &state.settings.cluster {
        field("Cluster", "cluster_error", &cluster.error().unwrap_or_default());
    }
    if let Some([user_s, sys_s]) = cpu_times_s() {
        field("CPU", "used_cpu_sys", &format_args!("{sys_s:.6}"));
        field("CPU", "used_cpu_user", &format_args!("{user_s:.6}"));
    }
    // Of all threads that serve.
    let cpu_s = state.shared.cpu_ns() as f64 / 1e9;
    field("CPU", "used_cpu_main_thread", &format_args!("{cpu_s:.6}"));
    stages(figures, field);
    if state.settings.addresses.has_datagrams() {
        let mut datagrams = |name: &str, value: &dyn Display| field("Datagrams", name, value);
        datagrams("rx_queue_descriptors", &state.settings.rx_queue);
        for (name, _, value) in figures.counters.datagrams.fields() {
            datagrams(name, &value);
        }
    }
    if let Some(port) = &state.settings.addresses.port {
        let mut ethernet = |name: &str, value: &dyn Display| field("Ethernet", name, value);
        ethernet("dpdk_port", &port.device);
        ethernet("dpdk_address", &port.address);
        for (name, _, value) in figures.counters.ethernet.fields() {
            ethernet(name, &value);
        }
    }
    let mut own = |name: &str, value: &dyn Display| field("Overside", name, value);
    own("design", &state.settings.design.unwrap_or("cpu-only"));
    own("steering", &state.settings.steering.name());
    own("partitions", &backing.partitions());
    own("requests_at_owner", &figures.partition_work.own);
    own("requests_forwarded", &figures.partition_work.forwarded);
    let send = match state.settings.sends_early {
        true => "early",
        false => "late",
    };
    own("send", &send);
    own("busy_poll", &u8::from(state.settings.busy_poll));
    own("turns", &figures.counters.turns.count());
    own("sends", &figures.counters.traffic.sends);
    if let Some(name) = &state.settings.name {
        own("server_name", name);
    }
    if let Some(registration) = &state.settings.registration {
        own("directory_endpoints", &registration.endpoints());
        own("directory_registered", &registration.registered());
        own("directory_failures", &registration.failures());
        own("directory_lost_leases", &registration.lost_leases());
        own("directory_error", &registration.error().unwrap_or_default());
    }
}

/// CPU time of the process in its own code and in the system, in seconds, as proc(5) counts it.
fn cpu_times_s() -> Option<[f64; 2]> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The program's name, in parentheses, may hold anything; the times are the 14th and 15th of all fields.
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
    let mut next_s = || Some(fields.next()?.parse::<f64>().ok()? / ticks_per_s);
    Some([next_s()?, next_s()?])
}

/// Time of the threads that serve, since the start.
fn stages(figures: &Figures, field: Field<'_>) {
    let mut stages = |name: &str, value: &dyn Display| field("Stages", name, value);
    for (stage, ns) in Stage::ALL.iter().zip(figures.stages_ns) {
        stages(&format!("stage_{}_ns", stage.name()), &ns);
    }
    stages("batches", &figures.batches);
}

fn server(state: &WorkerContext, now_ms: u64, field: Field<'_>) {
    let mut server = |name: &str, value: &dyn Display| field("Server", name, value);
    let uptime_s = now_ms.saturating_sub(state.shared.started_ms) / 1000;
    let port = state.settings.addresses.tcp.first().map_or(0, |at| at.port());
    // What clients take for the version of the commands that they may use.
    server("redis_version", &"7.0.0");
    let mode = if state.cluster.is_some() { "cluster" } else { "standalone" };
    server("redis_mode", &mode);
    server("overside_version", &env!("CARGO_PKG_VERSION"));
    server("os", &std::env::consts::OS);
    server("arch_bits", &usize::BITS);
    server("multiplexing_api", &"epoll");
    server("process_id", &std::process::id());
    server("run_id", &state.shared.run_id);
    server("tcp_port", &port);
    server("server_time_usec", &(now_ms * 1000));
    server("uptime_in_seconds", &uptime_s);
    server("uptime_in_days", &(uptime_s / 86_400));
}

fn memory(state: &WorkerContext, figures: &Figures, statistics: &Statistics, field: Field<'_>) {
    let mut memory = |name: &str, value: &dyn Display| field("Memory", name, value);
    let policy = match state.settings.is_cache {
        true => "allkeys-fifo",
        false => "noeviction",
    };
    let resident = memory_figure("/proc/self/status", "VmRSS").unwrap_or_default();
    memory("used_memory", &statistics.memory_bytes);
    memory("used_memory_rss", &resident);
    memory("used_memory_dataset", &statistics.payload_bytes);
    memory("maxmemory", &statistics.memory_limit_bytes);
    memory("maxmemory_policy", &policy);
    memory("mem_clients_normal", &figures.clients_memory_bytes);
}

fn stats(
    state: &WorkerContext,
    figures: &Figures,
    statistics: &Statistics,
    now_ms: u64,
    field: Field<'_>,
) {
    let mut stats = |name: &str, value: &dyn Display| field("Stats", name, value);
    let counters = &figures.counters;
    let uptime_s = (now_ms.saturating_sub(state.shared.started_ms) / 1000).max(1);
    stats("total_connections_received", &counters.traffic.connections_accepted);
    stats("total_commands_processed", &figures.commands);
    stats("commands_per_second_since_start", &(figures.commands / uptime_s));
    stats("total_net_input_bytes", &counters.traffic.bytes_received);
    stats("total_net_output_bytes", &counters.traffic.bytes_sent);
    stats("rejected_connections", &counters.traffic.connections_rejected);
    stats("expired_keys", &statistics.expirations);
    stats("evicted_keys", &statistics.evictions);
    stats("keyspace_hits", &statistics.hits);
    stats("keyspace_misses", &statistics.misses);
    stats("writes_refused_for_memory", &statistics.refusals);
    stats("acl_access_denied_auth", &counters.traffic.wrong_passwords);
    stats("evicted_clients", &counters.closed[CloseReason::Memory as usize]);
    stats("stalled_clients", &counters.closed[CloseReason::Stalled as usize]);
}
