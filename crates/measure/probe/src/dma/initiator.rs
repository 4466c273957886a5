//! The side that starts operations, as a part of this program.

use std::sync::Arc;
use std::time::Duration;

use overside_device::threads::process_cpu_ns;
use overside_device::{Clock, CpuTime};
use overside_link::verbs::{Endpoint, Side};

use super::command::{Answer, Command, RunReport, TestSide, out_of_turn};
use super::lane::Lane;
use super::one_sided::OneSided;
use super::payload::PayloadPattern;
use super::plan::{Operation, Plan};
use super::two_sided::TwoSided;
use super::workers::{WorkerCommand, Workers};
use crate::closed_loop::{LoopParams, Pass, Timeouts, Until};
use crate::counters::Events;
use crate::failure::{Failure, FailureKind};
use crate::latency::Latencies;

/// Number of operations after which the clock is read if not each of them is timed.
const OPERATIONS_A_LOOK: u64 = 32;

/// Path on which the initiator starts operations.
enum TransferPath {
    /// A link, by its name, with the other side at its other end.
    Link(Arc<dyn Endpoint>, String),
    /// Lanes that have both sides' memory; taken when it starts.
    Lanes(Vec<Box<dyn Lane>>),
}

/// The side that starts operations.
pub struct Initiator {
    plan: Plan,
    side: Side,
    cores: Option<Vec<usize>>,
    timeouts: Timeouts,
    path: Option<TransferPath>,
    workers: Option<Workers>,
    clock: Clock,
    operations_max: u64,
    /// CPU time of all lanes that stood for an engine, so far.
    emulator_ns: u64,
}

impl Initiator {
    /// Makes an initiator at an end of a link. `name` is the link's name; its threads are pinned to `cores`,
    /// in turn.
    pub fn over(
        endpoint: Arc<dyn Endpoint>,
        name: &str,
        (plan, side): (Plan, Side),
        cores: Option<Vec<usize>>,
        timeouts: Timeouts,
    ) -> Self {
        let path = TransferPath::Link(endpoint, name.into());
        Self::new(path, (plan, side), cores, timeouts)
    }

    /// Makes an initiator on lanes that need no other side, one for each thread. All of this process's CPU
    /// time then counts for this side: the threads of a software device are not distinguished from it.
    pub fn alone(
        lanes: Vec<Box<dyn Lane>>,
        (plan, side): (Plan, Side),
        cores: Option<Vec<usize>>,
        timeouts: Timeouts,
    ) -> Self {
        Self::new(TransferPath::Lanes(lanes), (plan, side), cores, timeouts)
    }

    fn new(
        path: TransferPath,
        (plan, side): (Plan, Side),
        cores: Option<Vec<usize>>,
        timeouts: Timeouts,
    ) -> Self {
        Self {
            plan,
            side,
            cores,
            timeouts,
            path: Some(path),
            workers: None,
            clock: Clock::default(),
            operations_max: u64::MAX,
            emulator_ns: 0,
        }
    }

    /// Sets a clock that its only lane's engine follows. A pass ends after `operations_max` operations.
    pub fn on_clock(self, clock: Clock, operations_max: u64) -> Self {
        Self { clock, operations_max, ..self }
    }

    fn start(&mut self, tokens: &[Vec<u8>]) -> Result<(), Failure> {
        let plan = self.plan;
        plan.check()?;
        let lanes = match &mut self.path {
            Some(TransferPath::Link(endpoint, name)) => {
                plan.can(&**endpoint, name)?;
                lanes(endpoint, plan, tokens)?
            }
            Some(TransferPath::Lanes(lanes)) => std::mem::take(lanes),
            None => return Err(Failure::new(FailureKind::Job, "the link was let go")),
        };
        let params = LoopParams {
            batch: plan.batch,
            event: plan.event,
            deferred: plan.deferred,
            operations_a_look: OPERATIONS_A_LOOK,
            latencies: plan.each,
            timeouts: self.timeouts.clone(),
            clock: self.clock.clone(),
            operations_max: self.operations_max,
        };
        self.workers = Some(Workers::start(lanes, &params, plan.events, self.cores.as_deref())?);
        Ok(())
    }

    /// CPU time of this side so far.
    fn spent(&self) -> CpuTime {
        match &self.path {
            Some(TransferPath::Link(endpoint, _)) => {
                let threads = self.workers.as_ref().map_or(0, Workers::spent_ns);
                self.side.cpu_time(threads).plus(endpoint.cpu_time())
            }
            _ => {
                let all = process_cpu_ns(std::process::id());
                self.side.cpu_time(all.unwrap_or_default())
            }
        }
    }

    fn run(&mut self, until: Until) -> Result<RunReport, Failure> {
        let before = self.spent();
        let reports = self.told(|_| WorkerCommand::Run(until))?;
        let mut cpu = self.spent().since(before);
        let emulator_ns = reports.iter().map(|one| one.emulator_ns).sum();
        let stood_in_ns = emulator_ns - std::mem::replace(&mut self.emulator_ns, emulator_ns);
        let own_ns = match self.side {
            Side::Host => &mut cpu.host_ns,
            Side::Dpu => &mut cpu.dpu_ns,
        };
        *own_ns = own_ns.saturating_sub(stood_in_ns);
        cpu.emulator_ns += stood_in_ns;
        let applied = reports.first().map(|one| one.applied.clone());
        let (passes, events): (Vec<_>, Vec<_>) =
            (reports.into_iter()).map(|one| (one.pass, one.events)).unzip();
        let passes: Vec<Pass> = passes.into_iter().flatten().collect();
        let events = Events::of_all(events.into_iter().flatten());
        let start = passes.iter().map(|one| one.start).min();
        let end = passes.iter().map(|one| one.end).max();
        let (Some(applied), Some((start, end))) = (applied, start.zip(end)) else {
            return Err(Failure::new(FailureKind::Internal, "there was no thread"));
        };
        let mut latencies = self.plan.each.then(Latencies::new);
        if let Some(all) = &mut latencies {
            let timed = passes.iter().filter_map(|one| one.latencies.as_ref());
            timed.for_each(|one| all.add(one));
        }
        Ok(RunReport {
            elapsed_ns: (end - start).as_nanos() as u64,
            counts: passes.iter().map(|one| one.operations).collect(),
            doorbells: passes.iter().map(|one| one.doorbells).sum(),
            late: passes.iter().map(|one| one.late).sum(),
            latencies,
            posting_ns: (self.plan.deferred)
                .then(|| passes.iter().filter_map(|one| one.posting).sum::<Duration>())
                .map(|posting| posting.as_nanos() as u64),
            events,
            cpu,
            applied,
        })
    }

    fn told(
        &mut self,
        order: impl Fn(usize) -> WorkerCommand,
    ) -> Result<Vec<super::workers::Report>, Failure> {
        match &mut self.workers {
            Some(workers) => workers.all(order),
            None => Err(Failure::new(FailureKind::Job, "this side has not started")),
        }
    }
}

fn lanes(
    endpoint: &Arc<dyn Endpoint>,
    plan: Plan,
    tokens: &[Vec<u8>],
) -> Result<Vec<Box<dyn Lane>>, Failure> {
    let needed = match plan.operation {
        Operation::Send => 0,
        Operation::Read | Operation::Write => plan.threads,
    };
    if tokens.len() != needed {
        let message = format!("{} tokens came, and {needed} are needed", tokens.len());
        return Err(Failure::new(FailureKind::Job, message));
    }
    (0..plan.threads)
        .map(|index| {
            let pair = endpoint.open(index)?;
            let pattern = PayloadPattern::new(plan, index);
            Ok(match tokens.get(index) {
                Some(token) => Box::new(OneSided::new(endpoint, pair, pattern, token)?),
                None => Box::new(TwoSided::new(endpoint, pair, pattern)) as Box<dyn Lane>,
            })
        })
        .collect()
}

impl TestSide for Initiator {
    fn execute(&mut self, command: Command) -> Result<Answer, Failure> {
        self.timeouts.check(std::time::Instant::now())?;
        match command {
            Command::Start(tokens) if self.workers.is_none() => {
                self.start(&tokens).map(|()| Answer::Done)
            }
            Command::Fill(epoch) => {
                self.told(|_| WorkerCommand::Refill(epoch)).map(|_| Answer::Done)
            }
            Command::Poison => self.told(|_| WorkerCommand::Poison).map(|_| Answer::Done),
            Command::Run(until) => self.run(until).map(|ran| Answer::Ran(Box::new(ran))),
            Command::Compare(counts) => {
                let places = self.plan.places() as u64;
                let count =
                    |index: usize| counts.get(index).copied().unwrap_or_default().min(places);
                self.told(|index| WorkerCommand::Check(count(index) as usize))?;
                let looked = (0..self.plan.threads).map(count);
                Ok(Answer::Compared(looked.sum()))
            }
            Command::CpuTime => Ok(Answer::CpuTime(self.spent())),
            Command::End => {
                self.workers = None;
                self.path = None;
                Ok(Answer::Done)
            }
            other => Err(out_of_turn(&other)),
        }
    }
}
