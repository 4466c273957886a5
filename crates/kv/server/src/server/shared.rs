//! State that the workers of a server share. Each worker counts by itself, and publishes its counts
//! to the others once a turn.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use overside_base::{EventFd, lock};
use overside_device::threads::ThreadClock;

use super::connection::Protocol;
use super::counters::{CloseReason, Counters};
use super::{PartitionWork, Settings};
use crate::stages::Stage;
use overside_kv_backend::Waker;

/// A connected client, as all workers see it. Only its own worker writes.
#[derive(Debug)]
pub(super) struct ClientEntry {
    pub id: u64,
    /// Number of the worker that serves the client. `key` is the client's place in that worker's
    /// table.
    pub worker: usize,
    pub key: usize,
    pub address: Box<str>,
    pub local_address: Arc<str>,
    pub protocol: Protocol,
    pub opened_ms: u64,
    pub(super) name: Mutex<Box<[u8]>>,
    pub(super) active_ms: AtomicU64,
    pub(super) input_bytes: AtomicUsize,
    pub(super) input_free_bytes: AtomicUsize,
    pub(super) output_bytes: AtomicUsize,
    pub(super) memory_bytes: AtomicUsize,
    pub(super) is_condemned: AtomicBool,
}

impl ClientEntry {
    pub(super) fn name(&self) -> Box<[u8]> {
        lock(&self.name).clone()
    }

    pub(super) fn set_name(&self, name: &[u8]) {
        *lock(&self.name) = name.into();
    }

    /// Returns the time at which the client last sent something, in milliseconds since 1970.
    pub(super) fn active_ms(&self) -> u64 {
        self.active_ms.load(Ordering::Relaxed)
    }

    pub(super) fn set_active_ms(&self, now_ms: u64) {
        self.active_ms.store(now_ms, Ordering::Relaxed);
    }

    pub(super) fn input_bytes(&self) -> usize {
        self.input_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn input_free_bytes(&self) -> usize {
        self.input_free_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn output_bytes(&self) -> usize {
        self.output_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Returns `true` if it must be closed because of its memory.
    pub(super) fn is_condemned(&self) -> bool {
        self.is_condemned.load(Ordering::Relaxed)
    }

    pub(super) fn condemn(&self) {
        self.is_condemned.store(true, Ordering::Relaxed);
    }
}

/// A server as each of its workers sees it.
#[derive(Debug)]
pub(super) struct Shared {
    pub settings: Settings,
    pub started_ms: u64,
    /// Another one for every process.
    pub run_id: String,
    stop: Arc<EventFd>,
    places: Box<[WorkerState]>,
    /// Clients of all workers by their ids.
    clients: Mutex<BTreeMap<u64, Arc<ClientEntry>>>,
    connected: AtomicUsize,
    next_id: AtomicU64,
}

/// State of one worker, as the others see it.
#[derive(Debug, Default)]
struct WorkerState {
    waker: Option<Arc<Waker>>,
    cpu: ThreadClock,
    figures: Mutex<Figures>,
    /// Memory of the worker's connections in bytes.
    memory_bytes: AtomicUsize,
    /// Clients of it that others want closed.
    killed: Mutex<Vec<(Arc<ClientEntry>, CloseReason)>>,
    is_finished: AtomicBool,
}

/// Counts of one worker, or of all workers together.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
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
    /// Clients that wait for replicas (`WAIT`).
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
        self.partition_work.add(&other.partition_work);
    }
}

impl Shared {
    /// Makes the state for as many workers as there are wakers. A single worker needs none.
    pub(super) fn new(
        settings: Settings,
        started_ms: u64,
        run_id: String,
        stop: Arc<EventFd>,
        wakers: Vec<Option<Arc<Waker>>>,
    ) -> Self {
        let place = |waker| WorkerState { waker, ..WorkerState::default() };
        Self {
            settings,
            started_ms,
            run_id,
            stop,
            places: wakers.into_iter().map(place).collect(),
            clients: Mutex::default(),
            connected: AtomicUsize::new(0),
            next_id: AtomicU64::new(1),
        }
    }

    /// Returns the number of workers.
    pub(super) fn workers(&self) -> usize {
        self.places.len()
    }

    /// Returns the waker of a worker, if it has one.
    pub(super) fn waker(&self, worker: usize) -> Option<Arc<Waker>> {
        self.places[worker].waker.clone()
    }

    /// The calling thread is this worker from now on.
    pub(super) fn begin(&self, worker: usize) {
        self.places[worker].cpu.begin();
    }

    /// CPU time of all workers.
    pub(super) fn cpu_ns(&self) -> u64 {
        self.places.iter().map(|place| place.cpu.spent_ns()).sum()
    }

    /// Ends the server: every worker drains.
    pub(super) fn stop(&self) {
        self.stop.signal();
    }

    /// A worker has nothing more to do for its clients. It serves other workers until all have finished.
    pub(super) fn finish(&self, worker: usize) {
        self.places[worker].is_finished.store(true, Ordering::Release);
        let wakers = self.places.iter().filter_map(|place| place.waker.as_ref());
        wakers.for_each(|waker| waker.wake());
    }

    /// Ends the server before all workers have begun.
    pub(super) fn abandon(&self) {
        self.stop();
        (0..self.places.len()).for_each(|worker| self.finish(worker));
    }

    /// Returns `true` if all workers have finished.
    pub(super) fn is_finished(&self) -> bool {
        let mut places = self.places.iter();
        places.all(|place| place.is_finished.load(Ordering::Acquire))
    }

    /// Publishes a worker's figures.
    pub(super) fn show(&self, worker: usize, figures: Figures) {
        *lock(&self.places[worker].figures) = figures;
    }

    /// Adds the figures that other workers have published to a worker's own.
    pub(super) fn total(&self, worker: usize, mut own: Figures) -> Figures {
        for (number, place) in self.places.iter().enumerate() {
            if number != worker {
                own.add(&lock(&place.figures));
            }
        }
        own
    }

    /// Counts one more client of the server, unless there are `most` already. Returns `true` if it
    /// was counted.
    pub(super) fn admit(&self, most: usize) -> bool {
        let before = self.connected.fetch_add(1, Ordering::Relaxed);
        if before >= most {
            self.connected.fetch_sub(1, Ordering::Relaxed);
        }
        before < most
    }

    /// A client that was admitted is gone.
    pub(super) fn dismiss(&self) {
        self.connected.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn add_client(&self, client: Arc<ClientEntry>) {
        lock(&self.clients).insert(client.id, client);
    }

    pub(super) fn remove_client(&self, id: u64) {
        lock(&self.clients).remove(&id);
    }

    pub(super) fn client(&self, id: u64) -> Option<Arc<ClientEntry>> {
        lock(&self.clients).get(&id).cloned()
    }

    /// Returns the clients by ascending id.
    pub(super) fn clients(&self) -> Vec<Arc<ClientEntry>> {
        lock(&self.clients).values().cloned().collect()
    }

    /// Makes the worker of a client close it, in its next turn.
    pub(super) fn kill(&self, client: Arc<ClientEntry>, reason: CloseReason) {
        let place = &self.places[client.worker];
        lock(&place.killed).push((client, reason));
        if let Some(waker) = &place.waker {
            waker.wake();
        }
    }

    /// Removes the clients of a worker that must be closed.
    pub(super) fn take_killed(&self, worker: usize) -> Vec<(Arc<ClientEntry>, CloseReason)> {
        std::mem::take(&mut lock(&self.places[worker].killed))
    }

    pub(super) fn has_killed(&self, worker: usize) -> bool {
        !lock(&self.places[worker].killed).is_empty()
    }

    /// Memory of a worker's connections, for the others to see.
    pub(super) fn set_memory(&self, worker: usize, bytes: usize) {
        (self.places[worker].memory_bytes).store(bytes, Ordering::Relaxed);
    }

    /// Memory of all connections.
    pub(super) fn memory_bytes(&self) -> usize {
        let places = self.places.iter();
        places.map(|place| place.memory_bytes.load(Ordering::Relaxed)).sum()
    }

    /// Returns the clients with the most memory, as many as must be closed so that the others use at most
    /// `limit` bytes together. They are not returned again.
    pub(super) fn take_largest(&self, limit: usize) -> Vec<Arc<ClientEntry>> {
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
