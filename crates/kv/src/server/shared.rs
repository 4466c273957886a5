//! What the workers of a server have in common. Each worker counts by itself, and shows the others what it
//! has counted once a turn.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use overside_base::{EventFd, lock};
use overside_device::threads::ThreadClock;

use super::bell::Bell;
use super::client::ClientEntry;
use super::counters::{CloseReason, Counters};
use super::{PartitionWork, Settings};
use crate::stages::Stage;

/// A server as each of its workers sees it.
#[derive(Debug)]
pub struct Shared {
    pub settings: Settings,
    pub started_ms: u64,
    /// Another one for every process.
    pub run_id: String,
    stop: Arc<EventFd>,
    places: Box<[Place]>,
    /// Clients of all workers by their ids.
    clients: Mutex<BTreeMap<u64, Arc<ClientEntry>>>,
    connected: AtomicUsize,
    next_id: AtomicU64,
}

/// What is known of one worker.
#[derive(Debug, Default)]
struct Place {
    bell: Option<Arc<Bell>>,
    cpu: ThreadClock,
    figures: Mutex<Figures>,
    /// Of its connections.
    memory_bytes: AtomicUsize,
    /// Clients of it that others want closed.
    killed: Mutex<Vec<(Arc<ClientEntry>, CloseReason)>>,
    is_finished: AtomicBool,
}

/// What one worker has counted, or all.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub counters: Counters,
    /// Time by stage.
    pub stages_ns: [u64; Stage::COUNT],
    pub batches: u64,
    pub commands: u64,
    pub clients: usize,
    pub memcached_clients: usize,
    pub unauthenticated: usize,
    pub clients_memory_bytes: usize,
    pub partition_work: PartitionWork,
    /// Each of them has a region at each worker.
    pub region_clients: usize,
    /// Those that wait for replicas.
    pub blocked: usize,
}

impl Figures {
    fn add(&mut self, other: &Self) {
        self.counters.add(&other.counters);
        for (sum, ns) in self.stages_ns.iter_mut().zip(other.stages_ns) {
            *sum += ns;
        }
        self.batches += other.batches;
        self.commands += other.commands;
        self.clients += other.clients;
        self.memcached_clients += other.memcached_clients;
        self.unauthenticated += other.unauthenticated;
        self.clients_memory_bytes += other.clients_memory_bytes;
        self.region_clients = self.region_clients.max(other.region_clients);
        self.blocked += other.blocked;
        self.partition_work.own += other.partition_work.own;
        self.partition_work.forwarded += other.partition_work.forwarded;
    }
}

impl Shared {
    /// For as many workers as there are bells. One alone needs none.
    pub fn new(
        settings: Settings,
        started_ms: u64,
        run_id: String,
        stop: Arc<EventFd>,
        bells: Vec<Option<Arc<Bell>>>,
    ) -> Self {
        let place = |bell| Place {
            bell,
            ..Place::default()
        };
        Self {
            settings,
            started_ms,
            run_id,
            stop,
            places: bells.into_iter().map(place).collect(),
            clients: Mutex::default(),
            connected: AtomicUsize::new(0),
            next_id: AtomicU64::new(1),
        }
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.places.len()
    }

    /// The calling thread is this worker from now on.
    pub fn begin(&self, worker: usize) {
        self.places[worker].cpu.begin();
    }

    /// CPU time of all workers.
    pub fn cpu_ns(&self) -> u64 {
        self.places.iter().map(|place| place.cpu.spent_ns()).sum()
    }

    /// Ends the server: every worker drains.
    pub fn stop(&self) {
        self.stop.signal();
    }

    /// A worker has nothing more to do for its clients. It serves other workers until all have finished.
    pub fn finish(&self, worker: usize) {
        self.places[worker]
            .is_finished
            .store(true, Ordering::Release);
        let bells = self.places.iter().filter_map(|place| place.bell.as_ref());
        bells.for_each(|bell| bell.ring());
    }

    /// Ends the server before all workers have begun.
    pub fn abandon(&self) {
        self.stop();
        (0..self.places.len()).for_each(|worker| self.finish(worker));
    }

    /// Whether all workers have.
    pub fn is_finished(&self) -> bool {
        let mut places = self.places.iter();
        places.all(|place| place.is_finished.load(Ordering::Acquire))
    }

    /// Shows what a worker has counted.
    pub fn show(&self, worker: usize, figures: Figures) {
        *lock(&self.places[worker].figures) = figures;
    }

    /// Adds what the other workers have shown to a worker's own figures.
    pub fn total(&self, worker: usize, mut own: Figures) -> Figures {
        for (number, place) in self.places.iter().enumerate() {
            if number != worker {
                own.add(&lock(&place.figures));
            }
        }
        own
    }

    /// Whether one more client may come; it is counted then.
    pub fn admit(&self, most: usize) -> bool {
        let before = self.connected.fetch_add(1, Ordering::Relaxed);
        if before >= most {
            self.connected.fetch_sub(1, Ordering::Relaxed);
        }
        before < most
    }

    /// A client that was admitted is gone.
    pub fn dismiss(&self) {
        self.connected.fetch_sub(1, Ordering::Relaxed);
    }

    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub fn add_client(&self, client: Arc<ClientEntry>) {
        lock(&self.clients).insert(client.id, client);
    }

    pub fn remove_client(&self, id: u64) {
        lock(&self.clients).remove(&id);
    }

    pub fn client(&self, id: u64) -> Option<Arc<ClientEntry>> {
        lock(&self.clients).get(&id).cloned()
    }

    /// In the order of their ids.
    pub fn clients(&self) -> Vec<Arc<ClientEntry>> {
        lock(&self.clients).values().cloned().collect()
    }

    /// Has the worker of a client close it, in its next turn.
    pub fn kill(&self, client: Arc<ClientEntry>, reason: CloseReason) {
        let place = &self.places[client.worker];
        lock(&place.killed).push((client, reason));
        if let Some(bell) = &place.bell {
            bell.ring();
        }
    }

    /// Clients of a worker that are to be closed.
    pub fn take_killed(&self, worker: usize) -> Vec<(Arc<ClientEntry>, CloseReason)> {
        std::mem::take(&mut lock(&self.places[worker].killed))
    }

    pub fn has_killed(&self, worker: usize) -> bool {
        !lock(&self.places[worker].killed).is_empty()
    }

    /// Memory of a worker's connections, for the others to see.
    pub fn set_memory(&self, worker: usize, bytes: usize) {
        (self.places[worker].memory_bytes).store(bytes, Ordering::Relaxed);
    }

    /// Memory of all connections.
    pub fn memory_bytes(&self) -> usize {
        let places = self.places.iter();
        places
            .map(|place| place.memory_bytes.load(Ordering::Relaxed))
            .sum()
    }

    /// The clients that hold most, as many as have to be closed so that the others hold `limit` bytes
    /// together. Nobody else is told of them.
    pub fn take_largest(&self, limit: usize) -> Vec<Arc<ClientEntry>> {
        let clients = lock(&self.clients);
        let mut others: Vec<_> = clients.values().filter(|one| !one.is_condemned()).collect();
        others.sort_by_key(|client| client.memory_bytes());
        let mut total: usize = others.iter().map(|client| client.memory_bytes()).sum();
        let mut largest = Vec::new();
        while total > limit
            && let Some(client) = others.pop()
        {
            total -= client.memory_bytes();
            client.condemn();
            largest.push(Arc::clone(client));
        }
        largest
    }
}
