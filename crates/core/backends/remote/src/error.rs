//! Errors of using an agent's devices and tests.

use overside_link::agent::Violation;
use overside_link::agent::keys::KeysError;

/// The release that this is.
pub(crate) const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Reason why an agent's device cannot be used.
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
        /// Address of the agent, host and port.
        address: String,
    },
    /// Keys that cannot be used.
    #[error("the keys of agent {node}: {error}")]
    Keys {
        /// The agent.
        node: String,
        /// Error in the key files.
        error: KeysError,
    },
    /// No program listens at the address.
    #[error("agent {node} at {address} cannot be reached: {reason}")]
    Unreachable {
        /// The agent.
        node: String,
        /// Address of the agent, host and port.
        address: String,
        /// Explanation of the failure, used in the error message.
        reason: String,
    },
    /// The agent takes no client now.
    #[error("agent {node} at {address} takes nobody now: {reason}")]
    Busy {
        /// The agent.
        node: String,
        /// Address of the agent, host and port.
        address: String,
        /// Reason that the agent gave.
        reason: String,
    },
    /// The peer is no agent, or one that this release cannot talk to.
    #[error("{address} is not an agent as {node} should be: {violation}")]
    Stranger {
        /// The agent.
        node: String,
        /// Address of the agent, host and port.
        address: String,
        /// Protocol violation that the peer committed.
        violation: Violation,
    },
    /// The agent has no such device.
    #[error("agent {node} does not offer {device:?}; it offers {}", offered.join(", "))]
    NotOffered {
        /// The agent.
        node: String,
        /// Requested device name.
        device: String,
        /// Names of the devices that the agent offers.
        offered: Vec<String>,
    },
}

/// Reason why an agent does not play one end of a test, or no longer does.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The agent does not exist, or the inventory is unknown.
    #[error("{0}")]
    Unknown(String),
    /// The agent cannot be reached.
    #[error(transparent)]
    Agent(#[from] RemoteError),
    /// The agent is of another release.
    #[error(
        "agent {node} is of release {theirs}, and this is {}: tests on a node need the same release \
         on both sides",
        RELEASE
    )]
    Release {
        /// The agent.
        node: String,
        /// Release that the agent reports.
        theirs: String,
    },
    /// The agent refuses this test.
    #[error("agent {node} plays no part in this test: {reason}")]
    Refused {
        /// The agent.
        node: String,
        /// Explanation of the failure, used in the error message.
        reason: String,
    },
    /// The agent is lost in the middle of the test.
    #[error("agent {node} is lost: {reason}")]
    Lost {
        /// The agent.
        node: String,
        /// Explanation of the failure, used in the error message.
        reason: String,
    },
    /// The agent has not answered a request in time.
    #[error("agent {node} had not answered when the time was over")]
    Late {
        /// The agent.
        node: String,
    },
}
