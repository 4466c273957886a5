//! The initiator's threads, one a lane. All execute one command at the same time, and sleep until
//! the next.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use overside_device::Applied;
use overside_device::threads::{ThreadClock, pin};

use super::lane::Lane;
use crate::closed_loop::{LoopParams, Pass, Until};
use crate::counters::{Counters, Events};
use crate::failure::{Failure, FailureKind};

/// Command to one thread.
#[derive(Clone, Copy, Debug)]
pub(super) enum WorkerCommand {
    Refill(u64),
    Poison,
    Run(Until),
    /// Verify this number of places, from the first on.
    Check(usize),
}

/// Result of one thread's command.
pub(super) struct Report {
    /// Result of the pass, if it ran.
    pub pass: Option<Pass>,
    /// Processor events counted during the run; `None` if they were not requested or the command
    /// was not a run.
    pub events: Option<Events>,
    pub applied: Applied,
    /// See [`Lane::emulator_ns`].
    pub emulator_ns: u64,
}

/// Handle of a worker thread.
struct Worker {
    /// `None` once it is to end.
    orders: Option<Sender<WorkerCommand>>,
    reports: Receiver<Result<Report, Failure>>,
    clock: Arc<ThreadClock>,
    thread: Option<JoinHandle<()>>,
}

/// All threads.
pub(super) struct Workers {
    workers: Vec<Worker>,
}

impl Workers {
    /// Starts a thread for each lane, pinned to the cores in turn. `counted`: the processor counts
    /// events while they run.
    pub(super) fn start(
        lanes: Vec<Box<dyn Lane>>,
        params: &LoopParams,
        counted: bool,
        cores: Option<&[usize]>,
    ) -> Result<Self, Failure> {
        let mut workers = Self { workers: Vec::new() };
        for (index, lane) in lanes.into_iter().enumerate() {
            let core = cores.and_then(|cores| cores.get(index % cores.len().max(1)).copied());
            workers.workers.push(Worker::start(lane, params.clone(), counted, core)?);
        }
        Ok(workers)
    }

    /// Sends each thread its command, by its number, and waits until all have executed it.
    pub(super) fn all(
        &mut self,
        order: impl Fn(usize) -> WorkerCommand,
    ) -> Result<Vec<Report>, Failure> {
        let died = || Failure::new(FailureKind::Internal, "a thread that moves bytes has panicked");
        let mut first = None;
        for (index, worker) in self.workers.iter().enumerate() {
            let sent =
                (worker.orders.as_ref()).is_some_and(|orders| orders.send(order(index)).is_ok());
            if !sent {
                first.get_or_insert_with(died);
            }
        }
        let mut reports = Vec::with_capacity(self.workers.len());
        for worker in &self.workers {
            match worker.reports.recv() {
                Ok(Ok(report)) => reports.push(report),
                Ok(Err(failure)) => {
                    first.get_or_insert(failure);
                }
                Err(_) => {
                    first.get_or_insert_with(died);
                }
            }
        }
        first.map_or(Ok(reports), Err)
    }

    /// CPU time of all threads so far, in nanoseconds.
    pub(super) fn spent_ns(&self) -> u64 {
        self.workers.iter().map(|worker| worker.clock.spent_ns()).sum()
    }
}

impl Worker {
    fn start(
        mut lane: Box<dyn Lane>,
        params: LoopParams,
        counted: bool,
        core: Option<usize>,
    ) -> Result<Self, Failure> {
        let (orders, told) = channel();
        let (report, reports) = channel();
        let clock = Arc::new(ThreadClock::default());
        let own = Arc::clone(&clock);
        let thread = std::thread::Builder::new()
            .name("dma".into())
            .spawn(move || {
                own.begin();
                let placed = core.map_or(Ok(()), pin);
                let placed = placed.map_err(|error| Failure::unsupported(error.to_string()));
                while let Ok(order) = told.recv() {
                    let done =
                        placed.clone().and_then(|()| execute(&mut *lane, &params, counted, order));
                    if report.send(done).is_err() {
                        break;
                    }
                }
                drop(lane);
                own.end();
            })
            .map_err(|error| {
                Failure::new(FailureKind::Job, format!("starting a thread: {error}"))
            })?;
        Ok(Self { orders: Some(orders), reports, clock, thread: Some(thread) })
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            worker.orders = None;
        }
        for worker in &mut self.workers {
            if let Some(thread) = worker.thread.take() {
                // One that has panicked has been told of already.
                let _ = thread.join();
            }
        }
    }
}

fn execute(
    lane: &mut dyn Lane,
    params: &LoopParams,
    counted: bool,
    order: WorkerCommand,
) -> Result<Report, Failure> {
    let (mut pass, mut events) = (None, None);
    match order {
        WorkerCommand::Refill(epoch) => lane.refill(epoch)?,
        WorkerCommand::Poison => lane.poison()?,
        WorkerCommand::Run(until) => {
            let counters = counted.then(Counters::open);
            counters.iter().for_each(Counters::start);
            pass = Some(lane.run(params, until)?);
            counters.iter().for_each(Counters::stop);
            events = counters.map(Counters::events);
        }
        WorkerCommand::Check(count) => {
            (0..count).try_for_each(|slot| lane.check(slot))?;
        }
    }
    Ok(Report { pass, events, applied: lane.applied(), emulator_ns: lane.emulator_ns() })
}
