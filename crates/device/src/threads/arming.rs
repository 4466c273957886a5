//! When a completion must wake its submitter.

use crate::primitive::{AtomicBool, AtomicU64, AtomicUsize, Ordering, Padded, fence};

/// Wakes a waiting submitter for gathered completions rather than for each, so that it does not
/// take cores away from the threads it waits for: when enough have gathered, when it has waited
/// for long, or when a thread would fall idle.
///
/// No wake-up is lost, because both sides write, fence and then read what the other wrote: the
/// submitter arms and then looks for completions; a thread completes and then looks whether the
/// submitter is armed. One of them sees the other.
pub(super) struct Arming(Padded<Fields>);

struct Fields {
    armed: AtomicBool,
    /// The position of the completion that is enough.
    target: AtomicUsize,
    /// The time, on the context's own clock, from which every completion wakes.
    patience_ns: AtomicU64,
}

impl Arming {
    pub(super) fn new() -> Self {
        Self(Padded(Fields {
            armed: AtomicBool::new(false),
            target: AtomicUsize::new(0),
            patience_ns: AtomicU64::new(0),
        }))
    }

    /// Asks to be woken. The submitter must look for completions afterwards and not wait if there
    /// are any.
    pub(super) fn arm(&self, target: usize, patience_ns: u64) {
        // Relaxed: ordered by the store to `armed`.
        self.0.0.target.store(target, Ordering::Relaxed);
        self.0.0.patience_ns.store(patience_ns, Ordering::Relaxed);
        // An exchange, as all changes of the flag are: loom orders only those among themselves.
        self.0.0.armed.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// No longer asks.
    pub(super) fn disarm(&self) {
        self.0.0.armed.swap(false, Ordering::AcqRel);
    }

    /// After the completion at `position`: whether the caller has to wake the submitter.
    pub(super) fn completed(&self, position: usize, now_ns: impl FnOnce() -> u64) -> bool {
        fence(Ordering::SeqCst);
        if !self.0.0.armed.load(Ordering::Acquire) {
            return false;
        }
        let target = self.0.0.target.load(Ordering::Relaxed);
        // Positions wrap around; their distance does not.
        let enough = position.wrapping_sub(target) as isize >= 0;
        let late = || now_ns() >= self.0.0.patience_ns.load(Ordering::Relaxed);
        (enough || late()) && self.claim()
    }

    /// Before a thread falls idle: whether it has to wake the submitter, given that there are
    /// completions to wake it for.
    pub(super) fn idle(&self, any_finished: impl FnOnce() -> bool) -> bool {
        fence(Ordering::SeqCst);
        self.0.0.armed.load(Ordering::Acquire) && any_finished() && self.claim()
    }

    /// Whether the caller has to wake the submitter for something that is not a completion.
    pub(super) fn claim(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.0.armed.swap(false, Ordering::AcqRel)
    }
}
