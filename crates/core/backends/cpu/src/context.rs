//! A context: worker threads with a kernel each.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use overside_device::threads::{CpuAccounting, Limits, Next, Runner, Threads, WorkerMain};
use overside_device::{
    Applied, Closed, Completion, Context, ContextConfig, CpuTime, Job, Lifecycle, Lost, OpenError,
    SubmitError,
};
use overside_ops::prepare;

use crate::{DeviceState, NAME};

pub(crate) struct CpuContext {
    device: Arc<DeviceState>,
    config: ContextConfig,
    threads: Threads,
    lifecycle: Lifecycle,
}

impl CpuContext {
    pub(crate) fn open(device: Arc<DeviceState>, config: ContextConfig) -> Result<Self, OpenError> {
        let begin = Instant::now();
        let threads = start(&device, &config)?;
        let lifecycle = Lifecycle { init_ns: Some(elapsed_ns(begin)), ..Lifecycle::default() };
        Ok(Self { device, config, threads, lifecycle })
    }
}

impl Context for CpuContext {
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
        if self.threads.in_flight() > 0 {
            return Err(OpenError::InFlight(self.threads.in_flight()));
        }
        let begin = Instant::now();
        let same = config.operation == self.config.operation && config.depth == self.config.depth;
        if same {
            // Kernels do not depend on how long buffers are: there is nothing to tear down.
            self.device.capabilities.check(NAME, &config)?;
            self.threads.set_longest(config.max_source_bytes, config.max_destination_bytes);
            self.lifecycle.end_ns = Some(0);
        } else {
            let next = start(&self.device, &config)?;
            let end = self.threads.replace(next);
            self.lifecycle.end_ns = Some(end.as_nanos() as u64);
        }
        let init_ns = elapsed_ns(begin).saturating_sub(self.lifecycle.end_ns.unwrap_or(0));
        self.lifecycle.init_ns = Some(init_ns);
        self.config = config;
        Ok(())
    }

    fn lifecycle(&self) -> Lifecycle {
        self.lifecycle
    }

    fn cpu_time(&self) -> CpuTime {
        self.threads.cpu_time()
    }

    fn close(self: Box<Self>, deadline: Instant) -> Closed {
        self.threads.close(self.lifecycle, deadline)
    }
}

fn elapsed_ns(since: Instant) -> u64 {
    since.elapsed().as_nanos() as u64
}

/// Prepares the operation once and starts a thread for each kernel.
fn start(device: &DeviceState, config: &ContextConfig) -> Result<Threads, OpenError> {
    let limits = limits(device, config)?;
    let prepared = prepare(&config.operation)?;
    let applied = Applied::of(&device.info, prepared.variant());
    let mains = (0..device.options.threads)
        .map(|index| {
            let runner = Runner::new(config.operation.operation, Arc::clone(&prepared))?;
            let main = worker(index, runner);
            Ok(match &device.options.cores {
                Some(cores) => main.pinned(cores[index % cores.len()]),
                None => main,
            })
        })
        .collect::<Result<Vec<_>, overside_ops::Error>>()?;
    Threads::spawn(limits, Arc::new(applied), CpuAccounting::Host, mains)
        .map_err(|error| OpenError::Failed { device: NAME.into(), reason: error.to_string() })
}

/// Returns the limits on the jobs of a context, after checking `config` against the device's
/// capabilities.
pub(crate) fn limits(device: &DeviceState, config: &ContextConfig) -> Result<Limits, OpenError> {
    let capability = device.capabilities.check(NAME, config)?;
    Ok(Limits { gather: true, ..Limits::new(device.id, capability, config) })
}

fn worker(index: usize, mut runner: Runner) -> WorkerMain {
    WorkerMain::new(format!("cpu-{index}"), move |mut queue| {
        while let Next::Job(mut job) = queue.next(None) {
            let (source, destination) = job.buffers();
            let result = runner.run(source, destination);
            queue.finish_timed(job, result);
        }
    })
}
