//! Executors that submit jobs to the devices of a placement. Each submitting thread has an executor
//! of its own, so a budget of two threads is two submitters.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use arrow_buffer::Buffer;
use overside_backend_cpu::{CpuDevice, CpuOptions};
use overside_base::lock;
use overside_device::{Clock, Device, ExternalBytes, OpenError, Operation, OperationConfig};
use overside_ops::Direction;
use overside_placement::{
    Chunk, ChunkResult, DeviceSetup, Executor, Policy, Report, Setup, Verify,
};

use crate::Error;

/// Longest single wait for the targets; then the wait starts again.
const WAIT: Duration = Duration::from_secs(1);
/// Number of jobs in flight on a device for each submitter.
const DEVICE_DEPTH: usize = 16;

/// Placement of a flow's codec work, with the same policies as for files (`docs/core/placement.md`).
#[derive(Clone)]
pub struct Placement {
    /// Policy that chooses the target of each job.
    pub policy: Policy,
    /// Devices of the policy's targets.
    pub devices: Vec<Arc<dyn Device>>,
    /// Results that are verified before they are used.
    pub verify: Verify,
}

/// Part of a message, with a codec's operation for it.
pub struct Job {
    /// Input of the codec.
    pub source: Buffer,
    /// Maximum length of the result in bytes; longer ones are not needed.
    pub capacity: usize,
}

/// Operation, level, and the longest source and destination.
type Key = (Operation, Option<u32>, usize, usize);

/// Open executors.
pub(super) struct Executors {
    placement: Placement,
    threads: usize,
    clock: Clock,
    idle: Mutex<HashMap<Key, Vec<Executor>>>,
    /// Held while the CPU has a share, for which it uses all threads of the budget.
    cpu_part: Mutex<()>,
}

impl Executors {
    pub(super) fn new(placement: Placement, threads: usize, clock: Clock) -> Self {
        Self { placement, threads, clock, idle: Mutex::default(), cpu_part: Mutex::default() }
    }

    /// Number of submitting threads that an executor stands for: on a virtual clock all of them.
    fn submitters(&self) -> usize {
        if self.clock.is_virtual() { self.threads } else { 1 }
    }

    /// Does the work of a share.
    pub(super) fn submitting<T>(&self, work: impl FnOnce() -> T) -> T {
        self.clock.shared(self.submitters() as u32, work)
    }

    /// Returns `true` if a device supports the operation.
    pub(super) fn has(&self, operation: Operation) -> bool {
        let can = |device: &Arc<dyn Device>| device.capabilities().get(operation).is_some();
        self.placement.devices.iter().any(can)
    }

    /// Divides items into shares of about equal size, in order: one for each thread that may submit.
    pub(super) fn shares<T>(&self, items: impl IntoIterator<Item = T>) -> Vec<Vec<T>> {
        let submitters = match self.placement.policy.uses_cpu() {
            true => 1,
            false => self.threads / self.submitters(),
        };
        let mut items: Vec<T> = items.into_iter().collect();
        let share = items.len().div_ceil(submitters).max(1);
        let mut shares = Vec::new();
        while !items.is_empty() {
            let rest = items.split_off(share.min(items.len()));
            shares.push(std::mem::replace(&mut items, rest));
        }
        shares
    }

    /// Runs jobs on the targets of the placement. Returns the results in the order of the jobs.
    pub(super) fn run(
        &self,
        operation: Operation,
        level: Option<u32>,
        jobs: Vec<Job>,
    ) -> Result<Vec<ChunkResult>, Error> {
        let longest = |of: fn(&Job) -> usize| jobs.iter().map(of).max().unwrap_or(0);
        let source_bytes = longest(|job| job.source.len()).next_power_of_two();
        let destination_bytes = longest(|job| job.capacity).next_power_of_two();
        let key = (operation, level, source_bytes, destination_bytes);
        let _cpu_part = (self.placement.policy.uses_cpu()).then(|| lock(&self.cpu_part));
        let idle = lock(&self.idle).get_mut(&key).and_then(Vec::pop);
        let mut executor = match idle {
            Some(executor) => executor,
            None => self.open(key)?,
        };
        // An executor that failed is not used again.
        let results = run(&mut executor, jobs)?;
        lock(&self.idle).entry(key).or_default().push(executor);
        Ok(results)
    }

    /// Returns the reports of the idle executors, by operation.
    pub(super) fn reports(&self) -> Vec<(Operation, Report)> {
        let idle = lock(&self.idle);
        let executors = (idle.iter()).flat_map(|((operation, ..), executors)| {
            executors.iter().map(|executor| (*operation, executor.report()))
        });
        let mut reports: Vec<_> = executors.collect();
        reports.sort_by_key(|(operation, _)| *operation);
        reports
    }

    fn open(&self, key: Key) -> Result<Executor, Error> {
        let (operation, level, source_bytes, destination_bytes) = key;
        let placement = &self.placement;
        let options = CpuOptions { threads: self.threads, cores: None };
        // Results of compression are verified by decompressing them.
        let inverse = match operation {
            Operation::Compress(format) => Some(Operation::Decompress(format)),
            _ => None,
        };
        let operations = [operation].into_iter().chain(inverse);
        let clock = self.clock.clone();
        let cpu = CpuDevice::for_operations(options, operations, clock).map_err(|error| {
            overside_placement::Error::Open(OpenError::Failed {
                device: overside_backend_cpu::NAME.into(),
                reason: error.to_string(),
            })
        })?;
        let level = level.filter(|_| operation.uncompressed_side() == Direction::Source);
        let operation = OperationConfig { level, ..OperationConfig::new(operation) };
        Ok(Executor::open(Setup {
            cpu: Some(Arc::new(cpu)),
            devices: (placement.devices.iter())
                .map(|device| DeviceSetup {
                    depth: DEVICE_DEPTH * self.submitters(),
                    ..DeviceSetup::new(Arc::clone(device))
                })
                .collect(),
            source_bytes,
            destination_bytes,
            cpu_depth: 2 * self.threads,
            verify: placement.verify,
            clock: self.clock.clone(),
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
