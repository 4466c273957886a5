//! The agent's end: measures tests for hosts, in worker processes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_link::agent::{CancellationToken, Host, MAX_PROBE_BYTES, Probe, ProbePeer};
use overside_link::codec::Message;
use overside_probe::{Failure, FailureKind};
use serde_json::{Map, Value};

use super::data_cache::{DataCache, InUse, Incoming};
use super::digest::Digest;
use super::turns::{Turn, Turns};
use super::worker_process::{BEGIN, BEGUN, READY, WAITS, WorkerCommand, WorkerProcess};
use super::{FileContent, KIND, NodeReply, NodeRequest, PART, data_of, environment};
use crate::sample::Sample;
use crate::tasks::PROGRAM;

/// The longest that a test may take, in seconds.
const TIMEOUT_S_MAX: f64 = 86400.0;
/// Extra time for the worker, which bounds its samples itself; for one that does not even do that.
const GRACE: Duration = Duration::from_millis(500);

/// Owner of the cores that an agent runs on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CoreOwner {
    /// The DPU's: CPU time of a test is on its ledger.
    #[default]
    Dpu,
    /// A host's.
    Host,
}

/// Measures tests for hosts, as a kind of probe.
pub struct MeasureProbe {
    worker: WorkerCommand,
    cache: Arc<DataCache>,
    turns: Arc<Turns>,
    owner: CoreOwner,
}

impl MeasureProbe {
    /// Makes an agent with processes that `worker` starts, files in `cache`, and `at_once` tests at a time.
    pub fn new(
        worker: WorkerCommand,
        cache: Arc<DataCache>,
        at_once: usize,
        owner: CoreOwner,
    ) -> Self {
        Self { worker, cache, turns: Turns::new(at_once), owner }
    }
}

impl Probe for MeasureProbe {
    fn kind(&self) -> &str {
        KIND
    }

    fn begin(&self, host: Host) -> Result<Box<dyn ProbePeer>, String> {
        Ok(Box::new(Node {
            cancelled: host.cancelled,
            worker: self.worker.clone(),
            cache: Arc::clone(&self.cache),
            turns: Arc::clone(&self.turns),
            owner: self.owner,
            files: Vec::new(),
            incoming: None,
            process: None,
            waiting: None,
        }))
    }
}

/// State of an agent for one host.
struct Node {
    cancelled: CancellationToken,
    worker: WorkerCommand,
    cache: Arc<DataCache>,
    turns: Arc<Turns>,
    owner: CoreOwner,
    /// Cached files for the host's next tests; they stay in the cache while they are listed here.
    files: Vec<InUse>,
    incoming: Option<Incoming>,
    /// Measures the next test too.
    process: Option<WorkerProcess>,
    /// A test that waits, or runs beside traffic.
    waiting: Option<Waiting>,
}

/// A test that is not measured in one go.
struct Waiting {
    process: WorkerProcess,
    deadline: Instant,
    _turn: Turn,
}

impl ProbePeer for Node {
    fn answer(&mut self, request: &[u8]) -> Vec<u8> {
        let reply = self.reply(request).unwrap_or_else(NodeReply::Failed);
        let encoded = reply.encode();
        match encoded.len() <= MAX_PROBE_BYTES {
            true => encoded,
            false => {
                let text = format!("a sample of {} bytes is too long to be sent", encoded.len());
                NodeReply::Failed(Failure::new(FailureKind::Internal, text)).encode()
            }
        }
    }

    fn waits_for_more(&self) -> bool {
        self.incoming.is_some()
    }
}

impl Node {
    fn reply(&mut self, request: &[u8]) -> Result<NodeReply, Failure> {
        // Whatever goes wrong with a file, no more of it is taken.
        let incoming = self.incoming.take();
        if let Some((&PART, part)) = request.split_first() {
            let none = || Failure::new(FailureKind::Data, "a part of no file came");
            return self.take(incoming.ok_or_else(none)?, part);
        }
        let request = NodeRequest::decode(request)
            .map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
        match request {
            NodeRequest::Environment => Ok(NodeReply::Environment(environment())),
            NodeRequest::Lacks(files) => self.lacks(&files),
            NodeRequest::File(file) => {
                let incoming = self.cache.begin(file)?;
                self.take(incoming, &[])
            }
            NodeRequest::Measure(test) => {
                let line = Value::Object(self.localised(test.clone())?).to_string();
                let (mut process, deadline, _turn) = self.worker(&test)?;
                let answer = process.measure(&line, deadline, self.is_over())?;
                self.sample(&answer, process)
            }
            NodeRequest::Prepare(test) => {
                let mut line = self.localised(test.clone())?;
                line.insert(WAITS.into(), true.into());
                let (mut process, deadline, turn) = self.worker(&test)?;
                let line = Value::Object(line).to_string();
                let answer = process.measure(&line, deadline, self.is_over())?;
                if answer != READY {
                    return self.sample(&answer, process);
                }
                self.waiting = Some(Waiting { process, deadline, _turn: turn });
                Ok(NodeReply::Ready)
            }
            NodeRequest::Begin => {
                let mut waiting = self.waiting.take().ok_or_else(nothing_waits)?;
                let (deadline, is_over) = (waiting.deadline, self.is_over());
                let answer = waiting.process.measure(BEGIN, deadline, is_over)?;
                if answer != BEGUN {
                    return Err(nothing_waits());
                }
                self.waiting = Some(waiting);
                Ok(NodeReply::Begun)
            }
            NodeRequest::Finish => {
                let waiting = self.waiting.take().ok_or_else(nothing_waits)?;
                let mut process = waiting.process;
                let answer = process.measure("", waiting.deadline, self.is_over())?;
                self.sample(&answer, process)
            }
        }
    }

    fn lacks(&mut self, files: &[FileContent]) -> Result<NodeReply, Failure> {
        let mut lacking = Vec::new();
        let before = std::mem::take(&mut self.files);
        for (place, file) in files.iter().enumerate() {
            match self.cache.get(file)? {
                Some(found) => self.files.push(found),
                None => lacking.push(place),
            }
        }
        // Only now: what is needed again is not to go meanwhile.
        drop(before);
        Ok(NodeReply::Lacks(lacking))
    }

    fn take(&mut self, mut incoming: Incoming, part: &[u8]) -> Result<NodeReply, Failure> {
        match incoming.take(part)? {
            true => self.files.push(incoming.finish()?),
            false => self.incoming = Some(incoming),
        }
        Ok(NodeReply::Taken)
    }

    /// The test with the paths of its files. This machine decides which program runs.
    fn localised(&self, mut test: Map<String, Value>) -> Result<Map<String, Value>, Failure> {
        test.remove(PROGRAM);
        for files in data_of(&mut test) {
            for file in files {
                *file = self.path(file)?.into();
            }
        }
        Ok(test)
    }

    /// A process for a test, until when it may take, and the turn to measure it.
    fn worker(
        &mut self,
        test: &Map<String, Value>,
    ) -> Result<(WorkerProcess, Instant, Turn), Failure> {
        // Otherwise a worker whose prepared test is never begun would hold the turn.
        self.waiting = None;
        let timeout_s = test.get("timeout_s").and_then(Value::as_f64);
        let timeout_s = timeout_s.unwrap_or(0.0).clamp(0.0, TIMEOUT_S_MAX);
        let deadline = Instant::now() + Duration::from_secs_f64(timeout_s) + GRACE;
        let Some(turn) = self.turns.take(deadline, self.is_over()) else {
            let text = "the agent measures other tests, and this one's time was over before";
            return Err(Failure::new(FailureKind::Timeout, text));
        };
        let process = match self.process.take() {
            Some(process) => process,
            None => WorkerProcess::start(&self.worker)?,
        };
        Ok((process, deadline, turn))
    }

    fn is_over(&self) -> impl Fn() -> bool + use<> {
        let cancelled = self.cancelled.clone();
        move || cancelled.is_cancelled()
    }

    /// Parses a worker's answer into a sample and keeps the worker process for the next test. The
    /// sample's host CPU time goes to the DPU's ledger if the cores are the DPU's.
    fn sample(&mut self, answer: &str, process: WorkerProcess) -> Result<NodeReply, Failure> {
        let not_one = |error| {
            let text = format!("the worker's answer is not a sample: {error}");
            Failure::new(FailureKind::Lost, text)
        };
        let mut sample: Sample = serde_json::from_str(answer).map_err(not_one)?;
        self.process = Some(process);
        if let (CoreOwner::Dpu, Some(cpu)) = (self.owner, &mut sample.cpu) {
            cpu.dpu_s += std::mem::take(&mut cpu.host_s);
        }
        match serde_json::to_value(sample) {
            Ok(Value::Object(sample)) => Ok(NodeReply::Sample(sample)),
            _ => Err(Failure::new(FailureKind::Internal, "a sample is no JSON")),
        }
    }

    /// Returns the path of the cached file that a host names by its digest.
    fn path(&self, name: &Value) -> Result<String, Failure> {
        let digest = name.as_str().map(|name| Digest::try_from(name.to_owned()));
        let files = self.files.iter();
        let found = match digest {
            Some(Ok(digest)) => files.rev().find(|file| *file.digest() == digest),
            _ => None,
        };
        let path = found.and_then(|file| file.path().into_os_string().into_string().ok());
        path.ok_or_else(|| {
            let text = format!("the data were not sent: there is no {name} here");
            Failure::new(FailureKind::Data, text)
        })
    }
}

fn nothing_waits() -> Failure {
    Failure::new(FailureKind::Internal, "there is no test that waits")
}
