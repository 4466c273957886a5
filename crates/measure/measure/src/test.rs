//! One test: its subject, device and method.

use std::path::PathBuf;
use std::time::Duration;

use overside_device::{Operation, Timing};
use overside_placement::Policy;
pub use overside_probe::closed_loop::CompletionMode;
use overside_probe::{OutOfRange, cores_within, within};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest buffer in bytes.
pub const BUFFER_SIZE_MAX: u64 = 1 << 30;
/// Maximum number of jobs in flight, and the most jobs at one doorbell.
pub const DEPTH_MAX: usize = 4096;
/// Maximum number of threads, and the highest core number.
pub const THREADS_MAX: usize = 1024;
/// Maximum number of patterns of one test.
pub const PATTERNS_MAX: usize = 1000;
/// The longest pattern in bytes.
pub const PATTERN_BYTES_MAX: usize = 1000;
/// Maximum number of files of one data set.
pub const FILES_MAX: usize = 100_000;
/// Maximum number of bytes that one test takes from its data set.
pub const SAMPLE_BYTES_MAX: u64 = 4 << 30;

/// A point of a box's product, with everything that the worker needs to measure it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// The device by name, as in `cpu` or `emulated:bf2`. The devices that share the stream of a
    /// placement stand behind each other: `dpu0/cpu+dpu0/dpdk:mlx5_0`.
    pub device: String,
    /// Timing of an emulated device's completions; `virtual` if absent. Devices with a clock of
    /// their own ignore it.
    pub timing: Option<Timing>,
    /// The operation by name, as in `compress-deflate`.
    pub operation: Operation,
    /// The library by name, or `auto`.
    #[serde(default = "auto")]
    pub variant: String,
    /// The compression level; the library's default if absent.
    pub level: Option<u32>,
    /// Patterns to search for; matching only.
    #[serde(default)]
    pub patterns: Vec<String>,
    /// Bytes of one buffer on the uncompressed side.
    pub buffer_size: u64,
    /// Jobs in flight.
    #[serde(default = "one")]
    pub depth: usize,
    /// Jobs at one doorbell.
    #[serde(default = "one")]
    pub batch: usize,
    /// Threads of a device that is made of threads.
    #[serde(default = "one")]
    pub threads: usize,
    /// The cores that its threads are pinned to; not pinned if absent.
    pub cores: Option<Vec<usize>>,
    /// Policy that assigns the chunks of a stream to targets. If it is absent, the device works
    /// alone, on separate jobs. With it, `device`, `variant` and `depth` are those of the device's
    /// target, and the CPU's target has `cpu_variant`, `threads` and `cores`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        serialize_with = "placement_text",
        deserialize_with = "placement"
    )]
    pub placement: Option<Policy>,
    /// The library of the CPU's target; for placements.
    #[serde(default = "auto")]
    pub cpu_variant: String,
    /// Bytes of a job's output buffer at first. A job whose result does not fit is run again with
    /// twice as many, up to a length that every result fits into. Absent: that much at once.
    /// Without effect on placements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_size: Option<u64>,
    /// Lengths of the buffers: all the same, or varying.
    #[serde(default)]
    pub sizes: Sizes,
    /// Content of a placement's stream: all buffers, or one file.
    #[serde(default)]
    pub input: Input,
    /// Reuse of contexts: set up once, or again for each job or stream.
    #[serde(default)]
    pub setting: Setting,
    /// Method of waiting for completions: by events or by polling.
    #[serde(default)]
    pub completion: CompletionMode,
    /// Data set from which the buffers are taken.
    pub data: Data,
    /// Seconds of the same work before the clock starts.
    pub warmup_s: f64,
    /// Seconds during which jobs are submitted under the clock.
    pub sample_s: f64,
    /// Seconds after which the sample has failed, preparation included.
    pub timeout_s: f64,
    /// Orders the buffers.
    #[serde(default)]
    pub seed: u64,
}

impl Test {
    /// The names of the devices that take part.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.device.split('+')
    }

    /// Returns `true` if an input is cut to the lengths that the devices accept. Otherwise buffers
    /// that are too long are refused.
    pub(crate) fn is_cut(&self) -> bool {
        self.input == Input::Files || self.sizes == Sizes::Own
    }
}

/// Reuse of contexts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Setting {
    /// Set up once, used for all jobs.
    #[default]
    Static,
    /// Torn down and set up again before each job, one job at a time, as if each brought another
    /// buffer size; with a placement, before each stream. If lengths vary, only before a buffer of
    /// another length than the last. This time counts.
    Reconfiguration,
}

/// The lengths of buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sizes {
    /// All buffers have `buffer_size` bytes.
    #[default]
    Fixed,
    /// Lengths from a sixteenth of `buffer_size` to all of it, all octaves equally likely.
    Mixed,
    /// Lengths of the data's own pieces: row groups of a Parquet file, record batches of an Arrow
    /// file, other files as a whole. Longer pieces are cut at `buffer_size`, or at the length that
    /// the devices accept.
    Own,
    /// Lengths that the adaptive placement finds fastest, beginning with `buffer_size`: powers of
    /// two. For streams of buffers in the static setting, and only if the sources have these
    /// lengths and not the results.
    Adaptive,
}

impl Sizes {
    /// Returns `true` if buffers differ in length, apart from the rest of a file.
    pub(crate) fn vary(self) -> bool {
        matches!(self, Self::Mixed | Self::Own)
    }
}

/// Content of a placement's stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Input {
    /// All buffers.
    #[default]
    Buffers,
    /// A file, cut into buffers of at most `buffer_size` and the limit of all devices. The next
    /// begins when all of it is done.
    Files,
}

/// Source of a test's buffers: the files in this order, as one stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// The data set's name.
    pub name: String,
    /// Paths of the data set's files.
    pub files: Vec<PathBuf>,
    /// Number of bytes taken from the data set, in buffers evenly spaced over the stream. If files
    /// are inputs, most bytes taken from each file.
    pub sample_bytes: u64,
}

/// Reason why a text is not a test.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TestError {
    /// The text is not JSON, or a key is unknown, missing or of another type.
    #[error("this is not a test: {0}")]
    Json(String),
    /// A value out of its bounds.
    #[error(transparent)]
    Bound(#[from] OutOfRange),
}

impl TestError {
    /// The key `field` has a value that it cannot have.
    pub(crate) fn bound(
        field: &'static str,
        value: impl std::fmt::Display,
        allowed: impl Into<String>,
    ) -> Self {
        OutOfRange::new(field, value, allowed).into()
    }
}

impl Test {
    /// Reads a test and checks its bounds.
    ///
    /// # Errors
    /// [`TestError`].
    pub fn parse(json: &str) -> Result<Self, TestError> {
        let test: Self =
            serde_json::from_str(json).map_err(|error| TestError::Json(error.to_string()))?;
        test.check()?;
        Ok(test)
    }

    /// Checks that every number lies within its bounds.
    ///
    /// # Errors
    /// [`OutOfRange`] for the first that does not.
    pub fn check(&self) -> Result<(), OutOfRange> {
        within("buffer_size", self.buffer_size, 1, BUFFER_SIZE_MAX)?;
        if let Some(bytes) = self.output_size {
            within("output_size", bytes, 1, BUFFER_SIZE_MAX)?;
        }
        within("depth", self.depth, 1, DEPTH_MAX)?;
        within("batch", self.batch, 1, DEPTH_MAX)?;
        within("threads", self.threads, 1, THREADS_MAX)?;
        cores_within(self.cores.as_deref())?;
        within("the number of patterns", self.patterns.len(), 0, PATTERNS_MAX)?;
        let longest = self.patterns.iter().map(String::len).max().unwrap_or(0);
        within("the longest pattern", longest, 0, PATTERN_BYTES_MAX)?;
        if self.input == Input::Files && self.placement.is_none() {
            return Err(OutOfRange::new("input", "files", "buffers without a placement"));
        }
        let is_sized = self.placement == Some(Policy::Adaptive)
            && (self.setting, self.input) == (Setting::Static, Input::Buffers)
            && self.operation.made_by().is_none();
        if self.sizes == Sizes::Adaptive && !is_sized {
            return Err(OutOfRange::new(
                "sizes",
                "adaptive",
                "fixed, mixed or own: adaptive ones are of an adaptive placement of buffers in the static \
                 setting, and not of decompression",
            ));
        }
        within("the number of files", self.data.files.len(), 1, FILES_MAX)?;
        within("sample_bytes", self.data.sample_bytes, 1, SAMPLE_BYTES_MAX)?;
        times_within(self.warmup_s, self.sample_s, self.timeout_s)
    }

    /// `warmup_s` as a duration.
    pub(crate) fn warmup(&self) -> Duration {
        Duration::from_secs_f64(self.warmup_s)
    }

    /// `sample_s` as a duration.
    pub(crate) fn sample(&self) -> Duration {
        Duration::from_secs_f64(self.sample_s)
    }
}

/// The bounds of times, for tests of all kinds.
pub(crate) fn times_within(warmup_s: f64, sample_s: f64, timeout_s: f64) -> Result<(), OutOfRange> {
    within("warmup_s", warmup_s, 0.0, 3600.0)?;
    within("sample_s", sample_s, 1e-6, 3600.0)?;
    within("timeout_s", timeout_s, 1e-3, 86400.0)
}

fn placement<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Policy>, D::Error> {
    let text = Option::<String>::deserialize(input)?;
    text.map(|text| text.parse().map_err(serde::de::Error::custom)).transpose()
}

fn placement_text<S: Serializer>(placement: &Option<Policy>, out: S) -> Result<S::Ok, S::Error> {
    placement.map(|policy| policy.to_string()).serialize(out)
}

pub(crate) fn auto() -> String {
    "auto".into()
}

pub(crate) fn one() -> usize {
    1
}
