//! Why an agent's device cannot be had.

use overside_link::agent::Violation;
use overside_link::agent::keys::KeysError;

/// What is in the way.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// An agent on another machine, without keys.
    #[error(
        "agent {node} is at {address}, which is not this machine, and has no keys: make some with \
         `overside agent keys DIR` and name them with `overside agents add {node} {address} --keys \
         DIR`"
    )]
    Insecure {
        /// The agent.
        node: String,
        /// Its address.
        address: String,
    },
    /// Keys that cannot be used.
    #[error("the keys of agent {node}: {error}")]
    Keys {
        /// The agent.
        node: String,
        /// What is wrong with them.
        error: KeysError,
    },
    /// There is nobody.
    #[error("agent {node} at {address} cannot be reached: {reason}")]
    Unreachable {
        /// The agent.
        node: String,
        /// Its address.
        address: String,
        /// Why.
        reason: String,
    },
    /// It does not take anybody now.
    #[error("agent {node} at {address} takes nobody now: {reason}")]
    Busy {
        /// The agent.
        node: String,
        /// Its address.
        address: String,
        /// What it says.
        reason: String,
    },
    /// It is no agent, or one that this release cannot talk to.
    #[error("{address} is not an agent as {node} should be: {violation}")]
    Stranger {
        /// The agent.
        node: String,
        /// Its address.
        address: String,
        /// What it did.
        violation: Violation,
    },
    /// It has no such device.
    #[error("agent {node} does not offer {device:?}; it offers {}", offered.join(", "))]
    NotOffered {
        /// The agent.
        node: String,
        /// What was asked for.
        device: String,
        /// What there is.
        offered: Vec<String>,
    },
}

/// Why an agent does not play one end of a test, or no longer does.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// There is no such agent, or it is not known which there are.
    #[error("{0}")]
    Unknown(String),
    /// It cannot be reached.
    #[error(transparent)]
    Agent(#[from] RemoteError),
    /// It is of another release.
    #[error(
        "agent {node} is of release {theirs}, and this is {}: tests on a node need the same release \
         on both sides",
        crate::probe::RELEASE
    )]
    Release {
        /// The agent.
        node: String,
        /// What it says that it is.
        theirs: String,
    },
    /// It is there and does not do it.
    #[error("agent {node} plays no part in this test: {reason}")]
    Refused {
        /// The agent.
        node: String,
        /// Why.
        reason: String,
    },
    /// It is gone in the middle of the test.
    #[error("agent {node} is lost: {reason}")]
    Lost {
        /// The agent.
        node: String,
        /// Why.
        reason: String,
    },
    /// It was asked something and has not answered in time.
    #[error("agent {node} had not answered when the time was over")]
    Late {
        /// The agent.
        node: String,
    },
}
