//! Pool that compresses and decompresses buffers, on the threads of a budget or on a device through
//! executors.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use overside_device::{Clock, Operation};
use overside_placement::{ChunkResult, Policy, Report, Target};

use super::executors::{Executors, Job, Placement};
use super::threads::{Kernels, Pending, Threads};
use crate::Error;
use crate::memory::{BufferPool, RowGroupMemory};

/// Threads and memory of packers and unpackers. All of them share one pool, so that together they
/// keep to one thread budget.
///
/// A device gets what it can do: the blocks of LZ4 buffers, and the chunks of outer compression.
/// The threads submit that, each through a context of its own, and do everything else.
pub struct CodecPool {
    pub(super) threads: Arc<Threads>,
    pub(super) memory: Arc<BufferPool>,
    /// Number of bytes that wait for the writers of all packers.
    pub(super) waiting_bytes: Arc<AtomicUsize>,
    row_groups: Arc<RowGroupMemory>,
    executors: Option<Arc<Executors>>,
}

/// Bytes of the row groups of Parquet that are not written yet, of all files of a pool.
const ROW_GROUP_BYTES_MAX: usize = 512 << 20;

impl CodecPool {
    /// No more than so many threads compute at once, the caller's among them.
    ///
    /// # Errors
    /// [`Error::Io`] if the threads cannot be started.
    pub fn new(threads: NonZeroUsize) -> Result<Self, Error> {
        Self::on_clock(threads, Clock::default())
    }

    /// On the clock of the devices. On one of work ([`Clock::of_work`]) the calling thread stands for all
    /// threads of the budget, and is the only one that may use the pool.
    ///
    /// # Errors
    /// As [`CodecPool::new`].
    pub fn on_clock(threads: NonZeroUsize, clock: Clock) -> Result<Self, Error> {
        Ok(Self {
            threads: Arc::new(Threads::new(threads, clock)?),
            memory: Arc::default(),
            waiting_bytes: Arc::default(),
            row_groups: RowGroupMemory::new(ROW_GROUP_BYTES_MAX),
            executors: None,
        })
    }

    /// With a device. Under `split` and `adaptive` the cpu's part is done by as many threads.
    ///
    /// # Errors
    /// As [`CodecPool::new`].
    pub fn with_placement(threads: NonZeroUsize, placement: Placement) -> Result<Self, Error> {
        Ok(Self::new(threads)?.beside_devices(placement))
    }

    /// The same threads and memory, with devices beside them.
    #[must_use]
    pub fn beside_devices(&self, placement: Placement) -> Self {
        let placement = Some(placement).filter(|placement| placement.policy.uses_device());
        Self {
            threads: Arc::clone(&self.threads),
            memory: Arc::clone(&self.memory),
            waiting_bytes: Arc::clone(&self.waiting_bytes),
            row_groups: Arc::clone(&self.row_groups),
            executors: placement
                .map(|placement| Executors::new(placement, self.threads(), self.clock().clone()))
                .map(Arc::new),
        }
    }

    /// The memory of what is read and written.
    pub fn memory(&self) -> &Arc<BufferPool> {
        &self.memory
    }

    /// The memory of row groups, where a file is given no other.
    pub fn row_groups(&self) -> &Arc<RowGroupMemory> {
        &self.row_groups
    }

    /// The clock of the threads and the devices.
    pub fn clock(&self) -> &Clock {
        self.threads.clock()
    }

    /// The thread budget.
    pub fn threads(&self) -> usize {
        self.threads.budget()
    }

    /// Returns a report for each operation that a device took part in and each thread that
    /// submitted it. Executors that are at work now are left out.
    pub fn reports(&self) -> Vec<(Operation, Report)> {
        let executors = self.executors.as_ref();
        executors.map_or_else(Vec::new, |executors| executors.reports())
    }

    /// Returns the executors that submit an operation to the devices; `None` if no device takes
    /// part in it.
    pub(super) fn placed(&self, operation: Operation) -> Option<&Arc<Executors>> {
        (self.executors.as_ref()).filter(|executors| executors.has(operation))
    }

    /// Returns `true` if a device takes part in the operation.
    pub fn is_placed(&self, operation: Operation) -> bool {
        self.placed(operation).is_some()
    }

    /// Runs jobs on the targets of the placement. The results in the order of the jobs.
    pub fn run_placed(
        &self,
        operation: Operation,
        level: Option<u32>,
        jobs: Vec<Job>,
    ) -> Result<Vec<ChunkResult>, Error> {
        match &self.executors {
            Some(executors) => executors.run(operation, level, jobs),
            None => {
                let (policy, target) = (Policy::Device, Target::Device(0));
                Err(overside_placement::Error::NoTarget { policy, target }.into())
            }
        }
    }

    /// Queues a task that nobody waits for.
    pub fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        self.threads.spawn(task);
    }

    /// Does one task of the queue on this thread, if there is one: so the caller counts among the
    /// threads.
    pub fn help(&self) -> bool {
        self.threads.help()
    }

    /// Queues tasks that need no codec of ours.
    pub(crate) fn start_tasks<T, F>(&self, tasks: impl IntoIterator<Item = F>) -> Pending<T>
    where
        T: Send + 'static,
        F: FnOnce() -> Result<T, Error> + Send + 'static,
    {
        let tasks = tasks.into_iter().map(|task| move |_: &mut _| task());
        self.threads.start(tasks)
    }

    /// Works on the queue until these are done. The results in the order of their tasks, and the CPU time that they
    /// took, in nanoseconds.
    pub(crate) fn wait<T>(&self, pending: Pending<T>) -> Result<(Vec<T>, u64), Error> {
        self.threads.wait(pending)
    }

    /// Queues tasks on the threads.
    pub(super) fn start<T, F>(&self, tasks: impl IntoIterator<Item = F>) -> Pending<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Kernels) -> Result<T, Error> + Send + 'static,
    {
        self.threads.start(tasks)
    }
}
