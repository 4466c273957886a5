//! Errors that devices and contexts return.

use overside_ops::Operation;

/// Memory that a device cannot give or reach.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// A resource is exhausted.
    #[error("no memory for {len} bytes")]
    Exhausted {
        /// Number of bytes requested.
        len: usize,
    },
    /// The alignment is not a power of two.
    #[error("{0} is not an alignment")]
    Alignment(usize),
    /// The memory is a device's, and the CPU cannot address it.
    #[error("only the device can address this memory; it is read and written through the device")]
    NotAddressable,
    /// The range is outside of the region.
    #[error("{len} bytes at {offset} are beyond the end of a region of {region} bytes")]
    OutOfBounds {
        /// Offset of the access in the region, in bytes.
        offset: usize,
        /// Length of the access in bytes.
        len: usize,
        /// The region's length.
        region: usize,
    },
    /// The device cannot reach this memory.
    #[error("{device} cannot reach this memory: {reason}")]
    Unreachable {
        /// The device.
        device: String,
        /// Cause of the failure, for the user.
        reason: String,
    },
}

/// A context that cannot be opened or reconfigured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The device does not do this operation.
    #[error("{device} cannot {operation}")]
    Unsupported {
        /// The device.
        device: String,
        /// Requested operation.
        operation: Operation,
    },
    /// More than the device's limit.
    #[error("{device} takes {what} up to {limit}, not {asked}")]
    Limit {
        /// The device.
        device: String,
        /// Depth, source bytes or destination bytes.
        what: &'static str,
        /// The most it takes.
        limit: u64,
        /// Requested value.
        asked: u64,
    },
    /// The operation cannot be prepared like this.
    #[error(transparent)]
    Operation(#[from] overside_ops::Error),
    /// Jobs are in flight; poll for them or close first.
    #[error("{0} jobs are in flight")]
    InFlight(usize),
    /// The device or the system failed.
    #[error("{device} cannot be opened: {reason}")]
    Failed {
        /// The device.
        device: String,
        /// Cause of the failure, for the user.
        reason: String,
    },
}

/// Reason why a context does not take a job. The job stays at the front of the queue in which it
/// was offered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The source is longer than the context takes; it is never split silently.
    #[error("a source of {len} bytes is longer than {max}")]
    SourceTooLong {
        /// Length of the buffer in bytes.
        len: u64,
        /// The longest in bytes.
        max: u64,
    },
    /// The destination is longer than the context takes.
    #[error("a destination of {len} bytes is longer than {max}")]
    DestinationTooLong {
        /// Length of the buffer in bytes.
        len: u64,
        /// The longest in bytes.
        max: u64,
    },
    /// The source has more segments than the device takes.
    #[error("a source of {segments} segments is more than {max}")]
    TooManySegments {
        /// Number of segments of the job's source.
        segments: usize,
        /// The most.
        max: usize,
    },
    /// The device takes only memory that is registered with it; or the memory can only be addressed
    /// by another device.
    #[error("the memory is not registered with this device")]
    Unregistered,
}

/// Error of a `submit` that took nothing because the first job cannot be run, or because the device is lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// The first job is not allowed in this context.
    #[error("job {tag} is refused: {refusal}")]
    Refused {
        /// Tag of the refused job.
        tag: u64,
        /// Reason why the job is refused.
        refusal: Refusal,
    },
    /// The device is lost.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// Error of a lost device: unplugged, its agent disconnected, its threads dead. Jobs in flight will not
/// complete; their destinations are quarantined for the life of the process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{device} is lost: {reason}")]
pub struct Lost {
    /// The device.
    pub device: String,
    /// Cause of the loss, for the user.
    pub reason: String,
    /// The jobs that were in flight.
    pub tags: Vec<u64>,
}
