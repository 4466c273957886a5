//! What is measured, and how.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::{BenchError, ProtocolKind, Records, Workload};

/// Where the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// At a TCP port.
    Tcp(SocketAddr),
    /// At a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadMode {
    /// A connection sends `pipeline` requests, waits for their answers, and sends the next.
    Closed,
    /// So many requests a second arrive at random (Poisson), on all connections together, whatever
    /// the server does. At most `pipeline` are outstanding on a connection; more wait here.
    Open {
        /// Requests a second.
        rate: f64,
    },
}

/// A run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the server is.
    pub address: Address,
    /// What it speaks.
    pub protocol: ProtocolKind,
    /// Sent before anything else.
    pub password: Option<Vec<u8>>,
    /// What is asked.
    pub workload: Workload,
    /// Of which records.
    pub records: Records,
    /// Connections of all threads together.
    pub connections: usize,
    /// Threads that drive them.
    pub threads: usize,
    /// The first thread's core, the next has the next; `None`: where the system likes.
    pub core: Option<usize>,
    /// Requests in flight on a connection.
    pub pipeline: usize,
    /// When they are sent.
    pub mode: LoadMode,
    /// Before anything counts.
    pub warm_up: Duration,
    /// What counts, in `windows` of equal length.
    pub duration: Duration,
    /// Parts of the run.
    pub windows: usize,
    /// Of the random choices.
    pub seed: u64,
    /// Threads spin instead of sleeping.
    pub busy_poll: bool,
}

/// Most connections of a run.
const CONNECTIONS_MAX: usize = 20_000;
const THREADS_MAX: usize = 256;
const PIPELINE_MAX: usize = 4096;
const WINDOWS_MAX: usize = 1000;

impl Settings {
    /// Finds what cannot be.
    ///
    /// # Errors
    /// [`BenchError::Settings`].
    pub fn check(&self) -> Result<(), BenchError> {
        let within = |what: &str, is: usize, max: usize| match (1..=max).contains(&is) {
            true => Ok(()),
            false => Err(format!("{what} must be from 1 to {max}, not {is}")),
        };
        let all = || {
            within("connections", self.connections, CONNECTIONS_MAX)?;
            within("threads", self.threads, THREADS_MAX)?;
            within("pipeline", self.pipeline, PIPELINE_MAX)?;
            within("windows", self.windows, WINDOWS_MAX)?;
            if self.threads > self.connections {
                return Err("each thread needs a connection".into());
            }
            if let LoadMode::Open { rate } = self.mode
                && !(rate.is_finite() && rate >= 1.0)
            {
                return Err("the rate must be 1 request a second or more".into());
            }
            if self.password.is_some() && self.protocol != ProtocolKind::Resp {
                return Err("memcached's protocol has no password".into());
            }
            self.records.check()?;
            self.workload.check(self.protocol)
        };
        all().map_err(BenchError::Settings)
    }
}
