//! What can go wrong with a cluster.

use std::fmt;

use crate::directory::DirectoryError;

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The directory cannot be read.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The directory has no cluster.
    #[error("{directory} has no cluster; `overside kv cluster` makes one")]
    NoCluster {
        /// Which.
        directory: String,
    },
    /// No cache is registered.
    #[error("no cache is registered in the directory")]
    Empty,
    /// A cluster of whatever is registered has a server that is no cache.
    #[error("{server} is a store; a cluster of stores needs fixed members")]
    NotCache {
        /// Which.
        server: String,
    },
    /// Servers that could not be reached, or were lost. What belongs to the others was done.
    #[error("{}", list(servers))]
    Unreachable {
        /// Which, and why; in the order of names.
        servers: Vec<ServerFailure>,
    },
    /// A server says no. What belongs to the others was done, as far as they did not refuse.
    #[error("{server} refuses: {message}")]
    Refused {
        /// Which.
        server: String,
        /// What it says, as Redis does: `OOM ...`.
        message: String,
    },
    /// It cannot be done in a cluster of whatever is registered.
    #[error("a cluster of registered caches only reads and writes whole values")]
    Unsupported,
}

/// A server that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFailure {
    /// Its name.
    pub server: String,
    /// Why.
    pub reason: String,
    /// Requests for it that have no answer.
    pub requests: usize,
    /// Whether some of these may have been executed, although there is no answer.
    pub may_be_executed: bool,
}

impl fmt::Display for ServerFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (server, reason) = (&self.server, &self.reason);
        write!(f, "{server} cannot be reached: {reason}")?;
        match self.may_be_executed {
            true => f.write_str(" (what was sent may have been executed)"),
            false => Ok(()),
        }
    }
}

fn list(servers: &[ServerFailure]) -> String {
    let texts: Vec<String> = servers.iter().map(ToString::to_string).collect();
    texts.join("; ")
}
