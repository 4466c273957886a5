//! Kinds of tests. A test in JSON may have the key `kind`; without it, or with `jobs`, it is one of
//! jobs on a device ([`crate::Test`]). Every other kind is a module here:
//!
//! 1. a struct that serde reads, with `deny_unknown_fields`, without the key `kind`. The runner adds
//!    `warmup_s`, `sample_s`, `timeout_s` and `seed` to what the task gives;
//! 2. [`Measured`] for it: `check` for bounds (every number that comes from outside; errors name the
//!    key and what it can be), `timeout_s`, and `take`, which measures once;
//! 3. a line in [`KINDS`].
//!
//! What goes wrong in `take`, a panic included, becomes a failed or skipped sample in
//! [`crate::Worker`], and a sample whose figures contradict each other a failed one. `take` keeps
//! track of the deadline itself.

mod dma;
mod hash;
mod memory;
mod network;

use std::time::Instant;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::measuring::NoSample;
use crate::sample::Sample;
use crate::test::{Test, TestError};

pub use dma::{DmaBuffers, DmaMeasure, DmaOperation, DmaTest};
pub use hash::{HashCalls, HashTest};
pub use memory::{MemoryPattern, MemoryTest};
pub use network::{Hop, NetworkPattern, NetworkTest};

/// A test that a worker can measure without a device's queue.
pub(crate) trait Measured {
    /// Whether every number lies within its bounds.
    fn check(&self) -> Result<(), TestError>;

    /// Seconds after which the sample has failed, preparation included.
    fn timeout_s(&self) -> f64;

    /// Measures once: verifies, warms up, runs under the clock.
    fn take(&self, deadline: Instant) -> Result<Sample, NoSample>;
}

type Parse = fn(Value) -> Result<Box<dyn Measured>, TestError>;

/// The kinds beside `jobs`.
const KINDS: [(&str, Parse); 4] = [
    ("dma", parse::<DmaTest>),
    ("hash", parse::<HashTest>),
    ("memory", parse::<MemoryTest>),
    ("network", parse::<NetworkTest>),
];

/// A test of any kind.
pub(crate) enum AnyTest {
    /// Jobs on a device.
    Jobs(Box<Test>),
    /// One of [`KINDS`].
    Other(Box<dyn Measured>),
}

impl AnyTest {
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
        match KINDS.iter().find(|(name, _)| *name == kind) {
            Some((_, parse)) => parse(rest).map(Self::Other),
            None => Err(TestError::Bound {
                field: "kind",
                value: format!("{kind:?}"),
                allowed: KINDS
                    .iter()
                    .fold("jobs".into(), |all, (name, _)| all + ", " + name),
            }),
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
