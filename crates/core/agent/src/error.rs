//! Errors that keep an agent from starting.

use std::io;
use std::net::SocketAddr;

/// Error of [`crate::Agent::start`]: no device, an unusable device or address, or a lack of system
/// resources.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// No device can be offered.
    #[error("there is no device to offer")]
    Nothing,
    /// A device cannot be opened.
    #[error("{name} cannot be offered: {reason}")]
    Device {
        /// Name of the device, as given to [`crate::Agent::start`].
        name: String,
        /// Message of the error that opening the device returned.
        reason: String,
    },
    /// An address that cannot be listened at.
    #[error("{address} cannot be listened at: {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error that the operating system returned.
        error: io::Error,
    },
    /// The system has no descriptors or threads left.
    #[error("the system has nothing left: {0}")]
    System(io::Error),
}
