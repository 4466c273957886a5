//! One sample: the commands to both sides, and their order.

use std::sync::Arc;
use std::time::Duration;

use overside_device::CpuTime;

use super::command::{Answer, Command, RunReport, TestSide};
use super::plan::{Operation, Plan};
use crate::closed_loop::Until;
use crate::failure::{Failure, FailureKind};

/// Times during which operations are handed over.
#[derive(Clone)]
pub struct Times {
    /// Time before the clock.
    pub warmup: Duration,
    /// Time under the clock.
    pub sample: Duration,
    /// Called when everything is verified; the clock starts when it returns.
    pub begin: Option<Arc<dyn Fn() + Send + Sync>>,
}

/// Result of a test.
pub struct TestResult {
    /// Report of the part under the clock.
    pub ran: RunReport,
    /// CPU time of both sides meanwhile.
    pub cpu: CpuTime,
    /// Number of operations whose bytes were verified.
    pub checked: u64,
}

/// Verifies, warms up, runs under the clock and verifies again. Without `peer`, the initiator has the
/// memory of both sides.
///
/// # Errors
/// The failure of the side that could not continue. If one side only lost the other, the other's failure.
pub fn run_test<'a>(
    plan: &Plan,
    times: &Times,
    initiator: &'a mut dyn TestSide,
    peer: Option<&'a mut dyn TestSide>,
) -> Result<TestResult, Failure> {
    let mut sides = Sides { initiator, peer };
    let taken = sides.run_test(plan, times);
    match taken {
        // The side that broke the link off knows why it did.
        Err(lost) if lost.kind == FailureKind::Lost => match sides.peer(Command::CpuTime) {
            Err(failure) if failure.kind != FailureKind::Lost => Err(failure),
            _ => Err(lost),
        },
        taken => taken,
    }
}

struct Sides<'a> {
    initiator: &'a mut dyn TestSide,
    peer: Option<&'a mut dyn TestSide>,
}

impl Sides<'_> {
    fn run_test(&mut self, plan: &Plan, times: &Times) -> Result<TestResult, Failure> {
        let tokens = match self.peer(Command::Prepare)? {
            Some(Answer::Prepared(tokens)) => tokens,
            Some(other) => return Err(unfit(&other)),
            None => Vec::new(),
        };
        self.initiator.execute(Command::Start(tokens))?;
        let all = vec![plan.places() as u64; plan.threads];
        self.both(Command::Fill(0))?;
        let mut checked = self.looked_at(plan, &all)?;
        self.both(Command::Fill(1))?;
        self.run(Until::Passed(times.warmup))?;
        self.both(Command::Poison)?;
        if let Some(begin) = &times.begin {
            begin();
        }
        let before = self.peers_time()?;
        let ran = self.run(Until::Passed(times.sample))?;
        let peers = self.peers_time()?.since(before);
        checked += match plan.operation {
            Operation::Send => self.looked_at(plan, &all)?,
            Operation::Read | Operation::Write => self.compare(&ran.counts)?,
        };
        self.peer(Command::Stop)?;
        self.initiator.execute(Command::End)?;
        self.peer(Command::End)?;
        Ok(TestResult { cpu: ran.cpu.plus(peers), ran, checked })
    }

    /// Runs an operation at every location once, and verifies all of them.
    fn looked_at(&mut self, plan: &Plan, all: &[u64]) -> Result<u64, Failure> {
        self.peer(Command::Capture(true))?;
        self.run(Until::Count(plan.places() as u64))?;
        let checked = self.compare(all)?;
        self.peer(Command::Capture(false))?;
        Ok(checked)
    }

    fn run(&mut self, until: Until) -> Result<RunReport, Failure> {
        match self.initiator.execute(Command::Run(until))? {
            Answer::Ran(ran) => Ok(*ran),
            other => Err(unfit(&other)),
        }
    }

    /// Compares memory on both sides. Returns the number of compared locations.
    fn compare(&mut self, counts: &[u64]) -> Result<u64, Failure> {
        let ours = self.initiator.execute(Command::Compare(counts.to_vec()))?;
        let theirs = self.peer(Command::Compare(counts.to_vec()))?;
        match theirs.unwrap_or(ours) {
            Answer::Compared(count) => Ok(count),
            other => Err(unfit(&other)),
        }
    }

    fn both(&mut self, command: Command) -> Result<(), Failure> {
        self.peer(command.clone())?;
        self.initiator.execute(command).map(drop)
    }

    fn peers_time(&mut self) -> Result<CpuTime, Failure> {
        match self.peer(Command::CpuTime)? {
            Some(Answer::CpuTime(time)) => Ok(time),
            Some(other) => Err(unfit(&other)),
            None => Ok(CpuTime::default()),
        }
    }

    fn peer(&mut self, command: Command) -> Result<Option<Answer>, Failure> {
        let peer = self.peer.as_deref_mut();
        peer.map(|peer| peer.execute(command)).transpose()
    }
}

fn unfit(answer: &Answer) -> Failure {
    let message = format!("{answer:?} is no answer to what a side was told");
    Failure::new(FailureKind::Internal, message.chars().take(200).collect::<String>())
}
