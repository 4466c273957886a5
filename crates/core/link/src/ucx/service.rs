//! Thread that keeps an endpoint alive while its owners are busy elsewhere.
//!
//! One-sided verbs must work without the program of the other end, and a silent peer must be detected. So an
//! endpoint over a network has one thread that listens to the peer and drives the queue pairs that no caller
//! drives.
//!
//! The thread does not interfere with a queue pair whose owner calls it (posts, polls, receives). If there is
//! something to do for a queue pair whose owner has called it since the last check, or sleeps until it is
//! woken, the thread waits for [`OWNER_TIMEOUT`]. If the owner has not called by then, the thread drives the
//! queue pair until the owner calls again.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use overside_base::{EventFd, lock};
use overside_device::threads::ThreadClock;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use super::control::ControlConnection;
use super::engine::Wait;
use super::pair::Pair;
use crate::verbs::LinkErrorKind;

/// Longest time that an owner may take to handle arrived messages, before the service thread steps
/// in.
const OWNER_TIMEOUT: Duration = Duration::from_millis(1);
/// Interval at which the thread checks queue pairs without an event.
const SCAN_INTERVAL: Duration = Duration::from_millis(100);

const CONTROL: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;

/// The thread; ends when this is dropped.
pub(crate) struct Service {
    shared: Arc<ServiceState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct ServiceState {
    set: OwnedFd,
    wake: EventFd,
    stop: AtomicBool,
    clock: ThreadClock,
    control: Arc<ControlConnection>,
}

impl Service {
    pub(crate) fn start(
        control: Arc<ControlConnection>,
        pairs: Vec<Arc<Pair>>,
    ) -> std::io::Result<Self> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        let wake = EventFd::new()?;
        epoll::add(&set, &wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        let data = EventData::new_u64(CONTROL);
        epoll::add(&set, control.descriptor(), data, EventFlags::IN)?;
        let shared = Arc::new(ServiceState {
            set,
            wake,
            stop: AtomicBool::new(false),
            clock: ThreadClock::default(),
            control,
        });
        for (index, pair) in pairs.iter().enumerate() {
            let data = EventData::new_u64(index as u64);
            epoll::add(&shared.set, pair.descriptor(), data, EventFlags::ONESHOT)?;
        }
        let thread = std::thread::Builder::new().name("link-service".into());
        let watcher = Watcher { shared: Arc::clone(&shared), pairs };
        let thread = thread.spawn(move || watcher.run())?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// CPU time of the thread in nanoseconds.
    pub(crate) fn spent_ns(&self) -> u64 {
        self.shared.clock.spent_ns()
    }

    /// Ends the thread, and with it the link.
    pub(crate) fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake.signal();
        let mut thread = lock(&self.thread);
        if let Some(thread) = thread.take() {
            // It never waits for anything but events.
            let _ = thread.join();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop();
    }
}

/// State of a queue pair, as the service thread knows it.
struct ServicedQueuePair {
    /// Number of the owner's calls at the last check.
    seen: u64,
    /// Time of the next check; `None` to check only when its descriptor becomes readable.
    look: Option<Instant>,
    over: bool,
}

/// State of the service thread, which is dropped together with its queue pairs.
struct Watcher {
    shared: Arc<ServiceState>,
    pairs: Vec<Arc<Pair>>,
}

impl Watcher {
    fn run(&self) {
        self.shared.clock.begin();
        let ended = Ended(self);
        let cause = self.watch();
        match &cause {
            LinkErrorKind::Closed => tracing::debug!("link closed"),
            cause => tracing::info!(%cause, queue_pairs = self.pairs.len(), "link lost"),
        }
        ended.mark_lost(&cause);
        // This end starts nothing any more; the peer may free what it has exported.
        self.shared.control.shut();
        drop(ended);
        self.shared.clock.end();
    }

    /// Serves the link until it is lost or this end is dropped.
    fn watch(&self) -> LinkErrorKind {
        let first = |_| ServicedQueuePair { seen: 0, look: Some(Instant::now()), over: false };
        let mut watched: Vec<ServicedQueuePair> = (0..self.pairs.len()).map(first).collect();
        let mut round = Instant::now() + SCAN_INTERVAL;
        let mut events: Vec<Event> = Vec::with_capacity(16);
        while !self.shared.stop.load(Ordering::Acquire) {
            let now = Instant::now();
            let control = match self.shared.control.serve(now) {
                Ok(next) => next,
                Err(cause) => return cause,
            };
            if now >= round {
                round = now + SCAN_INTERVAL;
                self.look_around(&mut watched, now);
            }
            for (index, watched) in watched.iter_mut().enumerate() {
                if watched.look.is_some_and(|at| at <= now) {
                    self.look(index, watched, now);
                }
            }
            let next = watched.iter().filter_map(|watched| watched.look).min();
            let next = next.unwrap_or(round).min(round).min(control);
            if let Err(error) = self.wait(&mut events, next) {
                return LinkErrorKind::Local(format!("waiting: {error}"));
            }
            self.happened(&events, &mut watched);
        }
        LinkErrorKind::Closed
    }

    fn wait(&self, events: &mut Vec<Event>, until: Instant) -> rustix::io::Result<()> {
        events.clear();
        let timeout = until.saturating_duration_since(Instant::now());
        let timeout = timeout.try_into().expect("a second or so");
        match epoll::wait(&self.shared.set, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn happened(&self, events: &[Event], watched: &mut [ServicedQueuePair]) {
        let now = Instant::now();
        for event in events {
            match event.data.u64() {
                CONTROL => {}
                WAKE => {
                    self.shared.wake.clear();
                    watched.iter_mut().for_each(|one| one.look = Some(now));
                }
                index => {
                    let (pair, watched) =
                        (&self.pairs[index as usize], &mut watched[index as usize]);
                    // An owner that is about may want to see to it.
                    let attended = pair.is_armed() || pair.visits() != watched.seen;
                    watched.seen = pair.visits();
                    watched.look = Some(if attended { now + OWNER_TIMEOUT } else { now });
                }
            }
        }
    }

    /// Checks a queue pair whose time has come.
    fn look(&self, index: usize, watched: &mut ServicedQueuePair, now: Instant) {
        if watched.over {
            watched.look = None;
            return;
        }
        let visits = self.pairs[index].visits();
        if visits != watched.seen {
            watched.seen = visits;
            watched.look = Some(now + OWNER_TIMEOUT);
            return;
        }
        watched.look = None;
        self.serve(index, watched);
    }

    /// Queue pairs whose owners have been by and gone, without anything having happened since.
    fn look_around(&self, watched: &mut [ServicedQueuePair], now: Instant) {
        for (pair, watched) in self.pairs.iter().zip(watched) {
            if watched.look.is_none() && pair.visits() != watched.seen {
                watched.seen = pair.visits();
                watched.look = Some(now + OWNER_TIMEOUT);
            }
        }
    }

    fn serve(&self, index: usize, watched: &mut ServicedQueuePair) {
        let pair = &self.pairs[index];
        let flags = match pair.serve() {
            Wait::Readable => EventFlags::IN,
            Wait::Soon => {
                watched.look = Some(Instant::now());
                return;
            }
            Wait::Never => {
                watched.over = true;
                return;
            }
        };
        let data = EventData::new_u64(index as u64);
        let flags = flags | EventFlags::ONESHOT;
        if let Err(error) = epoll::modify(&self.shared.set, pair.descriptor(), data, flags) {
            pair.on_link_lost(&LinkErrorKind::Local(format!("waiting: {error}")));
            watched.over = true;
        }
    }
}

/// Releases all waiters when the thread has ended, even if it panicked.
struct Ended<'a>(&'a Watcher);

impl Ended<'_> {
    fn mark_lost(&self, cause: &LinkErrorKind) {
        self.0.shared.control.end(cause);
        for pair in &self.0.pairs {
            pair.on_link_lost(cause);
        }
    }
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.mark_lost(&LinkErrorKind::Local("its service thread has ended".into()));
    }
}
