//! Tests of kind `hash`: hash functions as calls in a loop, without a device's queue.

use std::time::{Duration, Instant};

use overside_base::Random;
use overside_device::threads::thread_cpu_ns;
use overside_device::{Applied, CpuTime, Provenance};
use overside_ops::hash::{Calls, Inputs, low};
use overside_ops::{HashAlgorithm, Operation};
use serde::{Deserialize, Serialize};

use super::spec::{Labels, Parameter, TaskSpec, higher, lower};
use super::{Measured, jobs};
use crate::evidence::Evidence;
use crate::memory_budget::memory_fits;
use crate::sample::{Check, MeasuredWork, Sample, Work};
use crate::test::{BUFFER_SIZE_MAX, TestError, times_within};
use crate::verify::LibraryReference;
use overside_probe::within;
use overside_probe::{Failure, FailureKind};

/// Maximum number of inputs, and the bytes that several of them take together at most: a first cache holds
/// them.
const INPUTS_MAX: u64 = 64;
const INPUTS_BYTES: u64 = 8192;
/// The time that a pass takes at least, so that reading clocks is nothing.
const PASS_NS: u64 = 1_000_000;
/// The most that passes are lengthened by at a time, and the most calls of one.
const LONGER: u64 = 16;
const CALLS_MAX: u64 = 1 << 24;

#[rustfmt::skip]
pub(super) fn spec() -> TaskSpec {
    let mut spec = jobs::spec(Operation::Hash(HashAlgorithm::Xxh3).family());
    let calls = [
        ("chain", "Dependent hash calls"),
        ("row", "Independent hash calls"),
    ];
    spec.parameters.push(Parameter::titled("calls", "not jobs on a device but bare calls in a loop on \
        one core: each waiting for the digest before it (chain), or one after the other (row)", calls));
    spec.metrics.extend([
        lower("call_latency", "ns", "one call that waits for the digest of the one before \
            (calls=chain)"),
        higher("call_bandwidth", "MB/s", "bytes hashed by independent calls on one core; MB is 10^6 \
            bytes (calls=row)"),
    ]);
    spec.report = spec.report.titled_when("calls", "{calls}");
    // Jobs of different hashes are different work; bare calls are what is compared.
    spec.report.labels = Labels {
        when: Some("calls"),
        parameters: &["algorithm"],
    };
    spec
}

/// Parameters of a hash test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HashTest {
    /// The operation by name, as in `hash-xxh3`.
    pub operation: Operation,
    /// The library by name, or `auto`.
    pub variant: String,
    /// Dependence of the calls: in a chain each call waits for the one before it, in a row it does
    /// not.
    pub calls: HashCalls,
    /// Bytes that one call hashes.
    pub buffer_size: u64,
    /// Seconds of the same work before the clock starts.
    pub warmup_s: f64,
    /// Seconds of calls under the clock.
    pub sample_s: f64,
    /// Seconds after which the sample has failed, preparation included.
    pub timeout_s: f64,
    /// Makes the bytes.
    #[serde(default)]
    pub seed: u64,
}

/// Dependence of a call on the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HashCalls {
    /// Each hashes an input that the digest before it picks: the time of one is its latency.
    Chain,
    /// One after the other: the next may begin before the last has ended.
    Row,
}

/// Expected results of the calls, computed by other code.
struct Expected {
    /// [`low`] of each input's digest.
    digests: Vec<u64>,
    method: HashCalls,
}

impl Expected {
    /// The sum that `calls` calls return.
    fn sum(&self, inputs: &Inputs, calls: u64) -> u64 {
        let add = |sum: u64, &digest: &u64| sum.wrapping_add(digest);
        if self.method == HashCalls::Row {
            let count = self.digests.len() as u64;
            let all = self.digests.iter().fold(0, add);
            let rest = &self.digests[..(calls % count) as usize];
            return rest.iter().fold(all.wrapping_mul(calls / count), add);
        }
        let (mut at, mut sum) = (0, 0_u64);
        for _ in 0..calls {
            sum = sum.wrapping_add(self.digests[at]);
            at = inputs.after(self.digests[at]);
        }
        sum
    }
}

/// Number of calls made under the clock, and the time that they took.
#[derive(Default)]
struct Spent {
    calls: u64,
    elapsed_ns: u64,
    cpu_ns: u64,
}

impl HashTest {
    fn algorithm(&self) -> Option<HashAlgorithm> {
        match self.operation {
            Operation::Hash(algorithm) => Some(algorithm),
            _ => None,
        }
    }

    /// Makes inputs of random bytes, enough of them for a chain to choose from.
    fn inputs(&self) -> Inputs {
        let count = (INPUTS_BYTES / self.buffer_size).clamp(1, INPUTS_MAX);
        let count = 1 << count.ilog2();
        Inputs::new(self.buffer_size as usize, count, |bytes| {
            Random::new(self.seed).fill(bytes);
        })
    }

    /// Passes of calls, each with the sum that it must return.
    fn run(
        &self,
        calls: &Calls,
        inputs: &Inputs,
        expected: &Expected,
        deadline: Instant,
    ) -> Result<Spent, Failure> {
        let pass = |count: u64| {
            let cpu = thread_cpu_ns();
            let start = Instant::now();
            let sum = match self.calls {
                HashCalls::Chain => calls.chain(inputs, count),
                HashCalls::Row => calls.row(inputs, count),
            };
            let elapsed_ns = start.elapsed().as_nanos() as u64;
            let cpu_ns = thread_cpu_ns().saturating_sub(cpu);
            let right = expected.sum(inputs, count);
            if sum != right {
                let message = format!("{count} calls add up to {sum:#x}, not to {right:#x}");
                return Err(Failure::new(FailureKind::Verification, message));
            }
            if Instant::now() > deadline {
                let message = "the calls were not done before the test's time was over";
                return Err(Failure::new(FailureKind::Timeout, message));
            }
            Ok((elapsed_ns.max(1), cpu_ns))
        };
        let began = Instant::now();
        let warmup = Duration::from_secs_f64(self.warmup_s);
        let mut count = 1;
        loop {
            let (elapsed_ns, _) = pass(count)?;
            if elapsed_ns < PASS_NS && count < CALLS_MAX {
                count *= (PASS_NS / elapsed_ns + 1).clamp(2, LONGER);
            } else if began.elapsed() >= warmup {
                break;
            }
        }
        let mut spent = Spent::default();
        while spent.calls == 0 || spent.elapsed_ns < (self.sample_s * 1e9) as u64 {
            let (elapsed_ns, cpu_ns) = pass(count)?;
            spent.calls += count;
            spent.elapsed_ns += elapsed_ns;
            spent.cpu_ns += cpu_ns;
        }
        Ok(spent)
    }
}

impl Measured for HashTest {
    fn check(&self) -> Result<(), TestError> {
        within("buffer_size", self.buffer_size, 1, BUFFER_SIZE_MAX)?;
        if self.algorithm().is_none() {
            let allowed = "a hash, as in hash-xxh3";
            return Err(TestError::bound("operation", self.operation, allowed));
        }
        Ok(times_within(self.warmup_s, self.sample_s, self.timeout_s)?)
    }

    fn timeout_s(&self) -> f64 {
        self.timeout_s
    }

    fn take(&self, deadline: Instant) -> Result<Sample, Failure> {
        let Some(algorithm) = self.algorithm() else {
            let message = format!("{} is no hash", self.operation);
            return Err(Failure::new(FailureKind::Internal, message));
        };
        memory_fits("the bytes to hash", 2 * self.buffer_size)?;
        let calls = Calls::new(algorithm, &self.variant)
            .map_err(|error| Failure::unsupported(error.to_string()))?;
        let inputs = self.inputs();
        let mut reference = LibraryReference::new(self.operation, calls.variant.name)?;
        let digests = inputs.iter().map(|input| Ok(low(&reference.result(input)?)));
        let expected =
            Expected { digests: digests.collect::<Result<_, Failure>>()?, method: self.calls };
        let spent = self.run(&calls, &inputs, &expected, deadline)?;
        let bytes = spent.calls * self.buffer_size;
        let done = MeasuredWork {
            applied: Some(Applied {
                device: "cpu".into(),
                driver: format!("calls {}", env!("CARGO_PKG_VERSION")),
                variant: calls.variant.name.into(),
                library: calls.variant.title(),
                because: None,
                provenance: Provenance::Measured,
            }),
            work: Work { jobs: spent.calls, bytes, ..Work::default() },
            elapsed_ns: spent.elapsed_ns,
            check: Check {
                method: reference.method(),
                value: format!("{:016x}", expected.sum(&inputs, inputs.iter().len() as u64)),
                buffers: inputs.iter().len() as u64,
            },
        };
        let cpu = CpuTime { host_ns: spent.cpu_ns, ..CpuTime::default() };
        let mut sample = Sample::ok(Evidence::measured(cpu), done);
        let elapsed_ns = spent.elapsed_ns as f64;
        let mut add = |name: &str, value: f64| sample.metrics.insert(name.into(), value);
        match self.calls {
            HashCalls::Chain => add("call_latency", elapsed_ns / spent.calls as f64),
            HashCalls::Row => add("call_bandwidth", bytes as f64 * 1e3 / elapsed_ns),
        };
        add("cpu_seconds", spent.cpu_ns as f64 / 1e9);
        Ok(sample)
    }
}
