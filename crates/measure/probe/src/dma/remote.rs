//! A side of a test on an agent: the host's requests, and the agent's part.
//!
//! ```text
//!   host                                       agent
//!   open: link, who initiates, plan      ->
//!                                        <-    listening: port and secret
//!   (dials the link)                     ==    (accepts)
//!   execute: prepare, fill, run, compare .. ->
//!                                        <-    answered
//! ```
//!
//! The agent's side is the DPU's. Memory, threads and time that a host can use are bounded.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use overside_base::{MemoryBudget, Reservation};
use overside_link::agent::{
    CancellationToken, Host, MAX_PROBE_BYTES, MAX_TEXT_BYTES, Probe, ProbePeer,
};
use overside_link::codec::{CodecError, Message, clean};
use overside_link::ucx::Transport;
use overside_link::verbs::{ConnectError, Endpoint, Side};
use serde::{Deserialize, Serialize};

use super::command::{Answer, Command, TestSide};
use super::initiator::Initiator;
use super::link::{CopyEngine, Link, LinkListener, Reach};
use super::peer::Peer;
use super::plan::Plan;
use crate::closed_loop::Timeouts;
use crate::failure::{Failure, FailureKind};

/// Probe kind under which hosts request a side of a DMA test from an agent.
pub const KIND: &str = "dma";
/// The longest that a test may take, in milliseconds.
pub const TIMEOUT_MS_MAX: u64 = 3_600_000;
/// Maximum number of bytes that a test may hold.
pub const BYTES_MAX: u64 = 2 << 30;
/// Maximum number of cores to pin threads to.
const CORES_MAX: usize = 1024;
/// Longest time to wait for the host to connect to the link.
const COMING: Duration = Duration::from_secs(5);

/// Request from a host to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DmaRequest {
    /// The first one: listen. [`DmaReply::Listening`].
    Open(Opening),
    /// Do that, once the link stands. [`DmaReply::Answered`].
    #[serde(rename = "obey")]
    Execute(Command),
}

/// Parameters of a test, as the host sends them to the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opening {
    /// Link that carries the bytes.
    pub link: Link,
    /// `true` if the agent's side starts the operations.
    pub initiates: bool,
    /// Parameters of the operations.
    pub plan: Plan,
    /// Copy engine of the agent's end; shared memory only.
    pub engine: Option<CopyEngine>,
    /// The agent's cores that the initiator's threads are pinned to, in turn.
    pub cores: Option<Vec<usize>>,
    /// Transport for UCX to use; the host uses it as well.
    pub transport: Option<Transport>,
    /// Longest time for the whole test, in milliseconds; at most [`TIMEOUT_MS_MAX`].
    pub timeout_ms: u64,
}

/// Answer of an agent to a host.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DmaReply {
    /// The agent listens; the host can connect.
    Listening(Reach),
    /// Answer to a command.
    Answered(Answer),
    /// A command failed.
    Failed(Failure),
}

impl Message for DmaRequest {
    const MAX_BYTES: usize = MAX_PROBE_BYTES;
}

impl Message for DmaReply {
    const MAX_BYTES: usize = MAX_PROBE_BYTES;

    fn check(&mut self) -> Result<(), CodecError> {
        match self {
            Self::Failed(failure) => failure.message = clean(&failure.message, MAX_TEXT_BYTES),
            Self::Answered(Answer::Ran(ran)) => {
                let applied = &mut ran.applied;
                for text in [
                    &mut applied.device,
                    &mut applied.driver,
                    &mut applied.variant,
                    &mut applied.library,
                ] {
                    *text = clean(text, MAX_TEXT_BYTES);
                }
            }
            Self::Answered(_) | Self::Listening(_) => {}
        }
        Ok(())
    }
}

/// The agent's end, as a kind of probe.
#[derive(Clone, Copy, Debug, Default)]
pub struct DmaProbe;

impl Probe for DmaProbe {
    fn kind(&self) -> &str {
        KIND
    }

    fn begin(&self, host: Host) -> Result<Box<dyn ProbePeer>, String> {
        Ok(Box::new(RemoteSide {
            here: host.here,
            cancelled: host.cancelled,
            budget: host.memory,
            memory: None,
            stage: Stage::New,
        }))
    }
}

/// The agent's end of a test.
struct RemoteSide {
    here: SocketAddr,
    cancelled: CancellationToken,
    budget: Arc<MemoryBudget>,
    /// Reservation for all memory that the test uses; `None` before the first request.
    memory: Option<Reservation>,
    stage: Stage,
}

type Accepted = Result<Arc<dyn Endpoint>, ConnectError>;

enum Stage {
    New,
    /// The agent waits for the host to connect to the link.
    Waiting(Opening, Instant, JoinHandle<Accepted>),
    Working(Box<dyn TestSide + Send>),
    Over,
}

impl RemoteSide {
    fn reply(&mut self, request: &[u8]) -> Result<DmaReply, Failure> {
        let request = DmaRequest::decode(request)
            .map_err(|error| Failure::new(FailureKind::Job, format!("the request: {error}")))?;
        match (request, std::mem::replace(&mut self.stage, Stage::Over)) {
            (DmaRequest::Open(opening), Stage::New) => {
                self.listen(opening).map(DmaReply::Listening)
            }
            (DmaRequest::Execute(command), Stage::Waiting(opening, deadline, coming)) => {
                let came = coming.join().unwrap_or_else(|_| {
                    let source = std::io::Error::other("a panic");
                    let doing = "waiting for the host".into();
                    Err(ConnectError::System { doing, source })
                });
                self.stage = Stage::Working(self.side(opening, came?, deadline));
                self.execute(command)
            }
            (DmaRequest::Execute(command), stage @ Stage::Working(_)) => {
                self.stage = stage;
                self.execute(command)
            }
            _ => Err(Failure::new(FailureKind::Job, "the request is out of turn")),
        }
    }

    fn listen(&mut self, opening: Opening) -> Result<Reach, Failure> {
        opening.check()?;
        let reserved = self.budget.reserve(opening.plan.memory_bytes());
        self.memory = Some(reserved.map_err(|error| {
            Failure::unsupported(format!("the agent has no memory for this test: {error}"))
        })?);
        let deadline = Instant::now() + Duration::from_millis(opening.timeout_ms);
        let (listening, reach) =
            LinkListener::begin(opening.link, self.here, opening.engine, opening.transport)?;
        let config = opening.plan.link_config(Side::Dpu);
        let coming = deadline.min(Instant::now() + COMING);
        let thread = std::thread::Builder::new()
            .name("dma-accept".into())
            .spawn(move || listening.accept(&config, coming))
            .map_err(|error| {
                Failure::new(FailureKind::Job, format!("starting a thread: {error}"))
            })?;
        self.stage = Stage::Waiting(opening, deadline, thread);
        Ok(reach)
    }

    fn side(
        &self,
        opening: Opening,
        endpoint: Arc<dyn Endpoint>,
        deadline: Instant,
    ) -> Box<dyn TestSide + Send> {
        let cancelled = self.cancelled.clone();
        let timeouts =
            Timeouts { deadline, cancelled: Some(Arc::new(move || cancelled.is_cancelled())) };
        let (name, what) = (opening.link.name(), (opening.plan, Side::Dpu));
        match opening.initiates {
            true => Box::new(Initiator::over(endpoint, name, what, opening.cores, timeouts)),
            false => Box::new(Peer::over(endpoint, name, what, timeouts)),
        }
    }

    /// A side that has failed does nothing more.
    fn execute(&mut self, command: Command) -> Result<DmaReply, Failure> {
        match &mut self.stage {
            Stage::Working(side) => side.execute(command).map(DmaReply::Answered),
            _ => Err(Failure::new(FailureKind::Internal, "there is no side")),
        }
    }
}

impl ProbePeer for RemoteSide {
    fn answer(&mut self, request: &[u8]) -> Vec<u8> {
        let reply = self.reply(request);
        reply.unwrap_or_else(DmaReply::Failed).encode()
    }
}

impl Drop for RemoteSide {
    fn drop(&mut self) {
        if let Stage::Waiting(_, _, coming) = std::mem::replace(&mut self.stage, Stage::Over) {
            // A host that did not come; the thread ends by itself soon.
            let _ = coming.join();
        }
    }
}

impl Opening {
    /// Checks that the test is within the limits of an agent.
    ///
    /// # Errors
    /// [`FailureKind::Unsupported`], with the exceeded limit.
    pub fn check(&self) -> Result<(), Failure> {
        self.plan.check()?;
        let bytes = self.plan.memory_bytes();
        if bytes > BYTES_MAX {
            return Err(Failure::unsupported(format!(
                "the buffers of all operations in flight ({bytes} bytes) are more than an agent \
                 holds for a test, {BYTES_MAX} bytes; take fewer threads, less depth, or smaller \
                 buffers"
            )));
        }
        if !(1..=TIMEOUT_MS_MAX).contains(&self.timeout_ms) {
            let allowed = format!("1 to {TIMEOUT_MS_MAX} are allowed");
            let message = format!("a test of {} ms, where {allowed}", self.timeout_ms);
            return Err(Failure::unsupported(message));
        }
        if self.engine.is_some() && self.link != Link::Shm {
            let name = self.link.name();
            return Err(Failure::unsupported(format!("{name} has no thread that copies")));
        }
        if self.transport.is_some() && self.link != Link::Ucx {
            let name = self.link.name();
            return Err(Failure::unsupported(format!("{name} has no transports to choose from")));
        }
        let cores = self.cores.as_ref().map_or(1, Vec::len);
        if !(1..=CORES_MAX).contains(&cores) {
            let message = format!("{cores} cores, where 1 to {CORES_MAX} are allowed");
            return Err(Failure::unsupported(message));
        }
        Ok(())
    }
}
