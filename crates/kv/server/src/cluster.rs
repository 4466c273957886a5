//! A server's part in a cluster.
//!
//! 1. The directory has the owner of each hash slot ([`SlotTable`](crate::directory::SlotTable)). A thread follows it
//!    and replaces the [`ClusterView`] by which the workers execute commands.
//! 2. Without the directory, or if entries are gone, the server goes on with what it knows: a slot changes its owner
//!    only by an entry that says so.
//! 3. Another thread claims the slots that the server begins with, and moves slots away ([`ClusterMember`]).

mod knowledge;
mod member;
mod mover;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use overside_base::lock;

use crate::protocol::cluster::{ClusterView, SlotState};
use overside_kv_backend::Waker;

pub use member::{ClusterMember, ClusterSetup, JoinError};

/// Time between two looks whether all workers have the newest view, and the longest time to wait for that.
const POLL: Duration = Duration::from_millis(1);
const SETTLE_MAX: Duration = Duration::from_secs(2);

/// View of the cluster that all workers of a server execute by.
#[derive(Debug)]
pub struct ClusterState {
    current: Mutex<Arc<ClusterView>>,
    generation: AtomicU64,
    workers: Mutex<BTreeMap<usize, RunningWorker>>,
    errors: Mutex<BTreeMap<ErrorSource, String>>,
}

impl ClusterState {
    /// The state of the server `name`, which knows no slot yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let view = ClusterView::new(0, vec![knowledge::node(name)], 0, |_| SlotState::default());
        Self {
            current: Mutex::new(Arc::new(view)),
            generation: AtomicU64::new(0),
            workers: Mutex::default(),
            errors: Mutex::default(),
        }
    }

    /// Returns `true` if every running worker executes by the newest view.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let workers = lock(&self.workers);
        let generation = self.generation.load(Ordering::Acquire);
        workers.values().all(|worker| worker.generation == generation)
    }

    /// Returns the reason why the cluster does not work as it should; `None` if it does.
    #[must_use]
    pub fn error(&self) -> Option<String> {
        lock(&self.errors).values().next().cloned()
    }

    /// Waits until every running worker executes by the newest view. Returns `false` if that takes too long, or if
    /// `is_stopped`.
    fn wait_settled(&self, is_stopped: &AtomicBool) -> bool {
        let begin = Instant::now();
        while !self.is_settled() {
            if begin.elapsed() > SETTLE_MAX || is_stopped.load(Ordering::Relaxed) {
                return false;
            }
            thread::sleep(POLL);
        }
        true
    }

    /// Replaces the view. Workers execute by it from their next turn on.
    fn publish(&self, view: ClusterView) {
        let mut current = lock(&self.current);
        if **current != view {
            *current = Arc::new(view);
            self.generation.fetch_add(1, Ordering::Release);
            let workers = lock(&self.workers);
            workers.values().filter_map(|one| one.waker.as_ref()).for_each(|waker| waker.wake());
        }
    }

    fn set_error(&self, source: ErrorSource, error: Option<String>) {
        let mut errors = lock(&self.errors);
        if errors.get(&source) == error.as_ref() {
            return;
        }
        match error {
            Some(error) => {
                tracing::warn!("the cluster: {error}");
                errors.insert(source, error);
            }
            None => _ = errors.remove(&source),
        }
    }
}

/// Generation that a running worker executes by, and its waker if it has one.
#[derive(Debug)]
struct RunningWorker {
    generation: u64,
    waker: Option<Arc<Waker>>,
}

/// Part of the membership that an error comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ErrorSource {
    /// Reading the directory.
    Directory,
    /// Claims and moves.
    Work,
}

/// The view by which one worker executes.
#[derive(Debug)]
pub(crate) struct WorkerView {
    state: Arc<ClusterState>,
    worker: usize,
    waker: Option<Arc<Waker>>,
    generation: u64,
    view: Arc<ClusterView>,
}

impl WorkerView {
    /// The view of a worker that begins.
    pub(crate) fn new(state: &Arc<ClusterState>, worker: usize, waker: Option<Arc<Waker>>) -> Self {
        let state = Arc::clone(state);
        let view = Arc::clone(&lock(&state.current));
        // That of no view: the first turn takes the newest one.
        Self { state, worker, waker, generation: u64::MAX, view }
    }

    /// Takes the newest view. The worker must not execute anything by the one before any more.
    #[inline]
    pub(crate) fn refresh(&mut self) {
        if self.state.generation.load(Ordering::Acquire) != self.generation {
            let current = lock(&self.state.current);
            // It changes only while the lock is held.
            self.generation = self.state.generation.load(Ordering::Acquire);
            let running = RunningWorker { generation: self.generation, waker: self.waker.clone() };
            lock(&self.state.workers).insert(self.worker, running);
            self.view = Arc::clone(&current);
        }
    }

    pub(crate) fn view(&self) -> &Arc<ClusterView> {
        &self.view
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.state.is_settled()
    }
}

impl Drop for WorkerView {
    fn drop(&mut self) {
        lock(&self.state.workers).remove(&self.worker);
    }
}
