//! Events of a thread's connections.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use overside_base::EventFd;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use super::Error;
use crate::closed_loop::CompletionMode;

/// The number of the descriptor that wakes a thread up.
const WAKE: u64 = u64::MAX;
/// Waits shorter than this are timed to the microsecond.
const EXACT_BELOW: Duration = Duration::from_millis(20);
/// Connections whose events are reported at a time.
const EVENTS: usize = 256;

/// Creates the descriptor by which any other thread wakes the thread of a loop.
pub(super) fn waker() -> Result<EventFd, Error> {
    EventFd::new().map_err(|error| failed(error, "an event descriptor"))
}

/// Says which connections of one thread have something to do, by their numbers.
pub(super) struct EventLoop {
    waiting: CompletionMode,
    set: OwnedFd,
    timer: Option<OwnedFd>,
    /// Numbers of the connections with something to do.
    pub ready: Vec<usize>,
    /// A waker or a timer ended the last wait.
    pub woken: bool,
    connections: usize,
}

impl EventLoop {
    pub(super) fn new(waiting: CompletionMode) -> Result<Self, Error> {
        let set = epoll::create(CreateFlags::CLOEXEC);
        let set = set.map_err(|error| failed(error, "an epoll set"))?;
        Ok(Self { waiting, set, timer: None, ready: Vec::new(), woken: false, connections: 0 })
    }

    /// Adds the next connection.
    pub(super) fn add(&mut self, stream: impl AsFd, interest: EventFlags) -> Result<(), Error> {
        let data = EventData::new_u64(self.connections as u64);
        let added = epoll::add(&self.set, stream, data, interest);
        added.map_err(|error| failed(error, "a connection"))?;
        self.connections += 1;
        Ok(())
    }

    /// Adds a descriptor that ends a wait.
    pub(super) fn add_waker(&self, waker: &EventFd) -> Result<(), Error> {
        let data = EventData::new_u64(WAKE);
        let added = epoll::add(&self.set, waker, data, EventFlags::IN);
        added.map_err(|error| failed(error, "an event descriptor"))
    }

    /// Changes the events that a connection waits for.
    pub(super) fn change(
        &self,
        number: usize,
        stream: impl AsFd,
        interest: EventFlags,
    ) -> Result<(), Error> {
        let data = EventData::new_u64(number as u64);
        let changed = epoll::modify(&self.set, stream, data, interest);
        changed.map_err(|error| failed(error, "a connection"))
    }

    /// Waits no longer than `most`, or not at all when polling: then every connection may be ready.
    pub(super) fn look(&mut self, most: Duration) -> Result<(), Error> {
        self.ready.clear();
        if self.waiting == CompletionMode::Poll {
            self.ready.extend(0..self.connections);
            return Ok(());
        }
        // The system call counts in milliseconds; a timer does better.
        let exact = !most.is_zero() && most < EXACT_BELOW;
        if exact {
            self.set_timer(most)?;
        }
        let timeout = timespec(if exact { EXACT_BELOW } else { most });
        self.woken = false;
        let mut events = [const { MaybeUninit::<Event>::uninit() }; EVENTS];
        let events = match epoll::wait(&self.set, &mut events[..], Some(&timeout)) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Ok(()),
            Err(error) => return Err(failed(error, "waiting for connections")),
        };
        for event in events {
            match event.data.u64() {
                WAKE => self.woken = true,
                number => self.ready.push(number as usize),
            }
        }
        Ok(())
    }

    /// Ends the next wait after this time. Setting it takes an earlier end back, so that it need
    /// not be read.
    fn set_timer(&mut self, after: Duration) -> Result<(), Error> {
        let failed = |error| failed(error, "a timer");
        let timer = match &self.timer {
            Some(timer) => timer,
            None => {
                let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
                let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(failed)?;
                let data = EventData::new_u64(WAKE);
                epoll::add(&self.set, &timer, data, EventFlags::IN | EventFlags::ET)
                    .map_err(failed)?;
                self.timer.insert(timer)
            }
        };
        let once = Itimerspec { it_interval: timespec(Duration::ZERO), it_value: timespec(after) };
        timerfd_settime(timer, TimerfdTimerFlags::empty(), &once).map_err(failed)?;
        Ok(())
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: duration.as_secs() as _, tv_nsec: duration.subsec_nanos() as _ }
}

fn failed(error: Errno, what: &str) -> Error {
    Error::system(what)(error.into())
}
