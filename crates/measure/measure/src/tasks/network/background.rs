//! Jobs beside the traffic: verified before any clock starts, run alone, and then once more in the
//! middle third of the traffic.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use overside_base::lock;
use overside_device::Timing;
use serde_json::{Map, Value, json};

use super::machine_busy::machine_busy_s;
use super::{NODE_MAX, NetworkTest};
use crate::begin::Begin;
use crate::node::{LOCAL, Relay};
use crate::sample::{Sample, Status};
use crate::tasks::{AnyTest, resolve_all};
use crate::test::TestError;
use crate::worker::Worker;
use overside_probe::{Failure, FailureKind};

/// Alone, and beside the traffic.
const STINTS: usize = 2;
/// The key of the node that runs the jobs.
const NODE: &str = "node";

/// A test that is going to run beside: of jobs on a device, or of moving bytes by DMA.
pub(super) enum BackgroundLoad {
    /// Jobs of this process.
    Here(AnyTest),
    /// Jobs of the agent of that name.
    There(String, Map<String, Value>),
}

/// Jobs that are made ready, or run.
pub(super) struct Running {
    begin: Sender<Instant>,
    said: Receiver<Progress>,
    thread: JoinHandle<()>,
    deadline: Instant,
}

/// Message from the thread that runs the jobs.
enum Progress {
    /// All outputs are verified; it waits for its start.
    Ready,
    /// Sample of the jobs, and the time at which they began; `None` if they did not begin.
    Done(Box<Sample>, Option<Instant>),
}

/// The machine without traffic and jobs.
pub(super) struct Idle {
    pub began: Instant,
    pub ended: Instant,
    /// Average number of busy cores; `None` if the system does not report it.
    pub machine_share: Option<f64>,
}

/// Results of the jobs, alone and beside the traffic.
pub(super) struct JobsReport {
    pub idle: Idle,
    /// Time of a stint of jobs in virtual time, which pass real time as well.
    each: Duration,
    /// Sample without traffic.
    pub alone: Sample,
    pub alone_began: Instant,
    /// Sample beside the traffic.
    pub sample: Sample,
    pub began: Instant,
}

/// All that comes before the traffic.
pub(super) struct Prepared {
    running: Running,
    each: Duration,
    idle: Idle,
    alone: Sample,
    alone_began: Instant,
}

impl BackgroundLoad {
    /// Reads the test of jobs; its times follow from those of the traffic.
    pub(super) fn parse(given: &Map<String, Value>, test: &NetworkTest) -> Result<Self, TestError> {
        let mut all = given.clone();
        for (key, value) in [
            ("warmup_s", json!(0.0)),
            ("sample_s", json!(test.sample_s / 3.0)),
            ("timeout_s", json!(test.timeout_s)),
            ("seed", json!(test.seed)),
        ] {
            if all.insert(key.into(), value).is_some() {
                let allowed = "a test of jobs without times and seed";
                return Err(TestError::bound("beside", format!("with {key}"), allowed));
            }
        }
        let node = all.remove(NODE).filter(|node| *node != LOCAL);
        let mut checked = all.clone();
        resolve_all(&mut checked);
        let checked =
            AnyTest::parse_beside(&Value::Object(checked)).map_err(|error| match error {
                TestError::Json(text) => TestError::Json(format!("beside: {text}")),
                bound => bound,
            })?;
        match node {
            None => Ok(Self::Here(checked)),
            Some(Value::String(node)) if (1..=NODE_MAX).contains(&node.len()) => {
                Ok(Self::There(node, all))
            }
            Some(other) => Err(TestError::bound("beside.node", other, "an agent's name")),
        }
    }

    /// Opens the device, verifies every output, sees how busy the machine is without anything, and
    /// runs the jobs alone. Each takes as long as the jobs beside the traffic will.
    pub(super) fn prepare(self, each: Duration, deadline: Instant) -> Result<Prepared, Failure> {
        let running = self.start(deadline)?;
        running.wait_until_ready()?;
        let (began, busy) = (Instant::now(), machine_busy_s());
        std::thread::sleep(each);
        let ended = Instant::now();
        let busy = machine_busy_s().zip(busy).map(|(now, then)| now - then);
        let idle = Idle {
            began,
            ended,
            machine_share: busy.map(|busy_s| busy_s / (ended - began).as_secs_f64()),
        };
        running.go(Duration::ZERO);
        let (alone, alone_began) = running.result()?;
        running.wait_until_ready()?;
        Ok(Prepared { running, each, idle, alone, alone_began })
    }

    fn start(mut self, deadline: Instant) -> Result<Running, Failure> {
        let (begin, hear_begin) = channel();
        let (say, said) = channel();
        let hear_begin = Arc::new(Mutex::new(hear_begin));
        let thread = std::thread::Builder::new()
            .name("beside".into())
            .spawn(move || {
                let (mut worker, mut relay) = (Worker::new(), Relay::default());
                for _ in 0..STINTS {
                    let (ready, hear_begin) = (say.clone(), Arc::clone(&hear_begin));
                    let wait_for_begin = move || {
                        let _ = ready.send(Progress::Ready);
                        wait(&lock(&hear_begin))
                    };
                    let (sample, began) = match &mut self {
                        Self::Here(test) => here(&mut worker, test, wait_for_begin),
                        Self::There(node, test) => {
                            there(&mut relay, node, test.clone(), wait_for_begin)
                        }
                    };
                    let is_over = sample.status != Status::Ok;
                    let _ = say.send(Progress::Done(Box::new(sample), began));
                    if is_over {
                        return;
                    }
                }
            })
            .map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
        Ok(Running { begin, said, thread, deadline })
    }
}

/// Jobs that this process runs, and when they began.
fn here(
    worker: &mut Worker,
    test: &mut AnyTest,
    wait_for_begin: impl Fn() -> Instant + Send + Sync + 'static,
) -> (Sample, Option<Instant>) {
    let began = Arc::new(OnceLock::new());
    let begun = Arc::clone(&began);
    let begin = Begin::new(move || {
        let _ = begun.set(wait_for_begin());
    });
    let sample = worker.measure_beside(test, begin);
    (sample, began.get().copied())
}

/// Jobs that another node runs, and when they began by this machine's clock.
fn there(
    relay: &mut Relay,
    node: &str,
    test: Map<String, Value>,
    wait_for_begin: impl FnOnce() -> Instant,
) -> (Sample, Option<Instant>) {
    let taken = (|| {
        let mut waiting = relay.prepare(node, test)?;
        wait_for_begin();
        let began = waiting.begin()?;
        let sample = waiting.finish()?;
        relay.give_back(waiting);
        Ok((sample, Some(began)))
    })();
    taken.unwrap_or_else(|failure| (Sample::without(failure), None))
}

/// Sleeps until the time that `begin` receives, and returns it. Without a sender it returns now.
fn wait(begin: &Receiver<Instant>) -> Instant {
    if let Ok(at) = begin.recv() {
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
    }
    Instant::now()
}

impl Running {
    fn wait_until_ready(&self) -> Result<(), Failure> {
        match self.hear()? {
            Progress::Ready => Ok(()),
            Progress::Done(sample, began) => {
                Err(figures(*sample, began).err().unwrap_or_else(|| {
                    Failure::new(FailureKind::Internal, "the jobs beside did not wait")
                }))
            }
        }
    }

    /// Starts the jobs `after` from now.
    fn go(&self, after: Duration) {
        // Fails only if the thread has ended, which `result` looks into.
        let _ = self.begin.send(Instant::now() + after);
    }

    /// Waits for the end of the jobs.
    fn result(&self) -> Result<(Sample, Instant), Failure> {
        match self.hear()? {
            Progress::Done(sample, began) => figures(*sample, began),
            Progress::Ready => {
                let text = "the jobs beside began twice";
                Err(Failure::new(FailureKind::Internal, text))
            }
        }
    }

    fn hear(&self) -> Result<Progress, Failure> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        self.said.recv_timeout(left).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                Failure::new(FailureKind::Timeout, "the jobs beside were not done in time")
            }
            RecvTimeoutError::Disconnected => {
                Failure::new(FailureKind::Internal, "the thread of the jobs beside panicked")
            }
        })
    }
}

impl Prepared {
    /// Starts the jobs `after` from now.
    pub(super) fn go(&self, after: Duration) {
        self.running.go(after);
    }

    /// Waits for the end of the jobs, and returns their report.
    pub(super) fn finish(self) -> Result<JobsReport, Failure> {
        let (sample, began) = self.running.result()?;
        drop(self.running.begin);
        // It has said what it had to say.
        let _ = self.running.thread.join();
        Ok(JobsReport {
            idle: self.idle,
            each: self.each,
            alone: self.alone,
            alone_began: self.alone_began,
            sample,
            began,
        })
    }
}

/// The figures of jobs, or why there are none.
fn figures(sample: Sample, began: Option<Instant>) -> Result<(Sample, Instant), Failure> {
    match (sample.status, began) {
        (Status::Ok, Some(began)) => Ok((sample, began)),
        (Status::Skipped, _) => {
            let reason = sample.reason.unwrap_or_default();
            Err(Failure::unsupported(format!("the jobs beside: {reason}")))
        }
        _ => {
            let failure = sample.error.unwrap_or_else(|| {
                Failure::new(FailureKind::Internal, "the jobs beside did not begin")
            });
            let message = format!("the jobs beside: {}", failure.message);
            Err(Failure::new(failure.kind, message))
        }
    }
}

impl JobsReport {
    /// Returns the times at which the jobs began and ended, measured from `start`.
    pub(super) fn between(&self, start: Instant) -> (Duration, Duration) {
        let begin = self.began.saturating_duration_since(start);
        (begin, begin + self.length(&self.sample))
    }

    /// Returns the real time that jobs took.
    pub(super) fn length(&self, sample: &Sample) -> Duration {
        match sample.timing {
            Some(Timing::Virtual) => self.each,
            _ => Duration::from_nanos(sample.elapsed_ns.unwrap_or(0)),
        }
    }
}
