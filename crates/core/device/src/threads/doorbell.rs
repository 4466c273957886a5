//! Threads that sleep until there is work.

use std::time::Duration;

use crate::primitive::{AtomicUsize, Condvar, Mutex, Ordering, Padded, fence};

/// Wake-up mechanism for threads that sleep until there is work. Ringing it costs one fence and one
/// load while no thread sleeps.
pub struct Doorbell {
    sleepers: Padded<AtomicUsize>,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Doorbell {
    /// A doorbell at which no thread sleeps.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Self { sleepers: Padded(AtomicUsize::new(0)), lock: Mutex::new(()), bell: Condvar::new() }
    }

    /// Sleeps until rung or for `timeout`, unless `ready` returns `true` once this thread is known
    /// to be asleep. May return for no reason.
    pub fn sleep(&self, timeout: Option<Duration>, ready: impl FnOnce() -> bool) {
        let guard = self.lock.lock().expect("nothing panics under this lock");
        self.sleepers.0.fetch_add(1, Ordering::Relaxed);
        // The submitter publishes, fences and looks for sleepers; this thread makes itself one,
        // fences and looks for work. One sees the other, and the lock is held until the wait
        // begins, so that the bell cannot ring in between.
        fence(Ordering::SeqCst);
        if !ready() {
            match timeout {
                None => drop(self.bell.wait(guard)),
                Some(timeout) => drop(self.bell.wait_timeout(guard, timeout)),
            }
        }
        self.sleepers.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes up to `count` sleepers. The caller has published their work before.
    pub fn ring(&self, count: usize) {
        fence(Ordering::SeqCst);
        let sleepers = self.sleepers.0.load(Ordering::Relaxed);
        if sleepers == 0 {
            return;
        }
        drop(self.lock.lock());
        if count >= sleepers {
            self.bell.notify_all();
        } else {
            (0..count).for_each(|_| self.bell.notify_one());
        }
    }
}
