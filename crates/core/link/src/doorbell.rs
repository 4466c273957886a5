//! Mechanism that wakes a side that sleeps.
//!
//! The sleeper's descriptor is one epoll set of its own over two things: an eventfd of its own
//! process, for its copy engine and for the loss of the link, and a socket whose other end the peer
//! has. The peer gets no eventfd: the two processes would share its flags and its count, so that a
//! hostile peer could make this end's write to it block for ever, or take its wake-ups away. On a
//! socket each call chooses not to wait, and no peer can change that.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use overside_base::EventFd;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::{Errno, Result};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::primitive::{AtomicU32, Ordering, Padded, fence};

/// Flag in memory that both sides reach. The sleeper sets it to be woken; the waker clears it.
#[derive(Debug)]
#[repr(transparent)]
pub struct Armed(Padded<AtomicU32>);

impl Default for Armed {
    fn default() -> Self {
        Self::new()
    }
}

impl Armed {
    /// Creates the flag in its initial state: no side requests a wake-up.
    #[must_use]
    pub fn new() -> Self {
        Self(Padded(AtomicU32::new(0)))
    }

    /// Requests a wake-up, unless `ready`, which is checked after the other side can see the
    /// request. Returns `true` if the caller must not sleep.
    ///
    /// The other side publishes, fences and checks the request; this side stores the request,
    /// fences and checks for published data. At least one of them sees the other's store.
    pub fn arm(&self, ready: impl FnOnce() -> bool) -> bool {
        self.0.0.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let ready = ready();
        if ready {
            // A wish that was taken meanwhile makes for a wake-up for nothing.
            self.disarm();
        }
        ready
    }

    /// Clears the flag. A peer that has seen it already wakes this side for nothing.
    pub fn disarm(&self) {
        self.0.0.store(0, Ordering::Relaxed);
    }

    /// Returns `true` if the caller must wake the other side, after it has published. If several
    /// callers check, only one of them gets `true`.
    #[must_use]
    pub fn must_notify(&self) -> bool {
        fence(Ordering::SeqCst);
        // AcqRel: a sleeper that finds its wish taken sees what it was taken for.
        self.0.0.load(Ordering::Relaxed) != 0 && self.0.0.swap(0, Ordering::AcqRel) != 0
    }
}

/// The peer's notifier and the one by which it wakes this end.
#[derive(Debug)]
pub(crate) struct Notifier(OwnedFd);

impl Notifier {
    /// One end of a socket pair whose other end the peer has.
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self(socket)
    }

    /// Wakes the peer. It never waits. A lost peer is detected elsewhere.
    pub(crate) fn notify(&self) {
        // Fails if the peer is gone, or if it has a whole buffer of wake-ups before it.
        let _ = send(&self.0, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Takes wake-ups back. A peer that rings without end gets a bounded part of this end's time.
    fn clear(&self) {
        for _ in 0..4 {
            match recv(&self.0, &mut [0u8; 256], RecvFlags::DONTWAIT) {
                Ok((256, _)) | Err(Errno::INTR) => {}
                _ => return,
            }
        }
    }
}

/// Descriptor that a queue pair's owner waits on.
#[derive(Debug)]
pub(crate) struct Event {
    set: OwnedFd,
    signal: EventFd,
}

impl Event {
    /// Readable after [`Event::signal`] or when `notifier` is rung.
    pub(crate) fn new(notifier: &Notifier) -> Result<Self> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        let signal = EventFd::new()?;
        epoll::add(&set, &signal, EventData::new_u64(0), EventFlags::IN)?;
        epoll::add(&set, &notifier.0, EventData::new_u64(1), EventFlags::IN)?;
        Ok(Self { set, signal })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }

    /// Wakes the owner. Any thread of this process may call it.
    pub(crate) fn signal(&self) {
        self.signal.signal();
    }

    /// Takes all wake-ups back.
    pub(crate) fn clear(&self, notifier: &Notifier) {
        self.signal.clear();
        notifier.clear();
    }
}
