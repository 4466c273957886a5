//! Why a DPDK device cannot be had.

/// What is in the way, with what mends it where something can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DpdkError {
    /// DPDK is not there.
    #[error(transparent)]
    Unavailable(#[from] overside_shim::Unavailable),
    /// The environment does not start.
    #[error("DPDK does not start: {0}")]
    Start(String),
    /// There is no such device.
    #[error("DPDK has no device {name:?}{found}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Those there are, as the end of the sentence.
        found: String,
    },
    /// A device that can do nothing that is known here, or that cannot be set up.
    #[error("{name} cannot be used: {reason}")]
    Unusable {
        /// The device.
        name: String,
        /// Why.
        reason: String,
    },
}
