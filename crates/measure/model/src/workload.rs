//! The workload file: a pipeline of stages, the rate that enters it, and prices.

mod read;

use overside_ops::Operation;
use serde::Serialize;

use crate::Interval;

/// Required `schema` of a workload.
pub const WORKLOAD_SCHEMA: &str = "workload/1";

/// A pipeline of stages at a rate.
///
/// ```
/// let workload = overside_model::Workload::parse("pages.toml", r#"
///     schema = "workload/1"
///     name = "pages"
///     rate = "40 Gb/s"
///     [[stages]]
///     do = "decompress-lz4-block"
///     ratio = 0.5
///     [[stages]]
///     do = "match-bitmap"
///     like = "%green%"
///     keep = 0.02
///     [[stages]]
///     do = "send"
/// "#)?;
/// assert_eq!(workload.stages.len(), 3);
/// # Ok::<(), overside_config::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Workload {
    /// Name of the workload, as reports show it.
    pub name: String,
    /// Bytes a second that enter the first stage.
    pub rate_bytes_per_s: Interval,
    /// Bytes of one buffer on the uncompressed side.
    pub buffer_bytes: u64,
    /// Stages, in the order in which data passes through them.
    pub stages: Vec<Stage>,
    /// Cores of the host that it may use; the host's threads if absent, without a limit if those are unknown.
    pub cores: Option<u32>,
    /// Cards that it may use; as many as it needs if absent.
    pub cards: Option<u32>,
    /// Rate of the network that `send` uses, in bytes a second; no limit if absent.
    pub network_bytes_per_s: Option<Interval>,
    /// Prices of cards, cores and energy; without them plans are compared by the host's cores.
    pub prices: Option<Prices>,
    /// Watts that they take while they work.
    pub watts: Watts,
}

/// One stage of a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stage {
    /// Task of the stage: an operation on bytes, or sending them.
    pub task: Task,
    /// Compressed bytes / uncompressed bytes; as measured if absent.
    pub ratio: Option<Interval>,
    /// Level of compression on the CPU; that of the measurement if absent. An engine has one.
    pub level: Option<u32>,
    /// Regular expressions; matching only.
    pub patterns: Vec<String>,
    /// Fraction of its bytes that continues to the next stage.
    pub keep: Interval,
    /// Rate of one core at this task, in bytes of the uncompressed side a second; as measured if
    /// absent.
    pub core_bytes_per_s: Option<Interval>,
}

/// Task of a stage: an operation, or sending over the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// An operation on bytes.
    Run(Operation),
    /// Sends them over the network.
    Send,
}

impl Task {
    /// Returns the operation on the bytes; `None` if they are sent.
    pub(crate) fn operation(self) -> Option<Operation> {
        match self {
            Self::Run(operation) => Some(operation),
            Self::Send => None,
        }
    }
}

impl std::fmt::Display for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Run(operation) => operation.fmt(f),
            Self::Send => f.write_str("send"),
        }
    }
}

impl Serialize for Task {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Prices, all in one currency.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prices {
    /// Name of the currency, such as `EUR`.
    pub currency: String,
    /// One card.
    pub card: Option<Interval>,
    /// Years over which a card is written off.
    pub years: f64,
    /// One core of the host for an hour.
    pub core_hour: Option<Interval>,
    /// A kilowatt-hour.
    pub energy_kwh: Option<Interval>,
}

/// Watts while they work.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Watts {
    /// One card.
    pub card: Option<Interval>,
    /// One core of the host.
    pub core: Option<Interval>,
}

impl Workload {
    /// Reads and checks a workload; `file` is for messages.
    ///
    /// # Errors
    /// The first key that is wrong, and the allowed values.
    pub fn parse(file: &str, text: &str) -> Result<Self, overside_config::Error> {
        read::workload(file, text)
    }
}
