//! The workload file: a pipeline of stages, the rate that enters it, and what things cost.

mod read;

use overside_ops::Operation;
use serde::Serialize;

use crate::Interval;

/// What a workload's `schema` says.
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
    /// What people call it.
    pub name: String,
    /// Bytes a second that enter the first stage.
    pub rate_bytes_per_s: Interval,
    /// Bytes of one buffer on the uncompressed side.
    pub buffer_bytes: u64,
    /// What is done, in order.
    pub stages: Vec<Stage>,
    /// Cores of the host that it may use; as many as it needs if absent.
    pub cores: Option<u32>,
    /// Cards that it may use; as many as it needs if absent.
    pub cards: Option<u32>,
    /// What `send` goes over, in bytes a second.
    pub network_bytes_per_s: Option<Interval>,
    /// What things cost.
    pub prices: Option<Prices>,
    /// Watts that they take while they work.
    pub watts: Watts,
}

/// One stage of a pipeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stage {
    /// What is done.
    pub task: Task,
    /// Compressed bytes / uncompressed bytes; as measured if absent.
    pub ratio: Option<Interval>,
    /// Regular expressions; matching only.
    pub patterns: Vec<String>,
    /// The share of its bytes that goes on to the next stage.
    pub keep: Interval,
    /// What one core does of it in bytes of the uncompressed side a second; as measured if absent.
    pub core_bytes_per_s: Option<Interval>,
}

/// What a stage does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// An operation on bytes.
    Run(Operation),
    /// Sends them over the network.
    Send,
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

/// What things cost, in one currency.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prices {
    /// Its name, as in `EUR`.
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
    /// The first key that is wrong, and what is allowed.
    pub fn parse(file: &str, text: &str) -> Result<Self, overside_config::Error> {
        read::workload(file, text)
    }
}
