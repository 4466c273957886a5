//! Errors because of which a run has no result.

use std::io;

/// Reason why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// No connection, or it ended.
    #[error("{address}: {source}")]
    Connection {
        /// Address of the server.
        address: String,
        /// Underlying I/O error.
        source: io::Error,
    },
    /// The server's answer is not in the protocol, or not to this request.
    #[error("{address} answered {answer}")]
    Answer {
        /// Address of the server.
        address: String,
        /// The beginning of the answer.
        answer: String,
    },
    /// A value is not the one that its key has.
    #[error("{address} answered with another value than was stored for key {key}")]
    WrongValue {
        /// Address of the server.
        address: String,
        /// The key.
        key: String,
    },
    /// No answer for a long time.
    #[error("{address} has not answered for {seconds} s")]
    Stalled {
        /// Address of the server.
        address: String,
        /// Time without an answer.
        seconds: u64,
    },
    /// Settings that contradict each other.
    #[error("{0}")]
    Settings(String),
    /// The caller no longer waits for the result.
    #[error("nobody waits for the result any more")]
    Cancelled,
    /// A load generator on another machine failed, for this reason.
    #[error("{node}: {message}")]
    Remote {
        /// Agent of the load generator.
        node: String,
        /// Error message of the agent.
        message: String,
        /// A value was not the one that its key has.
        is_wrong_value: bool,
    },
    /// The system refuses something.
    #[error("{what}: {source}")]
    System {
        /// Operation that was tried.
        what: &'static str,
        /// Underlying I/O error.
        source: io::Error,
    },
}
