//! The built-in tasks, a module each: the declaration of a task ([`TaskSpec`]), and, where its
//! tests are not of jobs on a device, how one is measured.
//!
//! A test in JSON may have the key `kind`, the name of a task with tests of its own; without it, or
//! with `jobs`, it is one of jobs on a device ([`crate::Test`]). Such a task has in its module
//!
//! 1. `spec`, its declaration;
//! 2. a struct that serde reads, with `deny_unknown_fields`, without the key `kind`. The runner
//!    adds `warmup_s`, `sample_s`, `timeout_s` and `seed` to the task's parameters;
//! 3. [`Measured`] for it: `check` for bounds (every number that comes from outside; errors name
//!    the key and the allowed values), `timeout_s`, and `take`, which measures once;
//!
//! and a line in [`TASKS`]. Jobs on a device need none of this: their tasks follow from the registry of
//! operations.
//!
//! An error in `take`, or a panic, becomes a failed or skipped sample in
//! [`crate::Worker`], and a sample whose figures contradict each other a failed one. `take` keeps
//! track of the deadline itself.

mod dma;
mod hash;
mod jobs;
mod kv;
mod memory;
mod network;
mod partition;
mod place;
pub(crate) mod processor_events;
mod pushdown;
mod rdma;
mod spec;

use std::time::Instant;

use overside_ops::FAMILIES;
use overside_probe::Failure;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::begin::Begin;
use crate::sample::Sample;
use crate::test::{Test, TestError};

pub use dma::{DmaBuffers, DmaCompletion, DmaMeasure, DmaOperation, DmaTest};
pub use hash::{HashCalls, HashTest};
pub use memory::{MemoryPattern, MemoryTest};
pub use network::{Hop, NetworkTest};
pub(crate) use partition::PROGRAM;
pub use partition::PartitionTest;
pub(crate) use place::{Place, resolve_all};
pub use spec::{
    Better, Charts, Choice, Kind, Labels, Metric, Parameter, Reference, Report, TaskSpec, Title,
};

/// A test that a worker can measure without a device's queue.
pub(crate) trait Measured: Send {
    /// Checks that every number is within its bounds.
    fn check(&self) -> Result<(), TestError>;

    /// Seconds after which the sample has failed, preparation included.
    fn timeout_s(&self) -> f64;

    /// Returns `true` if the test can run beside other work, which decides when the test's clock
    /// starts.
    fn can_be_begun(&self) -> bool {
        false
    }

    /// The timed part waits for `begin`; for those that can be begun.
    fn begin_by(&mut self, begin: Begin) {
        let _ = begin;
    }

    /// Measures once: verifies, warms up, runs under the clock.
    fn take(&self, deadline: Instant) -> Result<Sample, Failure>;
}

type Parse = fn(Value) -> Result<Box<dyn Measured>, TestError>;

/// A built-in task.
struct Task {
    spec: fn() -> TaskSpec,
    /// Reads a test of its own; `None`: Python runs them.
    parse: Option<Parse>,
}

/// The registry of tasks that are not only of jobs on a device, in the order in which they are listed.
const TASKS: &[Task] = &[
    Task::new(hash::spec, Some(parse::<HashTest>)),
    Task::new(memory::spec, Some(parse::<MemoryTest>)),
    Task::new(dma::spec, Some(parse::<DmaTest>)),
    Task::new(network::spec, Some(parse::<NetworkTest>)),
    Task::new(rdma::spec, None),
    Task::new(kv::spec, None),
    Task::new(pushdown::spec, None),
    Task::new(partition::spec, Some(parse::<PartitionTest>)),
];

impl Task {
    const fn new(spec: fn() -> TaskSpec, parse: Option<Parse>) -> Self {
        Self { spec, parse }
    }

    /// Returns the task's declaration. A test that a worker measures can also be measured by an
    /// agent, so such a task has the parameter `node`; one of jobs on a device has it anyway.
    fn declared(&self) -> TaskSpec {
        let mut spec = (self.spec)();
        if self.parse.is_some() && spec.operation.is_none() {
            spec.parameters.push(place::node("measures"));
        }
        spec
    }
}

/// Returns the declarations of all built-in tasks.
pub fn tasks() -> Vec<TaskSpec> {
    let mut own: Vec<TaskSpec> = TASKS.iter().map(Task::declared).collect();
    let jobs = FAMILIES.map(|family| {
        // One that has tests of another kind, too, declares both.
        let both = own.iter().position(|spec| spec.name == family.verb);
        both.map_or_else(|| jobs::spec(family), |at| own.remove(at))
    });
    jobs.into_iter().chain(own).collect()
}

/// Returns the reason why a text is not a test or exceeds a limit, in the words of
/// [`Worker::measure_json`]; `None` if the test can be tried.
///
/// [`Worker::measure_json`]: crate::Worker::measure_json
pub fn test_problem(json: &str) -> Option<String> {
    let parsed = Place::of(json).and_then(|place| match place {
        Place::Here { test, .. } => AnyTest::parse(&test).map(drop),
        Place::Node(_, mut test) => {
            place::resolve_all(&mut test);
            AnyTest::parse(&Value::Object(test).to_string()).map(drop)
        }
    });
    parsed.err().map(|error| error.to_string())
}

/// A test of any kind.
pub(crate) enum AnyTest {
    /// Jobs on a device.
    Jobs(Box<Test>),
    /// A test of a task with tests of its own.
    Other(Box<dyn Measured>),
}

impl AnyTest {
    /// Reads a test that can run beside other work: jobs on one device, or bytes that move.
    pub(crate) fn parse_beside(json: &Value) -> Result<Self, TestError> {
        let test = Self::parse(&json.to_string())?;
        let bound = |value: String, allowed| Err(TestError::bound("beside", value, allowed));
        match &test {
            Self::Jobs(jobs) => match jobs.placement {
                Some(policy) => bound(format!("placement {policy}"), "jobs on one device"),
                None => Ok(test),
            },
            Self::Other(other) if other.can_be_begun() => Ok(test),
            Self::Other(_) => bound("of another kind".into(), "of kind jobs or dma"),
        }
    }

    /// Reads a test and checks its bounds.
    pub(crate) fn parse(json: &str) -> Result<Self, TestError> {
        let mut keys: Map<String, Value> = serde_json::from_str(json).map_err(not_a_test)?;
        let Some(kind) = keys.remove("kind") else {
            // From the text: it knows the place of an error, and a key that is there twice.
            return Ok(Self::Jobs(Box::new(Test::parse(json)?)));
        };
        let kind = kind.as_str().unwrap_or_default();
        let rest = Value::Object(keys);
        if kind == "jobs" {
            let test: Test = serde_json::from_value(rest).map_err(not_a_test)?;
            test.check()?;
            return Ok(Self::Jobs(Box::new(test)));
        }
        let own = TASKS.iter().filter_map(|task| Some(((task.spec)().name, task.parse?)));
        let own: Vec<_> = own.collect();
        match own.iter().find(|(name, _)| *name == kind) {
            Some((_, parse)) => parse(rest).map(Self::Other),
            None => {
                let allowed =
                    (own.iter()).fold("jobs".to_owned(), |all, (name, _)| all + ", " + name);
                Err(TestError::bound("kind", format!("{kind:?}"), allowed))
            }
        }
    }
}

fn parse<T: Measured + DeserializeOwned + 'static>(
    rest: Value,
) -> Result<Box<dyn Measured>, TestError> {
    let test: T = serde_json::from_value(rest).map_err(not_a_test)?;
    test.check()?;
    Ok(Box::new(test))
}

fn not_a_test(error: serde_json::Error) -> TestError {
    TestError::Json(error.to_string())
}
