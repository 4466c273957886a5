//! A context: a place in a queue of the device.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use overside_device::{
    Closed, Completion, Context, ContextConfig, CpuTime, Job, Lifecycle, Lost, OpenError,
    SubmitError,
};

use crate::DeviceState;
use crate::pipeline::Pipeline;

/// The pause between two looks while closing.
const PAUSE: Duration = Duration::from_micros(20);

pub(crate) struct DpdkContext {
    shared: Arc<DeviceState>,
    /// Pipeline, in a cell because counting the quarantine also releases destinations from it.
    pipeline: RefCell<Pipeline>,
    lifecycle: Lifecycle,
    /// Destinations in quarantine from before the context was set up again.
    elsewhere: Arc<AtomicUsize>,
}

impl DpdkContext {
    pub(crate) fn open(
        shared: &Arc<DeviceState>,
        config: ContextConfig,
    ) -> Result<Self, OpenError> {
        let elsewhere = Arc::<AtomicUsize>::default();
        let (pipeline, lifecycle) = Pipeline::open(shared, config, &elsewhere)?;
        Ok(Self {
            shared: Arc::clone(shared),
            pipeline: RefCell::new(pipeline),
            lifecycle,
            elsewhere,
        })
    }
}

impl Context for DpdkContext {
    fn submit(&mut self, jobs: &mut VecDeque<Job>) -> Result<usize, SubmitError> {
        self.shared.environment.runtime.enter_thread();
        self.pipeline.get_mut().submit(jobs)
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, Lost> {
        self.shared.environment.runtime.enter_thread();
        self.pipeline.get_mut().poll(out, max)
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn arm(&mut self) -> Result<bool, Lost> {
        Err(self.pipeline.get_mut().lost("it can only be polled"))
    }

    fn put_off(&mut self, until: Instant) {
        self.pipeline.borrow_mut().put_off(until);
    }

    fn in_flight(&self) -> usize {
        self.pipeline.borrow().in_flight()
    }

    fn quarantined(&self) -> usize {
        let mut pipeline = self.pipeline.borrow_mut();
        if pipeline.quarantined() > 0 {
            pipeline.reap();
        }
        pipeline.quarantined() + self.elsewhere.load(Ordering::Relaxed)
    }

    fn reconfigure(&mut self, config: ContextConfig) -> Result<(), OpenError> {
        let in_flight = self.in_flight();
        if in_flight > 0 {
            return Err(OpenError::InFlight(in_flight));
        }
        let (next, mut lifecycle) = Pipeline::open(&self.shared, config, &self.elsewhere)?;
        let end = Instant::now();
        drop(self.pipeline.replace(next));
        lifecycle.end_ns = Some(end.elapsed().as_nanos() as u64);
        self.lifecycle = lifecycle;
        Ok(())
    }

    fn lifecycle(&self) -> Lifecycle {
        self.lifecycle
    }

    /// Software drivers compute on the submitter's time, hardware on its own.
    fn cpu_time(&self) -> CpuTime {
        CpuTime::default()
    }

    fn close(self: Box<Self>, deadline: Instant) -> Closed {
        self.shared.environment.runtime.enter_thread();
        let mut pipeline = self.pipeline.into_inner();
        let (mut completions, mut lifecycle) = (Vec::new(), self.lifecycle);
        while pipeline.in_flight() > 0 {
            // A lost device has returned all it will.
            let Ok(count) = pipeline.poll(&mut completions, usize::MAX) else {
                break;
            };
            if Instant::now() >= deadline {
                break;
            }
            if count == 0 {
                std::thread::sleep(PAUSE);
            }
        }
        let abandoned = pipeline.tags();
        let end = Instant::now();
        drop(pipeline);
        lifecycle.end_ns = Some(end.elapsed().as_nanos() as u64);
        Closed { completions, abandoned, lifecycle, cpu_time: CpuTime::default() }
    }
}
