//! The loop that serves, on one thread.
//!
//! Each turn:
//!
//! 1. waits until a socket has something to do,
//! 2. reads a bounded number of bytes of every connection that has some,
//! 3. has the communication engine of each protocol execute the whole commands of all of them,
//! 4. has the backing keep the changes,
//! 5. sends the replies, once a connection, and
//! 6. accepts a bounded number of connections.
//!
//! Where several workers serve, each also executes in every turn the others' requests for its part
//! of the keys ([`StorageBackend::serve_others`]), and is woken for that by its [`Waker`].
//!
//! Replies that a client does not read wait in its connection's output, and while much waits
//! nothing more is read from there. Timers ([`timers`]) close clients that read or send nothing.

mod accepting;
mod connections;
mod datagrams;
mod draining;
mod others;
mod replicas;
mod scraping;
mod timers;

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_base::EventFd;
use overside_http::Exchange;
use slab::Slab;

use super::buffers::Buffers;
use super::client::Clients;
use super::datagrams::Datagrams;
use super::epoll::{Epoll, EventFlags};
use super::ethernet::PortQueue;
use super::listeners::{Listener, Sockets};
use super::packets::PacketServer;
use super::regions::Regions;
use super::state::WorkerContext;
use crate::KeyHasher;
use crate::clock::Clock;
use crate::protocol::{CommunicationEngine, MemcachedEngine};
use crate::stages::Stage;
use connections::{Active, activate};
use overside_kv_backend::Waker;
use overside_kv_backend::{StorageBackend, TICK_MS};

/// Tokens of sockets: a kind, and a number.
const KIND: u64 = 0xff << 56;
const CLIENT: u64 = 0;
const LISTENER: u64 = 1 << 56;
const SCRAPE: u64 = 2 << 56;
const STOP: u64 = 3 << 56;
const WAKER: u64 = 4 << 56;
const DATAGRAMS: u64 = 5 << 56;
const REGIONS: u64 = 6 << 56;

/// Worker of a running server.
pub(super) struct Worker<'b> {
    pub state: WorkerContext,
    pub clock: Clock,
    epoll: Epoll,
    listeners: Vec<Listener>,
    clients: Clients,
    scrapes: Slab<Exchange>,
    buffers: Buffers,
    engine: CommunicationEngine,
    memcached: MemcachedEngine,
    /// Sockets for datagrams, if there are some. `port` is the queue of the DPDK port, if there is
    /// one.
    datagrams: Option<Box<Datagrams>>,
    port: Option<Box<PortQueue>>,
    packets: Box<PacketServer>,
    /// Regions into which clients write requests, if the server offers them.
    regions: Option<Box<Regions>>,
    hasher: KeyHasher,
    backing: &'b mut dyn StorageBackend,
    stop: &'b EventFd,
    /// Waker by which others wake it, if it works for others.
    waker: Option<Arc<Waker>>,
    /// Connections of this turn, and connections that have something to do in the next.
    active: Vec<Active>,
    due: Vec<usize>,
    /// Sockets for datagrams that have some.
    readable: Vec<usize>,
    /// Connections that wait for replicas, and when the first of them has waited long enough.
    waiting: BTreeSet<usize>,
    next_wait_ms: u64,
    /// Time of the next look at commands that wait for a slot that moves.
    next_retry_ms: u64,
    consumed: Vec<(usize, bool)>,
    now_ms: u64,
    next_tick_ms: u64,
    next_sweep_ms: u64,
    /// The backing has more to do at once.
    is_backing_busy: bool,
    /// Ends the drain.
    deadline_ms: Option<u64>,
    /// `true` if every client had received its replies when this worker finished; `None` before
    /// that.
    is_complete: Option<bool>,
}

impl<'b> Worker<'b> {
    pub(super) fn new(
        state: WorkerContext,
        clock: Clock,
        sockets: Sockets,
        hasher: KeyHasher,
        backing: &'b mut dyn StorageBackend,
        stop: &'b EventFd,
    ) -> io::Result<Self> {
        let epoll = Epoll::new()?;
        let Sockets { listeners, datagrams, port, regions } = sockets;
        for (number, listener) in listeners.iter().enumerate() {
            epoll.add(listener, LISTENER | number as u64, EventFlags::IN)?;
        }
        let datagrams = Datagrams::new(datagrams).map(Box::new);
        for (number, socket) in datagrams.iter().flat_map(|all| all.sockets()).enumerate() {
            epoll.add(socket, DATAGRAMS | number as u64, EventFlags::IN)?;
        }
        let regions = regions.map(|inbox| Box::new(Regions::new(inbox)));
        if let Some(regions) = &regions {
            epoll.add(&**regions, REGIONS, EventFlags::IN)?;
        }
        if let Some(port) = &port {
            port.enter();
        }
        epoll.add(stop, STOP, EventFlags::IN)?;
        let waker = backing.waker();
        if let Some(waker) = &waker {
            epoll.add(&**waker, WAKER, EventFlags::IN)?;
        }
        let clients = Clients::new(state.worker, Arc::clone(&state.shared));
        Ok(Self {
            now_ms: clock.now_ms(),
            packets: Box::default(),
            state,
            clock,
            epoll,
            listeners,
            clients,
            scrapes: Slab::new(),
            buffers: Buffers::default(),
            engine: CommunicationEngine::default(),
            memcached: MemcachedEngine::default(),
            datagrams,
            port: port.map(Box::new),
            regions,
            hasher,
            backing,
            stop,
            waker,
            active: Vec::new(),
            due: Vec::new(),
            readable: Vec::new(),
            waiting: BTreeSet::new(),
            next_wait_ms: u64::MAX,
            next_retry_ms: 0,
            consumed: Vec::new(),
            next_tick_ms: 0,
            next_sweep_ms: 0,
            is_backing_busy: false,
            deadline_ms: None,
            is_complete: None,
        })
    }

    /// Serves until the server is ended, and then the other workers until they have ended too. Returns `true`
    /// if every client of this worker received its replies before the drain timeout.
    pub(super) fn run(&mut self) -> io::Result<bool> {
        loop {
            self.turn()?;
            if self.state.is_shutting_down && self.deadline_ms.is_none() {
                self.begin_drain();
            }
            if let Some(deadline_ms) = self.deadline_ms
                && (self.clients.table.is_empty() || self.now_ms >= deadline_ms)
            {
                if self.is_complete.is_none() {
                    self.is_complete = Some(self.clients.table.is_empty());
                    self.state.shared.finish(self.state.worker);
                }
                if self.state.shared.is_finished() {
                    return Ok(self.is_complete == Some(true));
                }
            }
        }
    }

    fn turn(&mut self) -> io::Result<()> {
        let timeout = self.timeout();
        let stages = &self.state.stages;
        stages.end(Stage::Other);
        self.wait(timeout)?;
        let stages = &self.state.stages;
        stages.end(match () {
            () if !timeout.is_zero() => Stage::Wait,
            () if self.epoll.events_len() == 0 && self.due.is_empty() => Stage::Poll,
            () => Stage::Receive,
        });
        let begin = Instant::now();
        self.now_ms = self.clock.ms_at(begin);
        if let Some(cluster) = &mut self.state.cluster {
            cluster.refresh();
        }
        let (mut accepting, mut scraping) = (false, false);
        for event in 0..self.epoll.events_len() {
            let (token, flags) = self.epoll.event(event);
            let number = (token & !KIND) as usize;
            match token & KIND {
                CLIENT => activate(&mut self.active, &mut self.clients, number, flags),
                LISTENER => accepting = true,
                SCRAPE => scraping = true,
                DATAGRAMS => self.readable.push(number),
                REGIONS => self.regions.iter_mut().for_each(|regions| regions.admit()),
                WAKER => {}
                _ => {
                    // It stays readable, for the other workers.
                    self.epoll.remove(self.stop)?;
                    self.state.is_shutting_down = true;
                }
            }
        }
        for key in std::mem::take(&mut self.due) {
            let again = match self.deadline_ms {
                Some(_) => EventFlags::IN,
                None => EventFlags::empty(),
            };
            activate(&mut self.active, &mut self.clients, key, again);
        }
        if !self.active.is_empty() || !self.readable.is_empty() {
            self.serve();
            self.serve_datagrams();
            self.state.counters.turns.record(begin.elapsed());
        }
        self.serve_polled(begin);
        if accepting {
            self.accept();
        }
        if scraping {
            self.scrape();
        }
        self.timers();
        if self.waker.is_some() {
            self.work_for_others();
        }
        self.end_waits();
        Ok(())
    }

    fn timeout(&self) -> Duration {
        let is_busy = self.state.settings.busy_poll || self.is_backing_busy || !self.due.is_empty();
        match is_busy {
            true => Duration::ZERO,
            false => {
                let next_ms = self.next_tick_ms.min(self.next_wait_ms);
                let tick = Duration::from_millis(next_ms.saturating_sub(self.now_ms));
                let regions = self.regions.as_ref().and_then(|all| all.sleep_max());
                let port = self.port.as_ref().map(|port| port.sleep_max());
                let polled = regions.into_iter().chain(port);
                let most = self.backing.sleep_max().into_iter().chain(polled);
                most.fold(tick, Duration::min)
            }
        }
    }

    /// Updates the counts of engines and backing.
    fn count(&mut self) {
        let datagrams = self.packets.commands();
        let regions = self.regions.as_ref().map_or(0, |all| all.commands());
        self.state.region_clients = self.regions.as_ref().map_or(0, |all| all.len());
        self.state.commands =
            self.engine.commands() + self.memcached.commands() + datagrams + regions;
        self.state.partition_work = self.backing.partition_work();
    }
}
