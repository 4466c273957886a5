//! Errors of the connection between the two engines.

use overside_link::verbs::{ConnectError, ExportError, ImportError, LinkError, PostError};

use overside_kv_store::codec::DecodeError;

/// Reason why the other engine cannot be reached any more.
#[derive(Debug, thiserror::Error)]
pub enum OffloadError {
    /// The link, or a queue pair of it, could not be set up.
    #[error("the link could not be set up: {0}")]
    Connect(#[from] ConnectError),
    /// Memory could not be given to the other side.
    #[error("memory could not be exported: {0}")]
    Export(#[from] ExportError),
    /// The other side's memory could not be reached.
    #[error("the other side's memory could not be imported: {0}")]
    Import(#[from] ImportError),
    /// Memory for sending cannot be allocated.
    #[error("no memory to send from: {0}")]
    Memory(#[from] overside_device::MemoryError),
    /// The link is lost.
    #[error("the link is lost: {0}")]
    Link(#[from] LinkError),
    /// A write or a message was refused, or the link is lost.
    #[error("the link takes no work: {0}")]
    Post(#[from] PostError),
    /// A write or read did not succeed.
    #[error("a transfer failed: {0}")]
    Transfer(#[from] overside_link::verbs::WorkError),
    /// The other side speaks another version, or is no engine.
    #[error("the other side speaks version {theirs}, this one {ours}")]
    Version {
        /// Version that the other side speaks.
        theirs: u16,
        /// This one's.
        ours: u16,
    },
    /// The other side breaks the rules.
    #[error("the other side sent {0}")]
    Violation(&'static str),
    /// A message cannot be read.
    #[error("the other side sent a message that cannot be read: {0}")]
    Decode(#[from] DecodeError),
    /// No answer in time.
    #[error("the other side has not answered in time")]
    Timeout,
}
