//! DPDK as it runs in this process: its functions, and the state that its callers share.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use overside_base::lock;

use crate::shim::{Shim, Table};

/// DPDK after its start.
pub(crate) struct Runtime {
    pub(crate) shim: Shim,
    /// Time that starting DPDK took.
    pub(crate) start: Duration,
    /// Held during each call that sets something up: DPDK requires one thread at a time.
    control: Mutex<()>,
    pub(crate) areas: Mutex<Areas>,
}

/// External memory that is registered with DPDK, by its first address: its end, and its number of users.
/// Areas do not overlap, because DPDK does not allow it: memory is registered by whole pages, and
/// two buffers may share one.
#[derive(Default)]
pub(crate) struct Areas(pub(crate) BTreeMap<usize, (usize, usize)>);

impl Runtime {
    pub(crate) fn new(shim: Shim, start: Duration) -> Self {
        Self { shim, start, control: Mutex::default(), areas: Mutex::default() }
    }

    /// Locks DPDK for a call that sets something up.
    pub(crate) fn control(&self) -> MutexGuard<'_, ()> {
        lock(&self.control)
    }

    /// Makes the calling thread known to DPDK, until the thread ends. If DPDK has no place for more
    /// threads, the calls work without: those used here need none.
    pub(crate) fn enter_thread(&self) {
        thread_local! {
            static ENTERED: RefCell<Option<Entered>> = const { RefCell::new(None) };
        }
        let table: *const Table = self.shim.0;
        // A thread that is ending goes without.
        let _ = ENTERED.try_with(|entered| {
            let mut entered = entered.borrow_mut();
            if !entered.as_ref().is_some_and(|one| std::ptr::eq(one.shim.0, table)) {
                *entered = None;
                let leaves = self.shim.thread_enter();
                *entered = Some(Entered { shim: self.shim, leaves });
            }
        });
    }
}

/// A thread that DPDK knows.
struct Entered {
    shim: Shim,
    leaves: bool,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.leaves {
            self.shim.thread_leave();
        }
    }
}
