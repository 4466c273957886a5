//! Errors of links.

use super::memory::Token;

/// A value of a [`LinkConfig`](super::LinkConfig) that lies outside its limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value}, but must be from {least} to {most}")]
pub struct ConfigError {
    /// The value's name.
    pub key: &'static str,
    /// Value that was given.
    pub value: u64,
    /// The least that it may be.
    pub least: u64,
    /// The most that it may be.
    pub most: u64,
}

/// A link that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The configuration of this end exceeds the limits of any link.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The peer speaks another version of the protocol.
    #[error(
        "the peer at {peer} speaks version {theirs} of the link protocol, not {ours}; install the same Overside on both ends"
    )]
    Version {
        /// The peer.
        peer: String,
        /// Version that the peer speaks.
        theirs: u32,
        /// This end's.
        ours: u32,
    },
    /// The peer sent a message that is not in the protocol, or is beyond its limits.
    #[error("the peer at {peer} is not one for a link: {reason}")]
    Protocol {
        /// The peer.
        peer: String,
        /// Description of the peer's violation.
        reason: String,
    },
    /// The time was over first.
    #[error("{peer} did not answer in time")]
    Timeout {
        /// The peer.
        peer: String,
    },
    /// The transport is not available.
    #[error("{transport} cannot be used: {reason}")]
    Unavailable {
        /// The transport.
        transport: &'static str,
        /// Reason why the transport cannot be used, with the remedy.
        reason: String,
    },
    /// No queue pair is left under this number.
    #[error(
        "there is no queue pair {index} to open: the link has {count}, and each is handed out once"
    )]
    QueuePair {
        /// Requested index.
        index: usize,
        /// Number of queue pairs that the link has.
        count: usize,
    },
    /// The system failed.
    #[error("{doing}: {source}")]
    System {
        /// Action that failed, with its object.
        doing: String,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

/// Memory that cannot be exported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// Empty, or longer than the link takes.
    #[error("regions of 1 to {max} bytes can be exported, not {len}")]
    Length {
        /// Requested length in bytes.
        len: usize,
        /// The most.
        max: u64,
    },
    /// Too many are exported.
    #[error("{max} regions are exported, which is the most; drop one first")]
    TooMany {
        /// The most.
        max: usize,
    },
    /// The system or the transport has no memory, or does not let it be shared.
    #[error("{len} bytes cannot be exported: {reason}")]
    Failed {
        /// Requested length in bytes.
        len: usize,
        /// Reason that the system or the transport gave.
        reason: String,
    },
    /// The link is lost.
    #[error(transparent)]
    Lost(#[from] LinkError),
}

/// Reason why a token cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// Longer than a token is, or not one of this transport.
    #[error("{len} bytes are no token of this link")]
    Malformed {
        /// Number of bytes that were given as a token.
        len: usize,
    },
    /// The peer has not exported it, or has withdrawn it.
    #[error("the peer exports nothing under this token")]
    Unknown,
    /// More memory than this end is willing to import.
    #[error("importing {len} bytes more would exceed max_import_bytes, {max}")]
    TooMuch {
        /// The region's length in bytes.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// The region that the peer offers does not match its token, or is not safe to use.
    #[error("the peer's region is refused: {0}")]
    Refused(String),
    /// The system failed.
    #[error("the peer's region cannot be imported: {0}")]
    Failed(String),
    /// The link is lost.
    #[error(transparent)]
    Lost(#[from] LinkError),
}

impl ImportError {
    /// These bytes are no token.
    pub fn malformed(token: &Token) -> Self {
        Self::Malformed { len: token.as_bytes().len() }
    }
}

/// Reason why a piece of work is refused. The work stays at the front of the queue that it was
/// offered in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The transport does not support an operation.
    #[error("this link cannot {0}")]
    Unsupported(&'static str),
    /// Longer than the link takes; it is never split silently.
    #[error("{len} bytes are more than {max}, the most for one {verb}")]
    TooLong {
        /// The verb.
        verb: &'static str,
        /// Length of the work in bytes.
        len: u64,
        /// The longest in bytes.
        max: u64,
    },
    /// No byte at all.
    #[error("a {0} of 0 bytes moves nothing")]
    Empty(&'static str),
    /// The local and the remote range differ in length.
    #[error("{local} bytes here and {remote} there: the lengths must be equal")]
    Lengths {
        /// Length of the local range in bytes.
        local: u64,
        /// Length of the remote range in bytes.
        remote: u64,
    },
    /// Longer than may be posted inline.
    #[error("{len} bytes cannot be posted inline, {max} can")]
    NotInline {
        /// Length of the work in bytes.
        len: u64,
        /// The longest in bytes.
        max: u64,
    },
    /// The remote region was exported for something else.
    #[error("the peer's region may not be {0}")]
    Access(&'static str),
    /// The remote region was imported by another endpoint.
    #[error("the remote region belongs to another link")]
    OtherLink,
    /// The transport takes registered memory only, and this is not, or is another's.
    #[error("the memory is not registered with this link")]
    Unregistered,
}

/// Error of a `post` or `send` that took nothing because the first piece of work is impossible, or because
/// the link is lost.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The first piece of work is not allowed on this queue pair.
    #[error("work {tag} is refused: {refusal}")]
    Refused {
        /// Tag of the work; 0 for messages.
        tag: u64,
        /// Reason why the work is refused.
        refusal: Refusal,
    },
    /// The link is lost.
    #[error(transparent)]
    Lost(#[from] LinkError),
}

/// Reason why a piece of work failed while the link still works. The contents of its destination
/// are unspecified.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// A message was longer than the memory that waited for it. The message is lost.
    #[error("a message of {len} bytes does not fit into {capacity}")]
    Truncated {
        /// The message's length in bytes.
        len: u64,
        /// The destination's.
        capacity: u64,
    },
    /// The peer refused it: withdrawn memory, or a range outside of it.
    #[error("the peer refused it: {0}")]
    RefusedByPeer(String),
    /// The transport failed at this piece of work and continues with others.
    #[error("it failed: {0}")]
    Failed(String),
}

/// Cause of a [`LinkError`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkErrorKind {
    /// The peer closed the queue pair; everything that it had sent before has been received.
    #[error("the peer closed it")]
    Closed,
    /// The peer's process, its machine or the connection is lost.
    #[error("the peer is gone: {0}")]
    Gone(String),
    /// The peer broke the rules: it named memory, an index or a length that cannot be.
    #[error("the peer broke the protocol: {0}")]
    Protocol(String),
    /// This end's engine or its service thread died.
    #[error("this end failed: {0}")]
    Local(String),
    /// This end was connected for polling only.
    #[error("this end was connected without events; set `event`")]
    NoEvents,
}

/// Error of a lost link. Work in flight will not complete; its destinations are quarantined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {link} link is lost: {cause}")]
pub struct LinkError {
    /// The transport.
    pub link: String,
    /// Cause of the loss.
    pub cause: LinkErrorKind,
    /// The work that was in flight.
    pub tags: Vec<u64>,
}
