//! Errors of a cluster's client.

use std::fmt;

use crate::directory::DirectoryError;

/// Reason why an operation was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The directory cannot be read.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The directory has no cluster.
    #[error("{directory} has no cluster; `overside kv cluster` makes one")]
    NoCluster {
        /// Location of the directory.
        directory: String,
    },
    /// No cache is registered.
    #[error("no cache is registered in the directory")]
    Empty,
    /// A cluster of all registered caches has a server that is not a cache.
    #[error("{server} is a store; a cluster of stores needs fixed members")]
    NotCache {
        /// Name of the server.
        server: String,
    },
    /// Some servers could not be reached, or were lost. Requests to the others were executed.
    #[error("{}", list(servers))]
    Unreachable {
        /// Servers that failed, with the reasons; in the order of names.
        servers: Vec<ServerFailure>,
    },
    /// A server refuses. Requests to the others were done, as far as they did not refuse.
    #[error("{server} refuses: {message}")]
    Refused {
        /// Name of the server.
        server: String,
        /// Error message of the server, in the form of Redis: `OOM ...`.
        message: String,
    },
    /// The request is not possible in a cluster of registered caches.
    #[error("a cluster of registered caches only reads and writes whole values")]
    Unsupported,
    /// A signal has ended it, as [`ClusterOptions::goes_on`](super::ClusterOptions::goes_on) wanted. Requests that were
    /// sent may have been executed.
    #[error("interrupted")]
    Interrupted,
}

/// A server that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFailure {
    /// Name of the server.
    pub server: String,
    /// Description of the failure.
    pub reason: String,
    /// Requests for it that have no answer.
    pub requests: usize,
    /// `true` if some of these requests may have been executed, although there is no answer.
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
