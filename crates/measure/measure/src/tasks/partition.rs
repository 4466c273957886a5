//! `partition`: a table that is unpacked, partitioned and packed again, by `overside flow bench` in a
//! process of its own.

use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use overside_base::END_WITH_PARENT;
use overside_device::{Applied, CpuTime, Provenance, Timing};
use overside_probe::{Failure, FailureKind, within};
use serde::{Deserialize, Serialize};

use super::Measured;
use super::spec::{
    Charts, Choice, Labels, Parameter, Reference, Report, TaskSpec, axis, higher, lower,
};
use crate::evidence::Evidence;
use crate::sample::{Check, MeasuredWork, Sample, Work};
use crate::test::{THREADS_MAX, TestError, times_within};

/// The key of a test with the program that does it, on this machine.
pub(crate) const PROGRAM: &str = "program";
/// Exit codes of `overside flow bench`: `ABSENT` if the device can do none of the work, `WRONG` if
/// a partition is wrong.
const ABSENT: i32 = 3;
const WRONG: i32 = 101;
const PASSES_MAX: u64 = 1000;
const PARTITIONS: (u64, u64) = (2, 1024);
/// Interval at which the program is checked for its end.
const LOOK: Duration = Duration::from_millis(5);
/// Maximum number of bytes that a program may write to stdout (`PRINTED_BYTES_MAX`) and to stderr
/// (`TOLD_BYTES_MAX`).
const PRINTED_BYTES_MAX: u64 = 16 << 20;
const TOLD_BYTES_MAX: u64 = 64 << 10;

/// Algorithms that assign rows to partitions, with their titles.
const ALGORITHMS: [(&str, &str); 3] =
    [("one-pass", "one pass"), ("filters", "filters"), ("none", "not partitioned")];
const METHODS: [(&str, &str); 2] = [("bits", "lowest bits"), ("hash", "hash")];
/// `--codec` and `--outer` of the command, in one.
const COMPRESSIONS: [(&str, &str); 6] = [
    ("none", "not compressed"),
    ("lz4", "LZ4"),
    ("zstd", "Zstandard"),
    ("outer-deflate", "DEFLATE of messages"),
    ("outer-lz4", "LZ4 of messages"),
    ("outer-zstd", "Zstandard of messages"),
];
const THREADS: [(&str, &str); 8] = [
    ("1", "1"),
    ("2", "2"),
    ("4", "4"),
    ("8", "8"),
    ("16", "16"),
    ("32", "32"),
    ("all", "all cores"),
    ("unbounded", "two a column"),
];

/// Parameters of how the work is done, not of the work itself.
const HOW: [&str; 8] =
    ["algorithm", "compression", "partitions", "method", "device", "threads", "rows", "passes"];

/// The stages of a pass: their metrics, and their names in charts.
const STAGES: [(&str, &str); 3] =
    [("unpack_time", "Unpack"), ("partition_time", "Partition"), ("repack_time", "Repack")];

#[rustfmt::skip]
pub(super) fn spec() -> TaskSpec {
    let parameters = vec![
        Parameter::text("table", "particles or ships, which are made, or a file: Arrow IPC, Parquet or \
            CSV").default("particles"),
        Parameter::integer("rows", "rows of the table; a file is enlarged to so many, and taken as it \
            is without", 1, 100_000_000),
        Parameter::text("key", "the column that decides; of made tables their object's number"),
        Parameter::text("time", "of a file that is enlarged: the column with the time"),
        Parameter::titled("algorithm", "how rows come to their partitions; none: the table is only \
            unpacked and packed", ALGORITHMS).default("one-pass"),
        Parameter::titled("method", "by what of the key", METHODS).default("bits"),
        Parameter::integer("partitions", "tables that it is split into; by bits, a power of two",
            PARTITIONS.0, PARTITIONS.1)
            .default(4),
        Parameter::titled("compression", "of the buffers of messages, or of whole messages (outer), \
            before and after", COMPRESSIONS).default("none"),
        Parameter::text("device", "what compresses and decompresses what it can").names(Reference::Device)
            .default("cpu"),
        Parameter::titled("threads", "threads at once; each submits its jobs to a device", THREADS)
            .default("1"),
        Parameter::integer("passes", "passes of a sample, after one that is not measured", 1, PASSES_MAX)
            .default(3),
    ];
    TaskSpec {
        name: "partition",
        description: "a table unpacked, partitioned by a key and packed again, from memory to memory",
        operation: None,
        verified: true,
        parameters,
        metrics: vec![
            higher("throughput", "MB/s", "bytes of the table's buffers, not compressed, in the time of all \
                stages"),
            higher("unpack_throughput", "MB/s", "bytes of the table's buffers, not compressed, in the time of \
                unpacking: decompress and validate"),
            higher("partition_throughput", "MB/s", "bytes of the table's buffers in the time of partitioning"),
            higher("repack_throughput", "MB/s", "bytes of the table's buffers, not compressed, in the time of \
                packing: compress and write"),
            lower("time", "ms", "time of a pass, all stages"),
            lower("unpack_time", "ms", "time of unpacking"),
            lower("partition_time", "ms", "time of partitioning"),
            lower("repack_time", "ms", "time of packing"),
            lower("cpu_cost", "s/GB", "host CPU seconds for 10^9 bytes of the table, not compressed"),
            lower("output_bytes", "bytes", "bytes of all partitions, packed"),
            lower("ratio", "-", "bytes of all partitions, packed, over those of the table, not compressed"),
            lower("imbalance", "-", "rows of the largest partition over the mean"),
        ],
        report: Report {
            // Nothing here is a buffer.
            size: "",
            labels: Labels { when: None, parameters: &["algorithm", "compression"] },
            advised: false,
            charts: Charts::Traffic,
            axes: vec![axis("partitions", "Partitions"), axis("rows", "Rows")],
            stages: STAGES.map(|(name, title)| Choice { name, title }).into(),
            ..Report::new("Unpack and pack {table}", &HOW).titled_when("partitions", "Partition {table}")
        },
    }
}

/// Parameters of a partitioning test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionTest {
    /// The table's file.
    pub data: Table,
    /// The command `overside` that does it; the running program if absent. An agent takes its own.
    pub program: Option<PathBuf>,
    /// `one-pass`, `filters`, or `none`: only unpacked and packed.
    pub algorithm: String,
    /// `bits` or `hash`.
    pub method: Option<String>,
    /// Tables that it is split into.
    pub partitions: Option<u32>,
    /// The column that decides.
    pub key: Option<String>,
    /// `none`, a codec, or `outer-` and a codec.
    pub compression: String,
    /// Device that compresses and decompresses.
    pub device: String,
    /// Threads at once.
    pub threads: usize,
    /// Passes that are measured.
    pub passes: u32,
    /// Unused: a sample is a number of passes.
    pub warmup_s: f64,
    /// Unused, like `warmup_s`.
    pub sample_s: f64,
    /// Seconds after which the sample has failed.
    pub timeout_s: f64,
    /// Unused: the table is fixed.
    #[serde(default)]
    pub seed: u64,
}

/// A table that is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// One file.
    pub files: Vec<PathBuf>,
}

/// Output of `overside flow bench --json`, limited to the fields that are used.
#[derive(Deserialize)]
struct Printed {
    version: String,
    algorithm: String,
    partitioned: bool,
    imbalance: f64,
    table_bytes: u64,
    parts: Vec<Part>,
    device: Option<OfDevice>,
    passes: Vec<Pass>,
}

#[derive(Deserialize)]
struct Part {
    bytes: u64,
}

#[derive(Deserialize)]
struct OfDevice {
    provenance: Provenance,
    timing: Timing,
    applied: Option<Applied>,
}

#[derive(Deserialize)]
struct Pass {
    elapsed_ns: u64,
    cpu: Cpu,
    device: Jobs,
    check: Checked,
    unpack: Stage,
    partition: Stage,
    repack: Stage,
}

#[derive(Deserialize)]
struct Cpu {
    host_ns: u64,
    dpu_ns: u64,
    emulator_ns: u64,
}

#[derive(Deserialize)]
struct Jobs {
    jobs: u64,
    late: u64,
}

#[derive(Deserialize)]
struct Checked {
    method: String,
    value: String,
    parts: u64,
}

#[derive(Deserialize)]
struct Stage {
    wall_ns: u64,
}

/// A stage's name, and its time in a pass.
type StageTime = (&'static str, fn(&Pass) -> u64);

impl PartitionTest {
    /// The command that does it. Each value is one word with its option, so that none is an option.
    fn command(&self) -> Result<Command, Failure> {
        let own = || std::env::current_exe().map_err(|error| cannot(&error));
        let mut command = Command::new((self.program.clone()).map_or_else(own, Ok)?);
        let [file] = &self.data.files[..] else {
            let text = format!("a table is one file, not {}", self.data.files.len());
            return Err(Failure::new(FailureKind::Data, text));
        };
        command.args(["flow", "bench", "--json"]);
        command.arg(format!("--passes={}", self.passes));
        command.arg(format!("--threads={}", self.threads));
        if let (Some(method), Some(number), Some(key)) = (&self.method, self.partitions, &self.key)
        {
            let number = match method.as_str() {
                "bits" => number.trailing_zeros(),
                _ => number,
            };
            command.arg(format!("--algorithm={}", self.algorithm));
            command.arg(format!("--key={key}"));
            command.arg(format!("--{method}={number}"));
        }
        command.arg(match self.compression.strip_prefix("outer-") {
            Some(codec) => format!("--outer={codec}"),
            None => format!("--codec={}", self.compression),
        });
        if self.device != "cpu" {
            command.arg(format!("--device={}", self.device));
            command.arg("--placement=device");
        }
        command.arg("--").arg(file);
        Ok(command)
    }

    fn sample(&self, printed: &Printed) -> Result<Sample, Failure> {
        let (passes, bytes) = (&printed.passes, printed.table_bytes as f64);
        let (Some(last), true) = (passes.last(), bytes > 0.0) else {
            return Err(Failure::new(FailureKind::Job, "it has done nothing"));
        };
        let count = passes.len() as f64;
        let sum = |of: &dyn Fn(&Pass) -> u64| passes.iter().map(of).sum::<u64>();
        let cpu = CpuTime {
            host_ns: sum(&|pass| pass.cpu.host_ns),
            dpu_ns: sum(&|pass| pass.cpu.dpu_ns),
            emulator_ns: sum(&|pass| pass.cpu.emulator_ns),
        };
        let mut evidence = Evidence::measured(cpu);
        let mut applied = Applied {
            device: "this machine's cores".into(),
            driver: "threads".into(),
            variant: match printed.partitioned {
                true => printed.algorithm.clone(),
                false => "not partitioned".into(),
            },
            library: format!("overside {}", printed.version),
            because: None,
            provenance: Provenance::Measured,
        };
        if let Some(device) = &printed.device {
            evidence.provenance = device.provenance;
            evidence.timing = device.timing;
            let (late, of) = (sum(&|pass| pass.device.late), sum(&|pass| pass.device.jobs));
            evidence = evidence.with_late(late, of);
            applied = device.applied.clone().unwrap_or(applied);
        }
        let elapsed_ns = sum(&|pass| pass.elapsed_ns);
        let done = MeasuredWork {
            applied: Some(applied),
            work: Work {
                jobs: passes.len() as u64,
                bytes: printed.table_bytes * passes.len() as u64,
                ..Work::default()
            },
            elapsed_ns,
            check: Check {
                method: last.check.method.clone(),
                value: last.check.value.clone(),
                buffers: sum(&|pass| pass.check.parts),
            },
        };
        let mut sample = Sample::ok(evidence, done);
        let mut put = |name: &str, value: f64| sample.metrics.insert(name.into(), value);
        let pass_ns = elapsed_ns as f64 / count;
        let output_bytes = printed.parts.iter().map(|part| part.bytes).sum::<u64>() as f64;
        put("throughput", bytes * 1e3 / pass_ns);
        put("time", pass_ns / 1e6);
        put("cpu_cost", cpu.host_ns as f64 / count / bytes);
        put("output_bytes", output_bytes);
        put("ratio", output_bytes / bytes);
        let stages: [StageTime; 3] = [
            ("unpack", |pass| pass.unpack.wall_ns),
            ("partition", |pass| pass.partition.wall_ns),
            ("repack", |pass| pass.repack.wall_ns),
        ];
        for (name, wall_ns) in stages {
            if name != "partition" || printed.partitioned {
                let wall_ns = sum(&wall_ns) as f64 / count;
                put(&format!("{name}_time"), wall_ns / 1e6);
                put(&format!("{name}_throughput"), bytes * 1e3 / wall_ns);
            }
        }
        if printed.partitioned {
            put("imbalance", printed.imbalance);
        }
        Ok(sample)
    }
}

impl Measured for PartitionTest {
    fn check(&self) -> Result<(), TestError> {
        within("threads", self.threads as u64, 1, THREADS_MAX as u64)?;
        within("passes", u64::from(self.passes), 1, PASSES_MAX)?;
        if let Some(number) = self.partitions {
            within("partitions", u64::from(number), PARTITIONS.0, PARTITIONS.1)?;
        }
        let known: [(&str, Option<&str>, Vec<&str>); 3] = [
            ("algorithm", Some(&self.algorithm), names(&ALGORITHMS)),
            ("method", self.method.as_deref(), names(&METHODS)),
            ("compression", Some(&self.compression), names(&COMPRESSIONS)),
        ];
        for (field, value, names) in known {
            if let Some(value) = value.filter(|value| !names.contains(value)) {
                return Err(TestError::bound(field, format!("{value:?}"), names.join(", ")));
            }
        }
        let by_bits = self.method.as_deref() == Some("bits");
        if let Some(number) = self.partitions.filter(|it| by_bits && !it.is_power_of_two()) {
            let allowed: String = "a power of two with method \"bits\"".into();
            return Err(TestError::bound("partitions", number, allowed));
        }
        Ok(times_within(self.warmup_s, self.sample_s, self.timeout_s)?)
    }

    fn timeout_s(&self) -> f64 {
        self.timeout_s
    }

    fn take(&self, deadline: Instant) -> Result<Sample, Failure> {
        let mut child = Running(
            self.command()?
                .env(END_WITH_PARENT, "1")
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .map_err(|error| cannot(&error))?,
        );
        let told = child.0.stderr.take().map(|from| reader(from, TOLD_BYTES_MAX));
        let printed = child.0.stdout.take().map(|from| reader(from, PRINTED_BYTES_MAX));
        let status = loop {
            if let Some(status) = child.0.try_wait().map_err(|error| cannot(&error))? {
                break status;
            }
            if Instant::now() >= deadline {
                let text = "the passes were not over before the test's time was";
                return Err(Failure::new(FailureKind::Timeout, text));
            }
            std::thread::sleep(LOOK);
        };
        if !status.success() {
            let told = text_of(told);
            let line = told.lines().rev().find(|line| !line.trim().is_empty());
            let line = line.unwrap_or("it says nothing").trim();
            let line = line.strip_prefix("overside flow bench: ").unwrap_or(line);
            return Err(match status.code() {
                Some(ABSENT) => Failure::unsupported(line.to_owned()),
                Some(WRONG) => Failure::new(FailureKind::Verification, line.to_owned()),
                _ => Failure::new(FailureKind::Job, format!("{line} ({status})")),
            });
        }
        let printed = serde_json::from_str(&text_of(printed)).map_err(|error| {
            Failure::new(FailureKind::Internal, format!("what it prints: {error}"))
        })?;
        self.sample(&printed)
    }
}

/// Program that is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads up to `most` bytes on a thread, while the caller waits for the end.
fn reader(from: impl Read + Send + 'static, most: u64) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.take(most).read_to_end(&mut bytes);
        bytes
    })
}

fn text_of(reader: Option<JoinHandle<Vec<u8>>>) -> String {
    let bytes = reader.and_then(|reader| reader.join().ok());
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}

fn names<const N: usize>(choices: &[(&'static str, &'static str); N]) -> Vec<&'static str> {
    choices.iter().map(|(name, _)| *name).collect()
}

fn cannot(error: &io::Error) -> Failure {
    let text = format!("`overside flow bench` cannot be run: {error}");
    Failure::new(FailureKind::Job, text)
}
