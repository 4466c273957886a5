//! Readiness of a worker's sockets: epoll(7), level-triggered.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData};
use rustix::io::Errno;

pub(super) use rustix::event::epoll::EventFlags;

/// Sockets that are reported at a time.
const EVENTS_MAX: usize = 1024;

/// An epoll set.
pub(super) struct Epoll {
    set: OwnedFd,
    events: Vec<Event>,
}

impl Epoll {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            set: epoll::create(CreateFlags::CLOEXEC)?,
            events: Vec::with_capacity(EVENTS_MAX),
        })
    }

    pub(super) fn add(
        &self,
        socket: impl AsFd,
        token: u64,
        interest: EventFlags,
    ) -> io::Result<()> {
        Ok(epoll::add(&self.set, socket, EventData::new_u64(token), interest)?)
    }

    pub(super) fn change(
        &self,
        socket: impl AsFd,
        token: u64,
        interest: EventFlags,
    ) -> io::Result<()> {
        let data = EventData::new_u64(token);
        Ok(epoll::modify(&self.set, socket, data, interest)?)
    }

    pub(super) fn remove(&self, socket: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.set, socket)?)
    }

    /// Waits no longer than `timeout`; a signal ends the wait too.
    pub(super) fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        self.events.clear();
        let timeout =
            Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos().into() };
        match epoll::wait(&self.set, spare_capacity(&mut self.events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn events_len(&self) -> usize {
        self.events.len()
    }

    pub(super) fn event(&self, number: usize) -> (u64, EventFlags) {
        let event = &self.events[number];
        (event.data.u64(), event.flags)
    }
}
