//! Errors of opening DPDK devices and ports.

/// Reason why a DPDK device or port cannot be used, with the remedy if one is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DpdkError {
    /// DPDK is not installed, or too old.
    #[error(transparent)]
    Unavailable(#[from] overside_shim::Unavailable),
    /// The environment does not start.
    #[error("DPDK does not start: {0}")]
    Start(String),
    /// The device does not exist.
    #[error("DPDK has no device {name:?}{found}")]
    Unknown {
        /// Requested device name.
        name: String,
        /// Names of the available devices, formatted as the end of the error message.
        found: String,
    },
    /// A device that can do nothing that is known here, or that cannot be set up.
    #[error("{name} cannot be used: {reason}")]
    Unusable {
        /// The device.
        name: String,
        /// Explanation of the failure, used in the error message.
        reason: String,
    },
}
