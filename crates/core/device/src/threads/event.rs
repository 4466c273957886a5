//! The descriptor that a submitter waits on.

use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use overside_base::EventFd;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Result;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

/// Readable after a signal or once a job's deadline has passed. One descriptor for all: an epoll
/// set over an eventfd, a timer as soon as there are deadlines, and other watched descriptors.
pub struct Event {
    set: OwnedFd,
    signal: EventFd,
}

impl Event {
    /// An event that only a signal makes readable.
    ///
    /// # Errors
    /// The system's error if it has no more descriptors.
    pub fn new() -> Result<Self> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        let signal = EventFd::new()?;
        epoll::add(&set, &signal, EventData::new_u64(0), EventFlags::IN)?;
        Ok(Self { set, signal })
    }

    /// Watches another descriptor as well, as long as that is open: readable when it is, and if it
    /// is to be written to, when it can be. One descriptor at a time; another call changes the
    /// direction.
    ///
    /// # Errors
    /// The system's error.
    pub fn watch(&self, other: BorrowedFd<'_>, writable: bool) -> Result<()> {
        let mut flags = EventFlags::IN;
        flags.set(EventFlags::OUT, writable);
        let data = EventData::new_u64(2);
        match epoll::modify(&self.set, other, data, flags) {
            Err(rustix::io::Errno::NOENT) => epoll::add(&self.set, other, data, flags),
            done => done,
        }
    }

    /// Returns the descriptor to wait on: it is readable after a signal or deadline, or when the
    /// watched descriptor is ready.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// Makes the descriptor readable. Any thread.
    pub fn signal(&self) {
        self.signal.signal();
    }

    /// Takes signals back.
    pub fn clear(&self) {
        self.signal.clear();
    }
}

/// Makes the event readable when a deadline passes.
#[derive(Default)]
pub struct Timer {
    descriptor: Option<OwnedFd>,
    set_to: Option<Instant>,
}

impl Timer {
    /// Sets it to the earliest deadline there is. A deadline that moves later is left for the
    /// next time, so that a stream of jobs with the same time-out costs no system call each.
    ///
    /// # Errors
    /// The system's error if it has no more descriptors.
    pub fn follow(&mut self, earliest: Option<Instant>, event: &Event) -> Result<()> {
        let keep = match (self.set_to, earliest) {
            (None, None) => true,
            (Some(set_to), Some(earliest)) => set_to <= earliest && Instant::now() < set_to,
            (None, Some(_)) | (Some(_), None) => false,
        };
        if keep {
            return Ok(());
        }
        let descriptor = match &self.descriptor {
            Some(descriptor) => descriptor,
            None => {
                let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
                let descriptor = timerfd_create(TimerfdClockId::Monotonic, flags)?;
                epoll::add(&event.set, &descriptor, EventData::new_u64(1), EventFlags::IN)?;
                self.descriptor.insert(descriptor)
            }
        };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero switches the timer off; a deadline of this very moment is one nanosecond away.
        let it_value = earliest.map_or(zero, |at| {
            let left = at.saturating_duration_since(Instant::now());
            let nanoseconds = NonZeroU64::new(left.as_nanos().min(u64::MAX.into()) as u64)
                .unwrap_or(NonZeroU64::MIN)
                .get();
            Timespec {
                tv_sec: (nanoseconds / 1_000_000_000) as _,
                tv_nsec: (nanoseconds % 1_000_000_000) as _,
            }
        });
        timerfd_settime(
            descriptor,
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: zero, it_value },
        )?;
        self.set_to = earliest;
        Ok(())
    }
}
