//! The loop that serves, on one thread.
//!
//! Each turn:
//!
//! 1. waits until a socket has something to do,
//! 2. reads a bounded number of bytes of every connection that has some,
//! 3. has the communication engine of each protocol execute the whole commands of all of them,
//! 4. has the backing keep what they changed,
//! 5. sends the replies, once a connection, and
//! 6. accepts a bounded number of connections.
//!
//! Where several workers serve, each also executes in every turn what the others ask of its part of the keys
//! ([`Backing::serve_others`]), and is woken for that by its [`Bell`].
//!
//! What nobody takes waits in its connection's output, and while much waits nothing more is read from
//! there. Timers ([`timers`]) see to those who take or say nothing.

mod accepting;
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

use super::backing::{Backing, TICK_MS};
use super::bell::Bell;
use super::buffers::Buffers;
use super::client::Clients;
use super::connection::{Connection, Protocol};
use super::context::Context;
use super::counters::CloseReason;
use super::datagrams::Datagrams;
use super::driver::{Driver, EventFlags};
use super::ethernet::PortQueue;
use super::listeners::{Listener, Sockets};
use super::packets::PacketServer;
use super::regions::Regions;
use super::replies::Serving;
use super::state::State;
use crate::KeyHasher;
use crate::clock::Clock;
use crate::protocol::{CommunicationEngine, MemcachedEngine, Ready};
use crate::stages::Stage;

/// Connections that are served together, so that their buffers stay in the cache.
const GROUP: usize = 256;
/// Groups of one while connections hold more than this part of what they may.
const TIGHT: (usize, usize) = (1, 2);

/// Tokens of the driver: a kind, and a number.
const KIND: u64 = 0xff << 56;
const CLIENT: u64 = 0;
const LISTENER: u64 = 1 << 56;
const SCRAPE: u64 = 2 << 56;
const STOP: u64 = 3 << 56;
const BELL: u64 = 4 << 56;
const DATAGRAMS: u64 = 5 << 56;
const REGIONS: u64 = 6 << 56;

/// A server at work.
pub struct Worker<'b> {
    pub state: State,
    pub clock: Clock,
    driver: Driver,
    listeners: Vec<Listener>,
    clients: Clients,
    scrapes: Slab<Exchange>,
    buffers: Buffers,
    engine: CommunicationEngine,
    memcached: MemcachedEngine,
    /// Where there are sockets for datagrams, and where there is a port.
    datagrams: Option<Box<Datagrams>>,
    port: Option<Box<PortQueue>>,
    packets: Box<PacketServer>,
    /// Where clients may write requests.
    regions: Option<Box<Regions>>,
    hasher: KeyHasher,
    backing: &'b mut dyn Backing,
    stop: &'b EventFd,
    /// By what others wake it, if it works for others.
    bell: Option<Arc<Bell>>,
    /// Connections of this turn, and connections that have something to do in the next.
    active: Vec<Active>,
    due: Vec<usize>,
    /// Sockets for datagrams that have some.
    readable: Vec<usize>,
    /// Connections that wait for replicas, and when the first of them has waited long enough.
    waiting: BTreeSet<usize>,
    next_wait_ms: u64,
    consumed: Vec<(usize, bool)>,
    now_ms: u64,
    next_tick_ms: u64,
    next_sweep_ms: u64,
    /// The backing has more to do at once.
    is_backing_busy: bool,
    /// Ends the drain.
    deadline_ms: Option<u64>,
    /// Whether every client had what was its own when this worker finished.
    is_complete: Option<bool>,
}

/// A connection that is being served.
struct Active {
    key: usize,
    connection: Box<Connection>,
    is_readable: bool,
    is_ready: bool,
}

impl<'b> Worker<'b> {
    pub fn new(
        state: State,
        clock: Clock,
        sockets: Sockets,
        hasher: KeyHasher,
        backing: &'b mut dyn Backing,
        stop: &'b EventFd,
    ) -> io::Result<Self> {
        let mut driver = Driver::new(state.settings.driver)?;
        let Sockets {
            listeners,
            datagrams,
            port,
            regions,
        } = sockets;
        for (number, listener) in listeners.iter().enumerate() {
            driver.add(listener, LISTENER | number as u64, EventFlags::IN)?;
        }
        let datagrams = Datagrams::new(datagrams).map(Box::new);
        for (number, socket) in datagrams.iter().flat_map(|all| all.sockets()).enumerate() {
            driver.add(socket, DATAGRAMS | number as u64, EventFlags::IN)?;
        }
        let regions = regions.map(|inbox| Box::new(Regions::new(inbox)));
        if let Some(regions) = &regions {
            driver.add(&**regions, REGIONS, EventFlags::IN)?;
        }
        if let Some(port) = &port {
            port.enter();
        }
        driver.add(stop, STOP, EventFlags::IN)?;
        let bell = backing.bell();
        if let Some(bell) = &bell {
            driver.add(&**bell, BELL, EventFlags::IN)?;
        }
        let clients = Clients::new(state.worker, Arc::clone(&state.shared));
        Ok(Self {
            now_ms: clock.now_ms(),
            packets: Box::new(PacketServer::new(&state)),
            state,
            clock,
            driver,
            listeners,
            clients,
            scrapes: Slab::new(),
            buffers: Buffers::default(),
            engine: CommunicationEngine::new(),
            memcached: MemcachedEngine::default(),
            datagrams,
            port: port.map(Box::new),
            regions,
            hasher,
            backing,
            stop,
            bell,
            active: Vec::new(),
            due: Vec::new(),
            readable: Vec::new(),
            waiting: BTreeSet::new(),
            next_wait_ms: u64::MAX,
            consumed: Vec::new(),
            next_tick_ms: 0,
            next_sweep_ms: 0,
            is_backing_busy: false,
            deadline_ms: None,
            is_complete: None,
        })
    }

    /// Serves until it is asked to end, and then the other workers until they have ended too. Whether
    /// every client has had what was its own by then.
    pub fn run(&mut self) -> io::Result<bool> {
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
            () if self.driver.events_len() == 0 && self.due.is_empty() => Stage::Poll,
            () => Stage::Receive,
        });
        let begin = Instant::now();
        self.now_ms = self.clock.ms_at(begin);
        let (mut accepting, mut scraping) = (false, false);
        for event in 0..self.driver.events_len() {
            let (token, flags) = self.driver.event(event);
            let number = (token & !KIND) as usize;
            match token & KIND {
                CLIENT => activate(&mut self.active, &mut self.clients, number, flags),
                LISTENER => accepting = true,
                SCRAPE => scraping = true,
                DATAGRAMS => self.readable.push(number),
                REGIONS => self.regions.iter_mut().for_each(|regions| regions.admit()),
                BELL => {}
                _ => {
                    // It stays readable, for the other workers.
                    self.driver.remove(self.stop, STOP)?;
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
        if self.bell.is_some() {
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

    /// Serves the connections of this turn.
    fn serve(&mut self) {
        if self.active.is_empty() {
            return;
        }
        let mut active = std::mem::take(&mut self.active);
        let limit = self.state.settings.limits.memory_bytes;
        let is_tight = self.state.shared.memory_bytes() > limit / TIGHT.1 * TIGHT.0;
        for group in active.chunks_mut(if is_tight { 1 } else { GROUP }) {
            self.serve_group(group);
        }
        for one in active.drain(..) {
            self.settle(one.key, one.connection);
        }
        self.active = active;
        self.close_killed();
        self.close_largest();
    }

    fn serve_group(&mut self, group: &mut [Active]) {
        let counters = &mut self.state.counters;
        for one in &mut *group {
            let connection = &mut one.connection;
            counters.bytes_sent += connection.send(self.now_ms) as u64;
            if one.is_readable {
                let token = CLIENT | one.key as u64;
                let received = (self.driver).receive(token, connection, &mut self.buffers);
                counters.bytes_received += received as u64;
                if received > 0 {
                    self.clients.table[one.key].entry.set_active_ms(self.now_ms);
                }
            }
            one.is_ready = connection.is_ready(&mut self.buffers);
        }
        let wrong = counters.wrong_passwords;
        self.state.stages.end(Stage::Receive);
        if group.iter().any(|one| one.is_ready) {
            match self.state.settings.sends_early {
                true => {
                    // Replies to one protocol do not wait until the other is parsed.
                    self.process(group, &[Protocol::Resp]);
                    self.send(group);
                    self.process(group, &[Protocol::Memcached]);
                }
                false => self.process(group, &[Protocol::Resp, Protocol::Memcached]),
            }
        }
        if self.state.counters.wrong_passwords != wrong {
            timers::delay_unauthenticated(group, self.now_ms);
        }
        self.send(group);
    }

    /// Sends what is there.
    fn send(&mut self, group: &mut [Active]) {
        let connections = group.iter_mut().map(|one| &mut *one.connection);
        self.state.counters.bytes_sent += self.driver.send(connections, self.now_ms) as u64;
        self.state.stages.end(Stage::Respond);
    }

    /// Executes the commands of those that are ready and speak one of these, and keeps what they changed.
    fn process(&mut self, group: &mut [Active], protocols: &[Protocol]) {
        let speaks = |one: &Active| one.is_ready && protocols.contains(&one.connection.protocol);
        if !group.iter().any(speaks) {
            return;
        }
        for protocol in protocols {
            self.execute(group, *protocol);
        }
        self.count();
        let kept = self.backing.before_replies();
        self.state.stages.end(Stage::Persist);
        if kept.is_err() {
            for one in group.iter_mut().filter(|one| speaks(one)) {
                one.connection.close = Some(CloseReason::Persistence);
            }
        }
    }

    /// Brings up to date what engines and backing count.
    fn count(&mut self) {
        let datagrams = self.packets.commands();
        let regions = self.regions.as_ref().map_or(0, |all| all.commands());
        self.state.region_clients = self.regions.as_ref().map_or(0, |all| all.len());
        self.state.commands =
            self.engine.commands() + self.memcached.commands() + datagrams + regions;
        self.state.partition_work = self.backing.partition_work();
    }

    /// Serves the datagrams of this turn.
    fn serve_datagrams(&mut self) {
        if let Some(datagrams) = &mut self.datagrams {
            let mut serving = Serving {
                now_ms: self.now_ms,
                state: &mut self.state,
                clients: &mut self.clients,
                backing: self.backing,
                hasher: &self.hasher,
            };
            for number in self.readable.drain(..) {
                datagrams.serve(number, &mut self.packets, &mut serving);
            }
            self.count();
        }
    }

    /// Serves what nobody says has come: at a port that DPDK drives, and in regions of clients.
    fn serve_polled(&mut self, begin: Instant) {
        if self.port.is_none() && self.regions.is_none() {
            return;
        }
        let mut serving = Serving {
            now_ms: self.now_ms,
            state: &mut self.state,
            clients: &mut self.clients,
            backing: self.backing,
            hasher: &self.hasher,
        };
        let port = self.port.as_mut();
        let mut is_busy = port.is_some_and(|port| port.serve(&mut self.packets, &mut serving));
        let regions = self.regions.as_mut();
        is_busy |= regions.is_some_and(|regions| regions.serve(&mut serving));
        match is_busy {
            true => self.state.counters.turns.record(begin.elapsed()),
            false => self.state.stages.end(Stage::Poll),
        }
        self.count();
    }

    fn execute(&mut self, group: &mut [Active], protocol: Protocol) {
        let speaks = |one: &&mut Active| one.is_ready && one.connection.protocol == protocol;
        let mut ready: Vec<_> = (group.iter_mut().filter(speaks))
            .map(|one| {
                let Connection {
                    session,
                    input,
                    output,
                    ..
                } = &mut *one.connection;
                Ready::new(session, input, output)
            })
            .collect();
        if ready.is_empty() {
            return;
        }
        let mut context = Context {
            now_ms: self.now_ms,
            state: &mut self.state,
            clients: &mut self.clients,
            backing: self.backing,
        };
        let (hasher, context) = (&self.hasher, &mut context);
        match protocol {
            Protocol::Resp => self.engine.process(&mut ready, hasher, context),
            Protocol::Memcached => self.memcached.process(&mut ready, hasher, context),
        }
        self.consumed.clear();
        (self.consumed).extend(ready.iter().map(|one| (one.consumed, one.has_more)));
        for (one, (consumed, has_more)) in group.iter_mut().filter(speaks).zip(&self.consumed) {
            one.connection.consume(*consumed, *has_more);
        }
    }

    /// Puts a connection back, or closes it.
    fn settle(&mut self, key: usize, mut connection: Box<Connection>) {
        let is_draining = self.deadline_ms.is_some();
        if let Some(request) = connection.session.take_sync_request() {
            return self.hand_over(key, *connection, request);
        }
        if let Some(reason) = connection.settle(&mut self.buffers, is_draining) {
            return self.close(key, *connection, reason);
        }
        self.clients.update(key, &connection);
        let is_due = connection.is_due() || is_draining && connection.may_have_input();
        if is_due {
            self.due.push(key);
        }
        if connection.session.replica_wait().is_some() {
            self.waiting.insert(key);
        }
        self.watch(key, &mut connection);
        self.clients.table[key].connection = Some(connection);
    }

    /// Has the driver look for what the connection waits for.
    fn watch(&mut self, key: usize, connection: &mut Connection) {
        let wanted = connection.wanted_interest(self.now_ms);
        if wanted != connection.interest {
            connection.interest = wanted;
            let token = CLIENT | key as u64;
            let changed = (self.driver).change(&connection.transport, token, wanted);
            if changed.is_err() {
                connection.close = Some(CloseReason::Failed);
                self.due.push(key);
            }
        }
    }

    fn close(&mut self, key: usize, connection: Connection, reason: CloseReason) {
        let client = &self.clients.table[key].entry;
        tracing::debug!(id = client.id, address = %client.address, ?reason, "connection closed");
        self.state.counters.closed[reason as usize] += 1;
        self.clients.remove(key);
        self.driver.forget(CLIENT | key as u64);
        connection.transport.close();
    }

    /// Closes a connection that is not being served.
    fn evict(&mut self, key: usize, reason: CloseReason) {
        let client = self.clients.table.get_mut(key);
        if let Some(connection) = client.and_then(|client| client.connection.take()) {
            self.close(key, *connection, reason);
        }
    }

    /// Accepts nobody any more, and serves what has come.
    fn begin_drain(&mut self) {
        tracing::info!(connections = self.clients.table.len(), "asked to end");
        for number in 0..self.listeners.len() {
            self.driver.forget(LISTENER | number as u64);
        }
        self.listeners.clear();
        // What has not been answered is asked again, elsewhere.
        let datagrams = self.datagrams.take();
        for (number, _) in datagrams.iter().flat_map(|all| all.sockets()).enumerate() {
            self.driver.forget(DATAGRAMS | number as u64);
        }
        self.port = None;
        if self.regions.take().is_some() {
            self.driver.forget(REGIONS);
        }
        let drain_ms = self.state.settings.drain.as_millis() as u64;
        self.deadline_ms = Some(self.now_ms.saturating_add(drain_ms));
        for (key, client) in &mut self.clients.table {
            if let Some(connection) = &mut client.connection {
                connection.look_again();
                self.due.push(key);
            }
        }
    }
}

/// Takes a connection out of the table to serve it.
fn activate(active: &mut Vec<Active>, clients: &mut Clients, key: usize, flags: EventFlags) {
    const READABLE: EventFlags = EventFlags::IN
        .union(EventFlags::HUP)
        .union(EventFlags::ERR)
        .union(EventFlags::RDHUP);
    let client = clients.table.get_mut(key);
    // It may be there twice, or gone.
    if let Some(connection) = client.and_then(|client| client.connection.take()) {
        active.push(Active {
            key,
            connection,
            is_readable: flags.intersects(READABLE),
            is_ready: false,
        });
    }
}
