//! Where buffers are compressed and decompressed: on the threads of a budget, or by a device
//! through the executor.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_buffer::Buffer;
use overside_backend_cpu::{CpuDevice, CpuOptions};
use overside_base::lock;
use overside_device::{Device, ExternalBytes, OpenError, Operation, OperationConfig};
use overside_ops::Direction;
use overside_placement::{Chunk, ChunkResult, Executor, Policy, Report, Setup, Verify};

use super::memory::Recycler;
use super::threads::{Kernels, Pending, Threads};
use crate::Error;

/// How long a wait for the targets lasts at most before it is begun again.
const WAIT: Duration = Duration::from_secs(1);
/// Jobs in flight on a device.
const DEVICE_DEPTH: usize = 16;

/// Which target gets what, as for files (`docs/placement.md`).
#[derive(Clone)]
pub struct Placement {
    /// Which target gets what.
    pub policy: Policy,
    /// The device.
    pub device: Option<Arc<dyn Device>>,
    /// Which of its results are verified before they count.
    pub verify: Verify,
}

/// What packers and unpackers work with; one for as many of them as there are, so that together
/// they keep to one thread budget.
///
/// A device gets what it can do: the blocks of LZ4 buffers, and the chunks of outer compression.
/// The threads do everything else, and everything without a device.
pub struct CodecPool {
    pub(super) threads: Threads,
    pub(super) memory: Arc<Recycler>,
    placement: Option<Placement>,
    executors: Mutex<HashMap<Key, Executor>>,
}

/// An operation, its level, and the longest source and destination.
type Key = (Operation, Option<u32>, usize, usize);

/// A part of a message for a codec.
pub(crate) struct Job {
    pub source: Buffer,
    /// The longest result that is wanted.
    pub capacity: usize,
}

impl CodecPool {
    /// No more than so many threads compute at once, the caller's among them.
    ///
    /// # Errors
    /// [`Error::Io`] if the threads cannot be started.
    pub fn new(threads: NonZeroUsize) -> Result<Self, Error> {
        Ok(Self {
            threads: Threads::new(threads)?,
            memory: Arc::default(),
            placement: None,
            executors: Mutex::default(),
        })
    }

    /// With a device. Under `split` and `adaptive` the cpu's part is done by as many threads.
    ///
    /// # Errors
    /// As [`CodecPool::new`].
    pub fn with_placement(threads: NonZeroUsize, placement: Placement) -> Result<Self, Error> {
        let placement = Some(placement).filter(|placement| placement.policy.uses_device());
        Ok(Self {
            placement,
            ..Self::new(threads)?
        })
    }

    /// The thread budget.
    pub fn threads(&self) -> usize {
        self.threads.budget()
    }

    /// What ran where, for each operation that the device took part in.
    pub fn reports(&self) -> Vec<(Operation, Report)> {
        let executors = lock(&self.executors);
        let mut reports: Vec<_> = (executors.iter())
            .map(|((operation, ..), executor)| (*operation, executor.report()))
            .collect();
        reports.sort_by_key(|(operation, _)| *operation);
        reports
    }

    /// Whether the device takes part in an operation.
    pub(crate) fn is_placed(&self, operation: Operation) -> bool {
        let device = (self.placement.as_ref()).and_then(|placement| placement.device.as_ref());
        device.is_some_and(|device| device.capabilities().get(operation).is_some())
    }

    /// Queues a task that nobody waits for.
    pub(crate) fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        self.threads.spawn(task);
    }

    /// Does one task of the queue on this thread, if there is one: so the caller counts among the
    /// threads.
    pub(crate) fn help(&self) -> bool {
        self.threads.help()
    }

    /// Queues tasks on the threads.
    pub(super) fn start<T, F>(&self, tasks: impl IntoIterator<Item = F>) -> Pending<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Kernels) -> Result<T, Error> + Send + 'static,
    {
        self.threads.start(tasks)
    }

    /// Runs jobs on the targets of the placement. The results in the order of the jobs.
    pub(crate) fn run_placed(
        &self,
        operation: Operation,
        level: Option<u32>,
        jobs: Vec<Job>,
    ) -> Result<Vec<ChunkResult>, Error> {
        let longest = |of: fn(&Job) -> usize| jobs.iter().map(of).max().unwrap_or(0);
        let source_bytes = longest(|job| job.source.len()).next_power_of_two();
        let destination_bytes = longest(|job| job.capacity).next_power_of_two();
        let mut executors = lock(&self.executors);
        let key = (operation, level, source_bytes, destination_bytes);
        let mut executor = match executors.remove(&key) {
            Some(executor) => executor,
            None => self.executor(key)?,
        };
        // One that failed is not used again.
        let results = run(&mut executor, jobs)?;
        executors.insert(key, executor);
        Ok(results)
    }

    fn executor(&self, key: Key) -> Result<Executor, Error> {
        let (operation, level, source_bytes, destination_bytes) = key;
        let Some(placement) = &self.placement else {
            let (policy, target) = (Policy::Device, overside_placement::Target::Device);
            return Err(overside_placement::Error::NoTarget { policy, target }.into());
        };
        let options = CpuOptions {
            threads: self.threads(),
            cores: None,
        };
        // What a device compressed is verified by decompressing it.
        let inverse = match operation {
            Operation::Compress(format) => Some(Operation::Decompress(format)),
            _ => None,
        };
        let operations = [operation].into_iter().chain(inverse);
        let cpu = CpuDevice::for_operations(options, operations).map_err(|error| {
            overside_placement::Error::Open(OpenError::Failed {
                device: overside_backend_cpu::NAME.into(),
                reason: error.to_string(),
            })
        })?;
        let level = level.filter(|_| operation.uncompressed_side() == Direction::Source);
        let operation = OperationConfig {
            level,
            ..OperationConfig::new(operation)
        };
        Ok(Executor::open(Setup {
            cpu: Some(Arc::new(cpu)),
            device: placement.device.clone(),
            source_bytes,
            destination_bytes,
            cpu_depth: 2 * self.threads(),
            device_depth: DEVICE_DEPTH,
            verify: placement.verify,
            ..Setup::new(operation, placement.policy)
        })?)
    }
}

struct Owned(Buffer);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn run(executor: &mut Executor, jobs: Vec<Job>) -> Result<Vec<ChunkResult>, Error> {
    let mut results = Vec::with_capacity(jobs.len());
    let mut pull_or_wait = |executor: &mut Executor| match executor.pull()? {
        Some(result) => {
            results.push(result);
            Ok(())
        }
        None => executor.wait(WAIT),
    };
    for job in jobs {
        let slice = executor.register(ExternalBytes::new(Owned(job.source)));
        let mut chunk = Chunk::from(slice).destination_bytes(job.capacity);
        while let Err(refused) = executor.push(chunk) {
            chunk = refused;
            pull_or_wait(executor)?;
        }
    }
    while executor.in_flight() > 0 {
        pull_or_wait(executor)?;
    }
    Ok(results)
}
