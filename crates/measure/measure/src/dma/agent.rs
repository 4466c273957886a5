//! A test whose DPU side is on an agent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_backends::agents::{ProbeError, RemoteProbe};
use overside_link::agent::MAX_TEXT_BYTES;
use overside_link::codec::{Message, clean};
use overside_link::verbs::{Endpoint, Side};
use overside_probe::dma::remote::{DmaReply, DmaRequest, KIND, Opening, TIMEOUT_MS_MAX};
use overside_probe::dma::{
    Answer, Command, CopyEngine, Initiator, Link, Peer, Plan, RunReport, TestSide, dial, run_test,
};

use overside_probe::closed_loop::Timeouts;
use overside_probe::{Failure, FailureKind};

use super::figures::sample;
use super::parameters::DmaTest;
use super::path::EndpointWrapper;
use crate::evidence::Evidence;
use crate::remote_end;
use crate::sample::{Sample, Warning};

/// Longest time to wait until the link is connected.
const CONNECTING: Duration = Duration::from_secs(20);
/// Extra time to wait for an agent's answer after the test's deadline: the agent knows why there is
/// no result.
const GRACE: Duration = Duration::from_millis(500);
/// Tolerance between the agent's clock and this machine's: a time may differ by one part in this
/// number.
const CLOCKS: u64 = 1000;

/// Takes the sample, with the agent `node` as the DPU.
pub(super) fn take(
    test: &DmaTest,
    node: &str,
    link: Link,
    (deadline, through): (Instant, EndpointWrapper<'_>),
) -> Result<Sample, Failure> {
    with(test, remote_end::open(node, KIND)?, link, (deadline, through))
}

/// Takes the sample as [`take`] does, with a probe that is already open.
pub(super) fn with(
    test: &DmaTest,
    probe: RemoteProbe,
    link: Link,
    (deadline, through): (Instant, EndpointWrapper<'_>),
) -> Result<Sample, Failure> {
    let plan = test.plan();
    let mut there = AgentSide { probe, plan, deadline: deadline + GRACE };
    let end = through(there.meet(test, link, deadline)?);
    let evidence = Evidence::of_link(end.info());
    let (what, timeouts) = ((plan, Side::Host), Timeouts::until(deadline));
    let mut taken = match test.initiator {
        Side::Host => {
            let cores = test.cores.clone();
            let initiator = Initiator::over(end, link.name(), what, cores, timeouts);
            let mut here = there.beside(initiator);
            run_test(&plan, &test.times(), &mut here, Some(&mut there))
        }
        Side::Dpu => {
            let peer = Peer::over(end, link.name(), what, timeouts);
            let mut here = there.beside(peer);
            run_test(&plan, &test.times(), &mut there, Some(&mut here))
        }
    }?;
    let address = there.probe.there().ip();
    let warning = there.warning();
    // All is over there as well; that it gives everything back is worth waiting for, no more.
    let _ = there.probe.close();
    let applied = &mut taken.ran.applied;
    applied.device = test.device.clone();
    applied.driver = format!("{}, with the agent at {address}", applied.driver);
    let mut sample = sample(test, taken, evidence);
    sample.warnings.extend(warning);
    Ok(sample)
}

/// An agent that does not answer any more.
fn gone(error: ProbeError) -> Failure {
    let kind = match error {
        ProbeError::Late { .. } => FailureKind::Timeout,
        _ => FailureKind::Lost,
    };
    Failure::new(kind, error.to_string())
}

/// The agent's side.
struct AgentSide {
    probe: RemoteProbe,
    plan: Plan,
    deadline: Instant,
}

impl AgentSide {
    /// This side's end of the link, with the agent's at the other.
    fn meet(
        &mut self,
        test: &DmaTest,
        link: Link,
        deadline: Instant,
    ) -> Result<Arc<dyn Endpoint>, Failure> {
        // Only the initiator's end needs an engine: the other end posts nothing.
        let engine = (link == Link::Shm && test.variant != "caller")
            .then_some(CopyEngine { core: test.engine_core });
        let initiates = test.initiator == Side::Dpu;
        let left = deadline.saturating_duration_since(Instant::now());
        let opening = Opening {
            link,
            initiates,
            plan: self.plan,
            engine: engine.filter(|_| initiates),
            cores: test.cores.clone().filter(|_| initiates),
            transport: test.transport().filter(|_| link == Link::Ucx),
            timeout_ms: (left.as_millis() as u64).clamp(1, TIMEOUT_MS_MAX),
        };
        let DmaReply::Listening(reach) = self.ask(&DmaRequest::Open(opening))? else {
            return Err(self.strange("it does not say where it listens"));
        };
        let config = self.plan.link_config(Side::Host);
        let (there, engine) = (self.probe.there(), engine.filter(|_| !initiates));
        let soon = deadline.min(Instant::now() + CONNECTING);
        let end = dial(link, &reach, there, engine, test.transport(), &config, soon);
        end.map_err(|failure| self.told(failure))
    }

    /// Returns a warning if the agent's machine is this one.
    fn warning(&self) -> Option<Warning> {
        let (here, there) = (self.probe.here().ip(), self.probe.there().ip());
        let node = self.probe.node();
        (here == there || there.to_canonical().is_loopback()).then(|| Warning::new(
            "one-machine",
            format!(
                "agent {node} runs on this machine: both sides share its cores, and between them \
                 are neither a network nor PCIe"
            ),
            "run `overside agent` on the DPU",
        ))
    }

    fn beside<S>(&self, side: S) -> SideHere<S> {
        let node = self.probe.node().to_owned();
        SideHere { side, node }
    }

    fn ask(&mut self, request: &DmaRequest) -> Result<DmaReply, Failure> {
        let answer = self.probe.ask(&request.encode(), self.deadline);
        let answer = answer.map_err(gone)?;
        match DmaReply::decode(&answer) {
            Ok(DmaReply::Failed(failure)) => Err(self.told(failure)),
            Ok(reply) => Ok(reply),
            Err(error) => Err(self.strange(&format!("its answer: {error}"))),
        }
    }

    /// A failure of the agent's side, or of the way there, as this side's.
    fn told(&self, failure: Failure) -> Failure {
        let message = clean(&failure.message, MAX_TEXT_BYTES);
        Failure::new(failure.kind, format!("{}: {message}", self.probe.node()))
    }

    fn strange(&self, what: &str) -> Failure {
        let what = clean(what, MAX_TEXT_BYTES);
        let message = format!("agent {} is not one for this test: {what}", self.probe.node());
        Failure::new(FailureKind::Lost, message)
    }

    /// Checks that the agent's figures are plausible, because they come from another machine. Sets
    /// the host's CPU time in the report to zero.
    fn checked(&self, mut ran: RunReport, waited: Duration) -> Result<RunReport, Failure> {
        let count = ran.count();
        let timed = ran.latencies.as_ref().map(|all| all.count());
        let waited_ns = waited.as_nanos() as u64;
        if ran.counts.len() != self.plan.threads || ran.counts.contains(&0) {
            return Err(self.strange("not each thread that was asked for has done something"));
        }
        if self.plan.each != timed.is_some() || timed.is_some_and(|timed| timed != count) {
            return Err(self.strange("its latencies are not those of its operations"));
        }
        let threads = self.plan.threads as u64;
        let elapsed_ns = ran.elapsed_ns.saturating_add(ran.elapsed_ns / CLOCKS);
        let posting_ns_max = elapsed_ns.saturating_mul(threads);
        let posted = ran.posting_ns;
        if self.plan.deferred != posted.is_some() || posted.is_some_and(|ns| ns > posting_ns_max) {
            return Err(self.strange("what it says of posting cannot be"));
        }
        let events = ran.events.as_mut();
        if self.plan.events != events.is_some() || events.is_some_and(|events| !events.tidy()) {
            return Err(self.strange("what it says of its processor cannot be"));
        }
        if ran.elapsed_ns == 0 || ran.elapsed_ns > waited_ns + waited_ns / CLOCKS {
            return Err(self.strange(&format!(
                "it worked for {} ns, and was waited for {waited_ns} ns",
                ran.elapsed_ns
            )));
        }
        // Its cores are not this machine's.
        ran.cpu.host_ns = 0;
        Ok(ran)
    }
}

/// This machine's side: if the link fails, the error names the other end.
struct SideHere<S> {
    side: S,
    node: String,
}

impl<S: TestSide> TestSide for SideHere<S> {
    fn execute(&mut self, command: Command) -> Result<Answer, Failure> {
        let answer = self.side.execute(command);
        answer.map_err(|failure| match failure.kind {
            FailureKind::Unsupported => failure,
            kind => Failure::new(kind, format!("with {}: {}", self.node, failure.message)),
        })
    }
}

impl TestSide for AgentSide {
    fn execute(&mut self, command: Command) -> Result<Answer, Failure> {
        let begun = Instant::now();
        match self.ask(&DmaRequest::Execute(command))? {
            DmaReply::Answered(Answer::Ran(ran)) => {
                let ran = self.checked(*ran, begun.elapsed())?;
                Ok(Answer::Ran(Box::new(ran)))
            }
            DmaReply::Answered(Answer::CpuTime(mut time)) => {
                time.host_ns = 0;
                Ok(Answer::CpuTime(time))
            }
            DmaReply::Answered(answer) => Ok(answer),
            _ => Err(self.strange("it answers something else")),
        }
    }
}
