//! What workers ask of each other beside requests. It is rare, so a lock does.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use overside_base::lock;

use crate::server::Backing;

/// Something to be done with another worker's partition.
pub(super) type Letter = Box<dyn FnOnce(&mut dyn Backing) + Send>;

/// Letters to one worker.
#[derive(Default)]
pub(super) struct Mailbox {
    letters: Mutex<Letters>,
    /// There may be some: so that looking takes no lock.
    is_full: AtomicBool,
}

#[derive(Default)]
struct Letters {
    all: Vec<Letter>,
    is_closed: bool,
}

impl Mailbox {
    /// Leaves a letter. It is thrown away if the worker has ended.
    pub fn post(&self, letter: Letter) {
        let mut letters = lock(&self.letters);
        if !letters.is_closed {
            letters.all.push(letter);
            self.is_full.store(true, Ordering::Release);
        }
    }

    /// Whether there are letters.
    #[inline]
    pub fn has_some(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    pub fn take(&self) -> Vec<Letter> {
        let mut letters = lock(&self.letters);
        self.is_full.store(false, Ordering::Release);
        std::mem::take(&mut letters.all)
    }

    /// The worker has ended.
    pub fn close(&self) {
        let mut letters = lock(&self.letters);
        letters.is_closed = true;
        letters.all.clear();
    }
}
