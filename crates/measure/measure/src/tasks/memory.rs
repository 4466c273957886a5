//! Tests of kind `memory`: the loops of `overside_probe`.

use std::time::{Duration, Instant};

use overside_device::{Applied, CpuTime, Provenance};
use overside_probe::memory::{
    Access, Kernel, MAX_BYTES, Order, Pages, Pattern, Probe, ProbeResult, Times,
};
use serde::{Deserialize, Serialize};

use super::spec::{Choice, Labels, Parameter, Report, TaskSpec, higher, lower};
use super::{Measured, processor_events};
use crate::evidence::Evidence;
use crate::memory_budget::memory_fits;
use crate::sample::{Check, MeasuredWork, Sample, Work};
use crate::test::{THREADS_MAX, TestError, one, times_within};
use overside_probe::Failure;

#[rustfmt::skip]
pub(super) fn spec() -> TaskSpec {
    let patterns = [
        ("chase", "Dependent (pointer-chasing) memory reads"),
        ("stream", "STREAM"),
        ("access", "Memory reads and writes of 8 bytes"),
    ];
    let parameters = vec![
        Parameter::titled("pattern", "reads that each tell where the next is (chase), kernels over \
            arrays (stream), reads and writes of 8 bytes (access)", patterns).default("chase"),
        Parameter::choice("kernel", "of stream: c = a, b = s c, c = a + b, a = b + s c",
            &Kernel::ALL.map(Kernel::name)),
        Parameter::choice("access", "of access: what is done", &["read", "write"]),
        Parameter::choice("order", "of access: one after the other, or each once at random",
            &["sequential", "random"]),
        Parameter::integer("buffer_size", "memory of one thread: its block (chase), each of its \
            arrays (stream), its object (access)", 8, MAX_BYTES as u64).default(1 << 24)
            .unit("bytes"),
        Parameter::choice("pages", "pages that the memory is on: as the system gives them, small \
            ones, huge ones", &["system", "small", "huge"]).default("system"),
        Parameter::integer("threads", "threads, each with memory of its own", 1, THREADS_MAX as u64)
            .default(1).or_all(),
        Parameter::cores("cores", "the cores that they are pinned to, in turn"),
        processor_events::parameter().default(true),
    ];
    let metrics = vec![
        lower("read_latency", "ns", "one read that waits for the one before (chase)"),
        higher("bandwidth", "MB/s", "bytes read and written by all threads in the elapsed time \
            (stream and access)"),
        higher("best_bandwidth", "MB/s", "the same of the fastest pass, as STREAM reports it \
            (stream and access)"),
        lower("access_time", "ns", "one read or write of 8 bytes on one thread (access)"),
        higher("access_rate", "M/s", "reads or writes of 8 bytes by all threads in the elapsed \
            time (access)"),
        lower("cpu_seconds", "s", "host CPU seconds of the sample"),
    ];
    let variants = [
        ("chase", "Dependent reads"),
        ("copy", "Copy"),
        ("scale", "Scale"),
        ("add", "Add"),
        ("triad", "Triad"),
        ("read-sequential", "Sequential reads"),
        ("read-random", "Random reads"),
        ("write-sequential", "Sequential writes"),
        ("write-random", "Random writes"),
    ];
    TaskSpec {
        name: "memory",
        description: "read and write memory; what was read and written is checked",
        operation: None,
        verified: true,
        parameters,
        metrics: metrics.into_iter().chain(processor_events::metrics("an access")).collect(),
        report: Report {
            labels: Labels {
                when: None,
                parameters: &["kernel", "access", "order"],
            },
            variants: variants.map(|(name, title)| Choice { name, title }).into(),
            ..Report::new("{pattern}", &["threads", "cores", "pages"])
        },
    }
}

/// Parameters of a memory test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemoryTest {
    /// Kind of memory accesses: `chase`, `stream` or `access`.
    pub pattern: MemoryPattern,
    /// The kernel of `stream`.
    pub kernel: Option<Kernel>,
    /// Reading or writing; for `access`.
    pub access: Option<Access>,
    /// The order of accesses; for `access`.
    pub order: Option<Order>,
    /// Bytes of one thread's block, of each of its arrays, or of its object.
    pub buffer_size: u64,
    /// The pages that memory is on.
    #[serde(default)]
    pub pages: Pages,
    /// Number of threads, each with its own memory.
    #[serde(default = "one")]
    pub threads: usize,
    /// The cores that they are pinned to; not pinned if absent.
    pub cores: Option<Vec<usize>>,
    /// `true` if the processor's events are counted.
    #[serde(default)]
    pub events: bool,
    /// Seconds of the same work before the clock starts.
    pub warmup_s: f64,
    /// Seconds of passes under the clock.
    pub sample_s: f64,
    /// Seconds after which the sample has failed, preparation included.
    pub timeout_s: f64,
    /// Picks where orders begin.
    #[serde(default)]
    pub seed: u64,
}

/// Kind of memory accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryPattern {
    /// Reads at random, each of which has the position of the next.
    Chase,
    /// A kernel of STREAM.
    Stream,
    /// Reads or writes of 8 bytes.
    Access,
}

impl MemoryTest {
    fn probe(&self) -> Probe {
        let pattern = match self.pattern {
            MemoryPattern::Chase => Pattern::Chase,
            MemoryPattern::Stream => Pattern::Stream(self.kernel.unwrap_or(Kernel::Copy)),
            MemoryPattern::Access => {
                Pattern::Access(self.access.unwrap_or_default(), self.order.unwrap_or_default())
            }
        };
        Probe {
            pattern,
            size_bytes: usize::try_from(self.buffer_size).unwrap_or(usize::MAX),
            pages: self.pages,
            threads: self.threads,
            cores: self.cores.clone(),
            events: self.events,
            seed: self.seed,
        }
    }
}

impl Measured for MemoryTest {
    fn check(&self) -> Result<(), TestError> {
        times_within(self.warmup_s, self.sample_s, self.timeout_s)?;
        let has = |there: bool, pattern, field: &'static str| match there {
            true if self.pattern != pattern => {
                let allowed = format!("given only with pattern {pattern:?}").to_lowercase();
                Err(TestError::bound(field, "given", allowed))
            }
            _ => Ok(()),
        };
        has(self.kernel.is_some(), MemoryPattern::Stream, "kernel")?;
        has(self.access.is_some(), MemoryPattern::Access, "access")?;
        has(self.order.is_some(), MemoryPattern::Access, "order")?;
        Ok(self.probe().check()?)
    }

    fn timeout_s(&self) -> f64 {
        self.timeout_s
    }

    fn take(&self, deadline: Instant) -> Result<Sample, Failure> {
        let probe = self.probe();
        memory_fits("the memory of all threads", probe.memory_bytes() as u64)?;
        let result = probe.run(&Times {
            warmup: Duration::from_secs_f64(self.warmup_s),
            sample: Duration::from_secs_f64(self.sample_s),
            deadline,
        })?;
        Ok(sample(&probe, result))
    }
}

/// Sample of a probe's result.
fn sample(probe: &Probe, taken: ProbeResult) -> Sample {
    let version = env!("CARGO_PKG_VERSION");
    let done = MeasuredWork {
        applied: Some(Applied {
            device: "cpu".into(),
            driver: format!("probe {version}"),
            variant: probe.name().into(),
            library: format!("overside-probe {version}, {}", taken.pages),
            because: None,
            provenance: Provenance::Measured,
        }),
        work: Work { jobs: taken.accesses, bytes: taken.bytes, ..Work::default() },
        elapsed_ns: taken.elapsed_ns,
        check: Check {
            method: method(probe.pattern).into(),
            value: format!("{:016x}", taken.checked.0),
            buffers: taken.checked.1,
        },
    };
    let cpu = CpuTime { host_ns: taken.cpu_ns, ..CpuTime::default() };
    let mut sample = Sample::ok(Evidence::measured(cpu), done);
    let seconds = taken.elapsed_ns.max(1) as f64 / 1e9;
    let mut add = |name: &str, value: f64| sample.metrics.insert(name.into(), value);
    if probe.pattern == Pattern::Chase {
        add("read_latency", taken.access_ns());
    } else {
        add("bandwidth", taken.bytes as f64 / 1e6 / seconds);
        add("best_bandwidth", taken.best_bytes_per_s / 1e6);
    }
    if let Pattern::Access(..) = probe.pattern {
        add("access_time", taken.access_ns());
        add("access_rate", taken.accesses as f64 / 1e6 / seconds);
    }
    add("cpu_seconds", taken.cpu_ns as f64 / 1e9);
    processor_events::put(&mut sample, &taken.events, taken.accesses);
    sample
}

fn method(pattern: Pattern) -> &'static str {
    match pattern {
        Pattern::Chase => "every line read once in the order that was drawn",
        Pattern::Stream(_) => "every element against its formula",
        Pattern::Access(Access::Read, _) => "the sum of all words against its formula",
        Pattern::Access(Access::Write, _) => "every word against its formula",
    }
}
