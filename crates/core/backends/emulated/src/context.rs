//! A context of an emulated card: one thread that computes and releases.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use overside_device::threads::{CpuAccounting, Limits, Runner, Threads, WorkerMain};
use overside_device::{
    Applied, Closed, Completion, Context, ContextConfig, CpuTime, Job, Lifecycle, Lost, OpenError,
    OperationConfig, SubmitError,
};

use crate::DeviceState;
use crate::engine::{CardWork, Engine, tolerance};

pub(crate) struct EmulatedContext {
    state: Arc<DeviceState>,
    threads: Threads,
    /// Times that the modeled card takes to initialize and to end a context for this operation;
    /// absent where the profile has no value.
    times: Lifecycle,
    lifecycle: Lifecycle,
}

impl EmulatedContext {
    pub(crate) fn open(state: Arc<DeviceState>, config: ContextConfig) -> Result<Self, OpenError> {
        let begin = Instant::now();
        let threads = start(&state, &config, Arc::default())?;
        let mut context = Self {
            times: state.times(config.operation.operation),
            state,
            threads,
            lifecycle: Lifecycle::default(),
        };
        context.initialise(begin);
        Ok(context)
    }

    /// Waits for the card's time to initialize a context, if it is known.
    fn initialise(&mut self, begin: Instant) {
        let init = self.times.init_ns;
        self.lifecycle.init_ns = init.map(|ns| pass(begin, Duration::from_nanos(ns)));
    }
}

/// Waits until `time` after `begin`. Returns the elapsed time in nanoseconds.
fn pass(begin: Instant, time: Duration) -> u64 {
    std::thread::sleep(time.saturating_sub(begin.elapsed()));
    begin.elapsed().as_nanos() as u64
}

/// Prepares the operation. Returns the card's model with the library that computes results, and the
/// record of that library for completions.
pub(crate) fn work(
    state: &Arc<DeviceState>,
    config: &OperationConfig,
) -> Result<(CardWork, Applied), OpenError> {
    let prepared = overside_ops::prepare(config)?;
    let variant = prepared.variant().clone();
    let runner = Runner::new(config.operation, prepared)?;
    let settled = OperationConfig { variant: variant.name.into(), ..config.clone() };
    let work = CardWork::new(Arc::clone(state), &settled, runner);
    Ok((work, Applied::of(&state.info, &variant)))
}

/// The thread of a context, ready for jobs.
fn start(
    state: &Arc<DeviceState>,
    config: &ContextConfig,
    late_setup: Arc<AtomicU64>,
) -> Result<Threads, OpenError> {
    let capability = state.capabilities.check(&state.info.name, config)?;
    let (work, applied) = work(state, &config.operation)?;
    let limits = Limits {
        // A completion that is held back would be late.
        gather: !state.timed(),
        ..Limits::new(state.registration.device, capability, config)
    };
    let engine = Engine::new(work, config.depth, late_setup);
    let main = WorkerMain::new(state.info.name.as_str(), move |queue| engine.run(queue));
    Threads::spawn(limits, Arc::new(applied), CpuAccounting::Emulator, vec![main]).map_err(
        |error| OpenError::Failed { device: state.info.name.clone(), reason: error.to_string() },
    )
}

impl Context for EmulatedContext {
    fn submit(&mut self, jobs: &mut VecDeque<Job>) -> Result<usize, SubmitError> {
        self.threads.submit(jobs)
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, Lost> {
        self.threads.poll(out, max)
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.threads.event_fd())
    }

    fn arm(&mut self) -> Result<bool, Lost> {
        self.threads.arm()
    }

    fn in_flight(&self) -> usize {
        self.threads.in_flight()
    }

    fn quarantined(&self) -> usize {
        self.threads.quarantined()
    }

    fn reconfigure(&mut self, config: ContextConfig) -> Result<(), OpenError> {
        if self.in_flight() > 0 {
            return Err(OpenError::InFlight(self.in_flight()));
        }
        let begin = Instant::now();
        let late_setup = Arc::<AtomicU64>::default();
        let next = start(&self.state, &config, Arc::clone(&late_setup))?;
        self.threads.replace(next);
        let ended = self.times.end_ns;
        self.times = self.state.times(config.operation.operation);
        self.lifecycle.end_ns = ended.map(|ns| pass(begin, Duration::from_nanos(ns)));
        self.initialise(Instant::now());
        // What the profile does not know counts as zero, which no software keeps to.
        let modelled = [ended, self.times.init_ns].into_iter().flatten().sum();
        let modelled = Duration::from_nanos(modelled);
        let spent = begin.elapsed();
        if spent > modelled + tolerance(modelled) {
            late_setup.store((spent - modelled).as_nanos() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    fn lifecycle(&self) -> Lifecycle {
        self.lifecycle
    }

    fn cpu_time(&self) -> CpuTime {
        self.threads.cpu_time()
    }

    fn close(self: Box<Self>, deadline: Instant) -> Closed {
        let Self { threads, lifecycle, .. } = *self;
        // The threads' own end says nothing about the card's.
        Closed { lifecycle, ..threads.close(lifecycle, deadline) }
    }
}
