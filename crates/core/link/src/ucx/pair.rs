//! One end of a queue pair, behind a lock, because the service thread steps in where the owner is
//! away.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use overside_base::{EventFd, lock};

use super::engine::{UcxEngine, Wait};
use crate::verbs::LinkErrorKind;

/// Shared by the owner and the service thread.
pub(crate) struct Pair {
    engine: Mutex<UcxEngine>,
    /// Descriptor that is readable when there are events.
    descriptor: OwnedFd,
    visits: AtomicU64,
    /// The owner sleeps until the descriptor or the signal wakes it.
    armed: AtomicBool,
    signal: EventFd,
}

impl Pair {
    pub(crate) fn new(engine: UcxEngine, descriptor: OwnedFd) -> std::io::Result<Self> {
        Ok(Self {
            engine: Mutex::new(engine),
            descriptor,
            visits: AtomicU64::new(0),
            armed: AtomicBool::new(false),
            signal: EventFd::new()?,
        })
    }

    fn lock(&self) -> MutexGuard<'_, UcxEngine> {
        // A panic under the lock leaves a state that is checked at every step.
        lock(&self.engine)
    }

    /// Locks the pair for its owner; the service thread then does not interfere.
    pub(super) fn lock_as_owner(&self) -> MutexGuard<'_, UcxEngine> {
        // Only the owner counts, so this need not be one step.
        let visits = self.visits.load(Ordering::Relaxed);
        self.visits.store(visits.wrapping_add(1), Ordering::Relaxed);
        self.lock()
    }

    /// Locks the pair for a thread that does not own it.
    pub(super) fn lock_as_observer(&self) -> MutexGuard<'_, UcxEngine> {
        self.lock()
    }

    /// The owner sleeps from now on, or does not any more.
    pub(super) fn arm(&self, armed: bool) {
        if armed {
            self.armed.store(true, Ordering::Release);
        } else if self.armed.swap(false, Ordering::AcqRel) {
            self.signal.clear();
        }
    }

    /// Readable when the service thread has found something for an owner that sleeps.
    pub(super) fn signal(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    fn tell_owner(&self) {
        if self.armed.load(Ordering::Acquire) {
            self.signal.signal();
        }
    }

    /// Returns a descriptor that is readable when there are events.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Returns how many times the owner has called in; the count wraps around.
    pub(super) fn visits(&self) -> u64 {
        self.visits.load(Ordering::Relaxed)
    }

    /// Returns `true` if the owner sleeps and will be woken by the same descriptor.
    pub(super) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Acquire)
    }

    /// Makes it progress as far as it goes, and prepares its descriptor for being waited on.
    pub(super) fn serve(&self) -> Wait {
        let mut engine = self.lock();
        engine.progress();
        let wait = engine.wait();
        if engine.has_news() {
            self.tell_owner();
        }
        wait
    }

    /// Marks the link as lost.
    pub(super) fn on_link_lost(&self, cause: &LinkErrorKind) {
        self.lock().mark_lost(cause);
        self.tell_owner();
    }
}
