//! Why a DPDK device cannot be had.

/// What is in the way, with what mends it where something can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DpdkError {
    /// This build has no shim.
    #[error(
        "this build is without DPDK; install it (Debian: apt-get install libdpdk-dev \
         librte-meta-compress librte-meta-dma) and install Overside again"
    )]
    NotBuilt,
    /// The shim is there, DPDK is not.
    #[error(
        "DPDK cannot be loaded: {0}; install the version that Overside was built with (Debian: \
         apt-get install libdpdk-dev librte-meta-compress librte-meta-dma), or install Overside \
         again"
    )]
    Load(String),
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
