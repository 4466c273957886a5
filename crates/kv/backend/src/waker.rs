//! Waker of a worker that sleeps, for other threads.

use std::os::fd::{AsFd, BorrowedFd};

use overside_base::EventFd;
use overside_link::Armed;

/// Wakes one worker. A thread that has work for it publishes the work and then wakes it. The worker
/// arms the waker before it sleeps, and then looks once more for work: so one of the two sees the
/// other, and no system call is needed while the worker is awake.
#[derive(Debug)]
pub struct Waker {
    armed: Armed,
    event: EventFd,
}

impl Waker {
    /// A waker that is not armed.
    ///
    /// # Errors
    /// The system's error if it has no more descriptors.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self { armed: Armed::new(), event: EventFd::new()? })
    }

    /// Wakes the worker if it sleeps or is about to.
    #[inline]
    pub fn wake(&self) {
        if self.armed.must_notify() {
            self.event.signal();
        }
    }

    /// Prepares for sleeping. Returns `true` if there is something to do instead.
    pub fn arm(&self, has_work: impl FnOnce() -> bool) -> bool {
        self.armed.arm(has_work)
    }

    /// Ends sleeping; call it after any wake-up. `is_woken` is `true` if the descriptor was readable.
    pub fn disarm(&self, is_woken: bool) {
        self.armed.disarm();
        if is_woken {
            self.event.clear();
        }
    }
}

/// Readable when the worker is to wake.
impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
