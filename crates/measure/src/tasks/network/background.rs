//! Jobs on a device beside the traffic: verified before the clock starts, run in its middle third.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use super::NetworkTest;
use crate::sample::{Sample, Status};
use crate::test::{Test, TestError};
use crate::worker::Worker;
use overside_probe::{Failure, FailureKind};

/// A test of jobs that is going to run beside.
pub(super) struct BackgroundLoad(Test);

/// Jobs that have been verified and wait for their time.
pub(super) struct Running {
    begin: Sender<Instant>,
    thread: JoinHandle<(Sample, Option<Instant>)>,
}

/// What the jobs came to.
pub(super) struct JobsReport {
    pub sample: Sample,
    began: Instant,
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
        let test: Test = serde_json::from_value(Value::Object(all))
            .map_err(|error| TestError::Json(format!("beside: {error}")))?;
        test.check()?;
        if let Some(policy) = test.placement {
            let value = format!("placement {policy}");
            return Err(TestError::bound("beside", value, "jobs on one device"));
        }
        Ok(Self(test))
    }

    /// Opens the device and verifies every output once.
    pub(super) fn start(self, deadline: Instant) -> Result<Running, Failure> {
        let (say_ready, ready) = channel();
        let (begin, hear_begin) = channel();
        let thread = std::thread::Builder::new()
            .name("beside".into())
            .spawn(move || {
                let mut began = None;
                let sample = Worker::new().measure_in_background(&self.0, || {
                    let _ = say_ready.send(());
                    began = wait(&hear_begin);
                });
                (sample, began)
            })
            .map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))?;
        let left = deadline.saturating_duration_since(Instant::now());
        // An error means that the thread has ended, which `finish` looks into.
        if ready.recv_timeout(left).is_err() {
            return Err(Running { begin, thread }.finish().err().unwrap_or_else(|| {
                Failure::new(
                    FailureKind::Timeout,
                    "the jobs beside were not verified in time",
                )
            }));
        }
        Ok(Running { begin, thread })
    }
}

/// Sleeps until the time that is told, and says when that was. Nobody tells: at once.
fn wait(begin: &Receiver<Instant>) -> Option<Instant> {
    if let Ok(at) = begin.recv() {
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
    }
    Some(Instant::now())
}

impl Running {
    /// Lets the jobs begin after this time.
    pub(super) fn go(&self, after: Duration) {
        // Fails only if the thread has ended, which `finish` looks into.
        let _ = self.begin.send(Instant::now() + after);
    }

    /// Waits for the last of them.
    pub(super) fn finish(self) -> Result<JobsReport, Failure> {
        drop(self.begin);
        let (sample, began) = self.thread.join().map_err(|_| {
            Failure::new(
                FailureKind::Internal,
                "the thread of the jobs beside panicked",
            )
        })?;
        match (sample.status, began) {
            (Status::Ok, Some(began)) => Ok(JobsReport { sample, began }),
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
}

impl JobsReport {
    /// When the jobs began and ended, from `start` on.
    pub(super) fn between(&self, start: Instant) -> (Duration, Duration) {
        let begin = self.began.saturating_duration_since(start);
        let length = Duration::from_nanos(self.sample.elapsed_ns.unwrap_or(0));
        (begin, begin + length)
    }
}
