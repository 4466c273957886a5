//! How a worker that sleeps is woken by other threads.

use std::os::fd::{AsFd, BorrowedFd};

use overside_base::EventFd;
use overside_link::Armed;

/// Wakes one worker. Whoever has something for it publishes that and then rings. The worker arms the bell
/// before it sleeps, and looks once more for what may have been published before that: so one of
/// the two sees the other, and no system call is needed while the worker is awake.
#[derive(Debug)]
pub struct Bell {
    armed: Armed,
    event: EventFd,
}

impl Bell {
    /// A bell that is not armed.
    ///
    /// # Errors
    /// What the system says if it has no more descriptors.
    pub fn new() -> std::io::Result<Self> {
        Ok(Self {
            armed: Armed::new(),
            event: EventFd::new()?,
        })
    }

    /// Wakes the worker if it sleeps or is about to.
    #[inline]
    pub fn ring(&self) {
        if self.armed.must_notify() {
            self.event.signal();
        }
    }

    /// To be called before sleeping; whether there is something to do instead.
    pub fn arm(&self, has_work: impl FnOnce() -> bool) -> bool {
        self.armed.arm(has_work)
    }

    /// To be called after sleeping, whatever ended it. `is_ringing`: the descriptor was readable.
    pub fn disarm(&self, is_ringing: bool) {
        self.armed.disarm();
        if is_ringing {
            self.event.clear();
        }
    }
}

/// Readable when it rings.
impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}
