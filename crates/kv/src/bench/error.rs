//! Why a run has no result.

use std::io;

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// No connection, or it ended.
    #[error("{address}: {source}")]
    Connection {
        /// Of the server.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The server answered what the protocol does not have, or not this request.
    #[error("{address} answered {answer}")]
    Answer {
        /// Of the server.
        address: String,
        /// The beginning of the answer.
        answer: String,
    },
    /// A value is not the one that its key has.
    #[error("{address} answered with another value than was stored for key {key}")]
    WrongValue {
        /// Of the server.
        address: String,
        /// The key.
        key: String,
    },
    /// Nothing was answered for a long time.
    #[error("{address} has not answered for {seconds} s")]
    Stalled {
        /// Of the server.
        address: String,
        /// How long.
        seconds: u64,
    },
    /// Settings that contradict each other.
    #[error("{0}")]
    Settings(String),
    /// Nobody waits for the result any more.
    #[error("nobody waits for the result any more")]
    Cancelled,
    /// A load generator on another machine says why it has no result.
    #[error("{node}: {message}")]
    Remote {
        /// Its agent.
        node: String,
        /// What it says.
        message: String,
        /// A value was not the one that its key has.
        is_wrong_value: bool,
    },
    /// The system refuses something.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}
