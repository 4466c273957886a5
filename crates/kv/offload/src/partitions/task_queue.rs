//! Queues of tasks that workers run for each other in addition to requests. They are rare, so a lock suffices.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use overside_base::lock;

use overside_kv_backend::StorageBackend;

/// Work to do with another worker's partition.
pub(super) type RemoteTask = Box<dyn FnOnce(&mut dyn StorageBackend) + Send>;

/// Letters to one worker.
#[derive(Default)]
pub(super) struct TaskQueue {
    letters: Mutex<Letters>,
    /// `true` if there may be tasks, so that checking takes no lock.
    is_full: AtomicBool,
}

#[derive(Default)]
struct Letters {
    all: Vec<RemoteTask>,
    is_closed: bool,
}

impl TaskQueue {
    /// Leaves a letter. It is thrown away if the worker has ended.
    pub(super) fn post(&self, letter: RemoteTask) {
        let mut letters = lock(&self.letters);
        if !letters.is_closed {
            letters.all.push(letter);
            self.is_full.store(true, Ordering::Release);
        }
    }

    /// Returns `true` if there may be letters.
    #[inline]
    pub(super) fn has_some(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    pub(super) fn take(&self) -> Vec<RemoteTask> {
        let mut letters = lock(&self.letters);
        self.is_full.store(false, Ordering::Release);
        std::mem::take(&mut letters.all)
    }

    /// Closes the queue: its worker has ended.
    pub(super) fn close(&self) {
        let mut letters = lock(&self.letters);
        letters.is_closed = true;
        letters.all.clear();
    }
}
