//! A thread's connections, and its measurements with them.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use overside_base::Random;
use overside_link::agent::CancellationToken;
use overside_probe::latency::Latencies;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::system;
use crate::connection::Counts;
use crate::datagram::Client;
use crate::port::{PortChannel, PortHub};
use crate::settings::LOAD_PIPELINE;
use crate::{Address, BenchError, LoadMode, Settings};

/// Longest time that a server may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(30);
const EVENTS: usize = 256;
/// Time between two looks for datagrams that are late.
const LATE_LOOK: Duration = Duration::from_millis(10);
/// Waits shorter than this are spun.
const SPIN_BELOW_NS: u64 = 100_000;

/// Measurements of one thread.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub windows: Vec<Latencies>,
    /// Requests in them, by endpoint.
    pub by_endpoint: Vec<u64>,
    /// Requests that were answered, the warm-up's too.
    pub answered: u64,
    pub counts: Counts,
    /// Time that the oldest request without an answer had waited at the end, in nanoseconds.
    pub waited_ns: u64,
    pub cpu_s: f64,
    pub seconds: f64,
}

impl Measured {
    fn take(&mut self, counts: Counts) {
        self.counts.hits += counts.hits;
        self.counts.misses += counts.misses;
    }
}

/// A thread's connections.
pub(super) struct Driver<'s> {
    settings: &'s Settings,
    cancelled: &'s CancellationToken,
    set: OwnedFd,
    connections: Vec<Client>,
    /// For each connection: `true` if it has unsent bytes, and the epoll set reports when they can
    /// be sent.
    is_waiting_to_send: Vec<bool>,
    /// The port by which they go, if that is not the kernel.
    port: Option<Rc<RefCell<PortHub>>>,
    ready: Vec<usize>,
    last_answer: Instant,
    last_look: Instant,
}

impl<'s> Driver<'s> {
    pub(super) fn open(
        settings: &'s Settings,
        numbers: Vec<u64>,
        cancelled: &'s CancellationToken,
    ) -> Result<Self, BenchError> {
        let set = epoll::create(CreateFlags::CLOEXEC).map_err(|e| system("epoll")(e.into()))?;
        let port = open_port(settings, numbers.len())?;
        let channel = |index| port.as_ref().map(|hub| PortChannel::new(hub, index));
        let connections = (numbers.iter().enumerate())
            .map(|(index, number)| Client::open(settings, *number, channel(index)));
        let connections: Vec<Client> = connections.collect::<Result<_, _>>()?;
        for (index, connection) in connections.iter().enumerate() {
            let Some(fd) = connection.fd() else { continue };
            let data = EventData::new_u64(index as u64);
            let added = epoll::add(&set, fd, data, EventFlags::IN);
            added.map_err(|error| system("epoll")(error.into()))?;
        }
        Ok(Self {
            settings,
            cancelled,
            set,
            is_waiting_to_send: vec![false; connections.len()],
            connections,
            port,
            ready: Vec::new(),
            last_answer: Instant::now(),
            last_look: Instant::now(),
        })
    }

    pub(super) fn load(&mut self, next: &AtomicU64) -> Result<(), BenchError> {
        let count = self.settings.records.count;
        let mut left = true;
        while left || self.connections.iter().any(|c| c.in_flight() > 0) {
            for index in 0..self.connections.len() {
                while left && self.connections[index].in_flight() < LOAD_PIPELINE {
                    let record = next.fetch_add(1, Ordering::Relaxed);
                    left = record < count;
                    if left {
                        self.connections[index].insert(record, 0)?;
                    }
                }
                self.flush(index)?;
            }
            self.wait(Some(Duration::from_millis(100)))?;
            for index in std::mem::take(&mut self.ready) {
                self.receive(index, &mut |_| {})?;
            }
        }
        Ok(())
    }

    /// Measures from `begin_ns` after `begin` on, warm-up first.
    pub(super) fn measure(
        &mut self,
        begin: Instant,
        begin_ns: u64,
        thread: usize,
    ) -> Result<Measured, BenchError> {
        let clock = Clock {
            begin,
            warm_ns: begin_ns + self.settings.warm_up.as_nanos() as u64,
            window_ns: (self.settings.duration.as_nanos() as u64 / self.settings.windows as u64)
                .max(1),
            windows: self.settings.windows as u64,
        };
        let mut measured = Measured {
            windows: vec![Latencies::new(); self.settings.windows],
            by_endpoint: vec![0; self.settings.endpoints().count()],
            ..Measured::default()
        };
        let cpu_ns = cpu_ns();
        match self.settings.mode {
            LoadMode::Closed => self.closed_loop(&clock, &mut measured)?,
            LoadMode::Open { rate } => {
                let thread = self.settings.generator.index * self.settings.threads + thread;
                let seed = self.settings.seed ^ (thread as u64 + 1).rotate_right(8);
                let arrivals = Arrivals {
                    random: Random::new(seed),
                    mean_ns: 1e9 * self.settings.threads as f64 / rate,
                    next_ns: begin_ns as f64,
                };
                self.open_loop(&clock, arrivals, &mut measured)?;
            }
        }
        // What a stall has kept from being answered is in no histogram.
        let now_ns = clock.now_ns();
        for started_ns in self.connections.iter().filter_map(Client::oldest_ns) {
            let waited_ns = now_ns.saturating_sub(started_ns.max(clock.warm_ns));
            measured.waited_ns = measured.waited_ns.max(waited_ns);
        }
        measured.cpu_s = (self::cpu_ns() - cpu_ns) as f64 / 1e9;
        measured.seconds = (clock.now_ns() - begin_ns) as f64 / 1e9;
        Ok(measured)
    }

    fn closed_loop(&mut self, clock: &Clock, measured: &mut Measured) -> Result<(), BenchError> {
        for index in 0..self.connections.len() {
            self.fill(index, clock.now_ns())?;
        }
        while !clock.has_ended() {
            self.wait(self.settings.busy_poll.then_some(Duration::ZERO))?;
            let mut ready = std::mem::take(&mut self.ready);
            for index in ready.drain(..) {
                self.flush(index)?;
                self.receive_timed(index, clock, measured)?;
                if self.connections[index].in_flight() == 0 {
                    self.fill(index, clock.now_ns())?;
                } else {
                    self.flush(index)?;
                }
            }
            self.ready = ready;
        }
        Ok(())
    }

    /// Sends a whole pipeline.
    fn fill(&mut self, index: usize, now_ns: u64) -> Result<(), BenchError> {
        for _ in 0..self.settings.pipeline {
            self.connections[index].ask(now_ns)?;
        }
        self.flush(index)
    }

    fn open_loop(
        &mut self,
        clock: &Clock,
        mut arrivals: Arrivals,
        measured: &mut Measured,
    ) -> Result<(), BenchError> {
        let mut next = 0;
        let mut touched = Vec::new();
        while !clock.has_ended() {
            let now_ns = clock.now_ns();
            // What finds no room keeps its intended time.
            'arrivals: while arrivals.next_ns <= now_ns as f64 {
                let mut tried = 0;
                while self.connections[next].in_flight() >= self.settings.pipeline {
                    next = (next + 1) % self.connections.len();
                    tried += 1;
                    if tried == self.connections.len() {
                        break 'arrivals;
                    }
                }
                self.connections[next].ask(arrivals.next_ns as u64)?;
                touched.push(next);
                next = (next + 1) % self.connections.len();
                arrivals.advance();
            }
            for index in touched.drain(..) {
                self.flush(index)?;
            }
            let until_next = arrivals.next_ns - clock.now_ns() as f64;
            let wait_ns = until_next.clamp(0.0, 1e8) as u64;
            let spins = self.settings.busy_poll || wait_ns < SPIN_BELOW_NS;
            self.wait(Some(match spins {
                true => Duration::ZERO,
                // Early, because a wait may end late.
                false => Duration::from_nanos(wait_ns - SPIN_BELOW_NS / 2),
            }))?;
            let mut ready = std::mem::take(&mut self.ready);
            for index in ready.drain(..) {
                self.flush(index)?;
                self.receive_timed(index, clock, measured)?;
                self.flush(index)?;
            }
            self.ready = ready;
        }
        Ok(())
    }

    fn receive_timed(
        &mut self,
        index: usize,
        clock: &Clock,
        measured: &mut Measured,
    ) -> Result<(), BenchError> {
        // Read once the first answer is taken, so that receiving is part of the time.
        let mut now_ns = None;
        let windows = &mut measured.windows;
        let mut recorded = 0;
        let counts = self.receive(index, &mut |started_ns| {
            let now_ns = *now_ns.get_or_insert_with(|| clock.now_ns());
            if let Some(window) = clock.window(now_ns).and_then(|window| windows.get_mut(window)) {
                window.record(now_ns.saturating_sub(started_ns));
                recorded += 1;
            }
        })?;
        measured.by_endpoint[self.connections[index].endpoint()] += recorded;
        measured.answered += counts.done;
        // The read of a read-modify-write ends no request.
        if counts.hits + counts.misses > 0 {
            let now_ns = now_ns.unwrap_or_else(|| clock.now_ns());
            if clock.window(now_ns).is_some() {
                measured.take(counts);
            }
        }
        Ok(())
    }

    fn receive(&mut self, index: usize, done: &mut impl FnMut(u64)) -> Result<Counts, BenchError> {
        let counts = self.connections[index].receive(done)?;
        if counts.done > 0 {
            self.last_answer = Instant::now();
        }
        Ok(counts)
    }

    /// Sends as much as possible; epoll reports when there is room for the rest.
    fn flush(&mut self, index: usize) -> Result<(), BenchError> {
        let connection = &mut self.connections[index];
        connection.flush()?;
        let must_wait = connection.has_unsent();
        if must_wait != self.is_waiting_to_send[index] {
            self.is_waiting_to_send[index] = must_wait;
            let interest = match must_wait {
                true => EventFlags::IN | EventFlags::OUT,
                false => EventFlags::IN,
            };
            let Some(fd) = connection.fd() else {
                return Ok(());
            };
            let data = EventData::new_u64(index as u64);
            let changed = epoll::modify(&self.set, fd, data, interest);
            changed.map_err(|error| system("epoll")(error.into()))?;
        }
        Ok(())
    }

    /// Finds connections that are ready; `None`: waits as long as a server may be silent.
    fn wait(&mut self, most: Option<Duration>) -> Result<(), BenchError> {
        if self.cancelled.is_cancelled() {
            return Err(BenchError::Cancelled);
        }
        self.look_for_late()?;
        let most = most.unwrap_or(match self.settings.protocol {
            protocol if protocol.is_datagram() => LATE_LOOK,
            _ => Duration::from_millis(200),
        });
        match &self.port {
            Some(port) => port.borrow_mut().wait(most, &mut self.ready),
            None => self.wait_for_sockets(most)?,
        }
        if self.ready.is_empty() {
            self.check_silence()?;
        }
        Ok(())
    }

    fn wait_for_sockets(&mut self, most: Duration) -> Result<(), BenchError> {
        let timeout = Timespec { tv_sec: most.as_secs() as _, tv_nsec: most.subsec_nanos() as _ };
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        match epoll::wait(&self.set, &mut events[..], Some(&timeout)) {
            Ok((events, _)) => {
                let ready = events.iter().map(|event| event.data.u64() as usize);
                self.ready.extend(ready);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(system("epoll")(error.into())),
        }
        Ok(())
    }

    /// Sends unanswered datagrams again.
    fn look_for_late(&mut self) -> Result<(), BenchError> {
        let is_due = self.settings.protocol.is_datagram() && self.last_look.elapsed() >= LATE_LOOK;
        if is_due {
            self.last_look = Instant::now();
            for index in 0..self.connections.len() {
                self.flush(index)?;
            }
        }
        Ok(())
    }

    fn check_silence(&self) -> Result<(), BenchError> {
        let is_waiting = || self.connections.iter().any(|c| c.in_flight() > 0);
        match self.last_answer.elapsed() > SILENCE_MAX && is_waiting() {
            true => Err(BenchError::Stalled {
                address: self.settings.address.to_string(),
                seconds: SILENCE_MAX.as_secs(),
            }),
            false => Ok(()),
        }
    }
}

/// The port, if the load goes by one.
fn open_port(
    settings: &Settings,
    connections: usize,
) -> Result<Option<Rc<RefCell<PortHub>>>, BenchError> {
    let (Some(port), Address::Tcp(SocketAddr::V4(server))) = (&settings.port, &settings.address)
    else {
        return Ok(None);
    };
    let hub = PortHub::open(port, *server, connections);
    let hub = hub.map_err(|source| BenchError::Connection {
        address: settings.address.to_string(),
        source,
    })?;
    Ok(Some(Rc::new(RefCell::new(hub))))
}

/// Requests at random times.
struct Arrivals {
    random: Random,
    mean_ns: f64,
    next_ns: f64,
}

impl Arrivals {
    fn advance(&mut self) {
        self.next_ns += self.random.exponential(self.mean_ns);
    }
}

/// Nanoseconds since the beginning, and the windows.
struct Clock {
    begin: Instant,
    warm_ns: u64,
    window_ns: u64,
    windows: u64,
}

impl Clock {
    fn now_ns(&self) -> u64 {
        self.begin.elapsed().as_nanos() as u64
    }

    fn window(&self, now_ns: u64) -> Option<usize> {
        let window = now_ns.checked_sub(self.warm_ns)? / self.window_ns;
        (window < self.windows).then_some(window as usize)
    }

    fn has_ended(&self) -> bool {
        self.now_ns() >= self.warm_ns + self.windows * self.window_ns
    }
}

/// CPU time of the calling thread.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
