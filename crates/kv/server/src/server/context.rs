//! Implementation of [`ServerContext`], through which the communication engine uses the server.

use std::fmt::Display;
use std::sync::Arc;

use super::StorageBackend;
use super::client::Clients;
use super::counters::CloseReason;
use super::info::info;
use super::state::WorkerContext;
use crate::cluster::WorkerView;
use crate::protocol::cluster::ClusterView;
use crate::protocol::{ClientInfo, ReadOnlyReason, ServerContext, TURN_OUTPUT_MAX_BYTES};
use crate::replica::Replication;
use crate::stages::StageClock;
use crate::{ProcessingEngine, Statistics};

/// The server during a turn.
pub(super) struct Context<'t> {
    pub now_ms: u64,
    pub state: &'t mut WorkerContext,
    pub clients: &'t mut Clients,
    pub backing: &'t mut dyn StorageBackend,
}

impl ServerContext for Context<'_> {
    fn engine(&mut self) -> &mut dyn ProcessingEngine {
        self.backing
    }

    fn now_ms(&mut self) -> u64 {
        self.now_ms
    }

    fn sends_early(&self) -> bool {
        self.state.settings.sends_early
    }

    fn authenticate(&mut self, user: &[u8], password: &[u8]) -> bool {
        let Some(expected) = &self.state.settings.password else {
            return user == b"default";
        };
        let is_right = expected.is(password) & (user == b"default");
        self.state.counters.traffic.wrong_passwords += u64::from(!is_right);
        is_right
    }

    fn datagram_parts(&mut self) -> usize {
        self.state.shared.workers()
    }

    fn has_password(&self) -> bool {
        self.state.settings.password.is_some()
    }

    fn info(&mut self, statistics: &Statistics, field: &mut dyn FnMut(&str, &str, &dyn Display)) {
        let figures = self.state.total(self.clients);
        info(self.state, &figures, self.backing, statistics, self.now_ms, field);
    }

    fn config(&mut self, parameter: &mut dyn FnMut(&str, &str)) {
        let statistics = self.backing.statistics();
        let settings = &self.state.settings;
        let limits = &settings.limits;
        let port = (settings.addresses.tcp.first()).map_or(0, |address| address.port());
        let tls_port = settings.addresses.tls.first();
        let policy = match settings.is_cache {
            true => "allkeys-fifo",
            false => "noeviction",
        };
        let unix = (settings.addresses.unix.as_deref()).map(|path| path.to_string_lossy());
        for (name, value) in self.backing.parameters() {
            parameter(name, &value);
        }
        parameter("maxmemory", &statistics.memory_limit_bytes.to_string());
        parameter("maxmemory-policy", policy);
        parameter("maxmemory-clients", &limits.memory_bytes.to_string());
        parameter("maxclients", &limits.clients.to_string());
        parameter("timeout", &limits.idle.as_secs().to_string());
        parameter("databases", "1");
        let bound = settings.addresses.tcp.iter().chain(&settings.addresses.tls);
        let mut bound: Vec<String> = bound.map(|address| address.ip().to_string()).collect();
        bound.dedup();
        parameter("bind", &bound.join(" "));
        parameter("port", &port.to_string());
        parameter("tls-port", &tls_port.map_or(0, |address| address.port()).to_string());
        parameter("unixsocket", unix.as_deref().unwrap_or_default());
        parameter("tcp-keepalive", "7200");
        parameter("proto-max-bulk-len", &crate::VALUE_MAX_BYTES.to_string());
        parameter("io-threads", &self.state.shared.workers().to_string());
    }

    fn clients(&mut self, client: &mut dyn FnMut(&ClientInfo<'_>)) {
        for one in self.state.shared.clients() {
            client(&ClientInfo {
                id: one.id,
                address: &one.address,
                local_address: &one.local_address,
                name: &one.name(),
                age_s: self.now_ms.saturating_sub(one.opened_ms) / 1000,
                idle_s: self.now_ms.saturating_sub(one.active_ms()) / 1000,
                input_bytes: one.input_bytes(),
                input_free_bytes: one.input_free_bytes(),
                output_bytes: one.output_bytes(),
                memory_bytes: one.memory_bytes(),
            });
        }
    }

    fn set_client_name(&mut self, id: u64, name: &[u8]) {
        if let Some(client) = self.state.shared.client(id) {
            client.set_name(name);
        }
    }

    fn kill_client(&mut self, id: u64) -> bool {
        let Some(client) = self.state.shared.client(id) else {
            return false;
        };
        match client.worker == self.state.worker {
            true => self.clients.killed.push(client),
            false => self.state.shared.kill(client, CloseReason::Killed),
        }
        true
    }

    fn save(&mut self) -> Result<(), String> {
        self.backing.save(false)
    }

    fn save_in_background(&mut self) -> Result<(), String> {
        self.backing.save(true)
    }

    /// A snapshot begins a new log.
    fn rewrite_log_in_background(&mut self) -> Result<(), String> {
        self.save_in_background()
    }

    fn last_save_s(&mut self) -> u64 {
        self.backing.refresh();
        self.backing.last_save_s()
    }

    fn shutdown(&mut self, save: Option<bool>) -> Result<(), String> {
        if save == Some(true) {
            self.save()?;
        }
        self.state.is_shutting_down = true;
        self.state.shared.stop();
        Ok(())
    }

    fn output_room_bytes(&self) -> usize {
        let limit = self.state.settings.limits.memory_bytes;
        let left = limit.saturating_sub(self.clients.memory_bytes());
        // One command is executed in any case; who holds most is closed then.
        left.clamp(1, TURN_OUTPUT_MAX_BYTES)
    }

    fn stages(&self) -> Option<&StageClock> {
        Some(&self.state.stages)
    }

    fn read_only_reason(&self) -> ReadOnlyReason {
        match self.backing.replication() {
            Some(replication) if replication.is_replica() => ReadOnlyReason::Replica,
            _ => ReadOnlyReason::PersistenceFailed,
        }
    }

    fn replication(&mut self) -> Option<&mut dyn Replication> {
        self.backing.replication_mut().map(|own| own as _)
    }

    fn cluster(&self) -> Option<&Arc<ClusterView>> {
        self.state.cluster.as_ref().map(WorkerView::view)
    }

    fn is_cluster_settled(&self) -> bool {
        self.state.cluster.as_ref().is_none_or(WorkerView::is_settled)
    }

    fn is_loading(&self) -> bool {
        let replication = self.backing.replication();
        replication.is_some_and(|replication| replication.is_loading())
    }
}
