//! Why an agent does not start.

use std::io;
use std::net::SocketAddr;

/// What is in the way.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// There is no device to offer.
    #[error("there is no device to offer")]
    Nothing,
    /// A device that cannot be had.
    #[error("{name} cannot be offered: {reason}")]
    Device {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// An address that cannot be listened at.
    #[error("{address} cannot be listened at: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// The system has no descriptors or threads left.
    #[error("the system has nothing left: {0}")]
    System(io::Error),
}
