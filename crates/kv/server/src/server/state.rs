//! Counts of one worker, and the server that it belongs to.

use std::sync::Arc;

use super::client::Clients;
use super::counters::Counters;
use super::shared::{Figures, Shared};
use super::{PartitionWork, Settings};
use crate::cluster::WorkerView;
use crate::stages::StageClock;

pub(super) struct WorkerContext {
    /// Copy of the server's settings.
    pub settings: Settings,
    pub shared: Arc<Shared>,
    /// Number of the worker.
    pub worker: usize,
    pub counters: Counters,
    pub stages: StageClock,
    /// Commands executed.
    pub commands: u64,
    pub partition_work: PartitionWork,
    /// Clients that write into request regions.
    pub region_clients: usize,
    /// Clients that wait for replicas.
    pub blocked: usize,
    pub is_shutting_down: bool,
    /// Cluster of the server, as this worker knows it.
    pub cluster: Option<WorkerView>,
}

impl WorkerContext {
    pub(super) fn new(shared: Arc<Shared>, worker: usize) -> Self {
        let cluster = shared.settings.cluster.as_ref();
        Self {
            cluster: cluster.map(|state| WorkerView::new(state, worker, shared.waker(worker))),
            settings: shared.settings.clone(),
            shared,
            worker,
            counters: Counters::default(),
            stages: StageClock::start(),
            commands: 0,
            partition_work: PartitionWork::default(),
            region_clients: 0,
            blocked: 0,
            is_shutting_down: false,
        }
    }

    fn figures(&self, clients: &Clients) -> Figures {
        Figures {
            counters: self.counters.clone(),
            stages_ns: self.stages.times_ns().map(|(_, ns)| ns),
            batches: self.stages.batches(),
            commands: self.commands,
            clients: clients.table.len(),
            memcached_clients: clients.memcached,
            unauthenticated: clients.unauthenticated,
            clients_memory_bytes: clients.memory_bytes(),
            partition_work: self.partition_work,
            region_clients: self.region_clients,
            blocked: self.blocked,
        }
    }

    /// Publishes this worker's figures to the others.
    pub(super) fn show(&self, clients: &Clients) {
        self.shared.show(self.worker, self.figures(clients));
    }

    /// Returns the counts of all workers together, the other workers' as of their last turn.
    pub(super) fn total(&self, clients: &Clients) -> Figures {
        self.shared.total(self.worker, self.figures(clients))
    }
}
