//! A load generator on another machine: a host sends its agent requests, one step at a time.
//!
//! ```text
//!   host                              agent
//!   load: the settings           ->
//!                                <-   loaded: records a second
//!   run: the settings            ->
//!                                <-   measured: the point
//! ```
//!
//! [`LoadReply::Failed`] may be the answer to any request. The generator ends when the host disconnects.

use std::time::Duration;

use overside_link::agent::{Host, MAX_PROBE_BYTES, MAX_TEXT_BYTES, Probe, ProbePeer};
use overside_link::codec::{CodecError, Message, clean};
use serde::{Deserialize, Serialize};

use super::report::WINDOWS_MAX;
use super::runner::{load_until, run_until};
use super::{Address, BenchError, Point, Settings};

/// Name of the load generator of an agent in hosts' requests.
pub const KIND: &str = "kv-load";
/// The longest run, and the longest time before it.
const DURATION_MAX: Duration = Duration::from_secs(3600);

/// Message of a host to an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadQuestion {
    /// Write every record once.
    Load(Box<Settings>),
    /// Measure.
    Run(Box<Settings>),
}

/// Answer of an agent to a [`LoadQuestion`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadReply {
    /// Records were written, at this rate per second.
    Loaded(f64),
    /// Result of the run.
    Measured(Box<Point>),
    /// The load or the run has failed.
    Failed {
        /// Error message.
        message: String,
        /// A value was not the one that its key has.
        is_wrong_value: bool,
    },
}

impl Message for LoadQuestion {
    const MAX_BYTES: usize = MAX_PROBE_BYTES;
}

impl Message for LoadReply {
    const MAX_BYTES: usize = MAX_PROBE_BYTES;

    fn check(&mut self) -> Result<(), CodecError> {
        if let Self::Failed { message, .. } = self {
            *message = clean(message, MAX_TEXT_BYTES);
        }
        Ok(())
    }
}

impl Point {
    /// Checks that another machine can have measured this with `settings`.
    ///
    /// # Errors
    /// The contradiction, in words.
    pub fn check(&self, settings: &Settings) -> Result<(), String> {
        let seconds = settings.duration.as_secs_f64() / settings.windows as f64;
        let fits = |window: &super::Window| {
            window.done == window.latencies.count() && (window.seconds - seconds).abs() < 1e-6
        };
        let sum = (self.windows.iter()).try_fold(0u64, |sum, one| sum.checked_add(one.done));
        let times = [self.client_cpu_s, self.client_s];
        match self.windows.len() == settings.windows
            && self.windows.iter().all(fits)
            && sum.is_some_and(|sum| sum <= self.answered)
            && self.by_endpoint.len() == settings.endpoints().count()
            && (self.by_endpoint.iter()).try_fold(0u64, |sum, one| sum.checked_add(*one)) == sum
            && self.hits.checked_add(self.misses).is_some()
            && times.iter().all(|time| (0.0..1e9).contains(time))
        {
            true => Ok(()),
            false => Err("its figures contradict each other or what was asked for".into()),
        }
    }
}

/// Makes load for hosts.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadProbe;

impl Probe for LoadProbe {
    fn kind(&self) -> &str {
        KIND
    }

    fn begin(&self, host: Host) -> Result<Box<dyn ProbePeer>, String> {
        Ok(Box::new(LoadSide { host }))
    }
}

struct LoadSide {
    host: Host,
}

impl ProbePeer for LoadSide {
    fn answer(&mut self, question: &[u8]) -> Vec<u8> {
        let reply = match LoadQuestion::decode(question) {
            Ok(LoadQuestion::Load(settings)) => self.with_memory(&settings, || {
                load_until(&settings, &self.host.cancelled).map(LoadReply::Loaded)
            }),
            Ok(LoadQuestion::Run(settings)) => self.with_memory(&settings, || {
                let point = run_until(&settings, &self.host.cancelled)?;
                Ok(LoadReply::Measured(Box::new(point)))
            }),
            Err(error) => Err(BenchError::Settings(format!("the question: {error}"))),
        };
        reply.unwrap_or_else(LoadReply::from).encode()
    }
}

impl LoadSide {
    fn with_memory(
        &self,
        settings: &Settings,
        work: impl FnOnce() -> Result<LoadReply, BenchError>,
    ) -> Result<LoadReply, BenchError> {
        let refused = |message: String| Err(BenchError::Settings(message));
        settings.check()?;
        if settings.endpoints().any(|address| matches!(address, Address::Unix(_))) {
            return refused("a Unix socket is reached from its own machine only".into());
        }
        if settings.port.is_some() {
            return refused("a port that DPDK drives is used by its own machine only".into());
        }
        if settings.windows > WINDOWS_MAX {
            return refused(format!("an agent takes at most {WINDOWS_MAX} windows"));
        }
        if settings.duration.max(settings.warm_up) > DURATION_MAX {
            return refused("an agent makes load for an hour at most".into());
        }
        match self.host.memory.reserve(settings.memory_bytes()) {
            Ok(_reserved) => work(),
            Err(error) => refused(format!("the agent has no memory for it: {error}")),
        }
    }
}

impl From<BenchError> for LoadReply {
    fn from(error: BenchError) -> Self {
        Self::Failed {
            message: clean(&error.to_string(), MAX_TEXT_BYTES),
            is_wrong_value: matches!(error, BenchError::WrongValue { .. }),
        }
    }
}
