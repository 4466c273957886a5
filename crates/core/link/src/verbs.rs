//! One set of verbs over every transport, shaped like the device contract.
//!
//! A connected [`Endpoint`] gives out memory, exports memory to its peer as a [`Token`], imports
//! the peer's, and opens its [`QueuePair`]s. Queue pair `i` of one end is connected with queue
//! pair `i` of the other. A queue pair belongs to one thread, and nothing blocks but opening and
//! closing. Work is handed over in batches with [`QueuePair::post`], one doorbell a batch, and
//! comes back through [`QueuePair::poll`]. Small messages have a way of their own without
//! allocation or completions: [`QueuePair::send`] and [`QueuePair::receive`].
//!
//! * Sources are shared ([`Slice`](overside_device::Slice)). The destination of a read or of a
//!   receive is owned ([`Region`](overside_device::Region)) by the link until its completion. If
//!   the peer is lost first, it is quarantined: not handed back, and freed only when the peer
//!   cannot write to it any more.
//! * Memory that the peer may write is never seen as `&[u8]`: [`Exported`] copies in and out.
//! * A completed `write` has arrived: the peer sees its bytes once it has received something that
//!   was posted afterwards on the same queue pair.
//! * Work on one queue pair starts in order. Messages arrive in order. `read` and `write` may
//!   complete in any order, and two of them in flight over the same bytes have no defined result.
//! * Every queue is bounded. Taking less than was offered is back-pressure, a normal answer.
//! * A peer that is gone, or that breaks the rules, is a [`LinkError`] with a [`LinkErrorKind`].

mod capabilities;
mod check;
mod error;
mod memory;
mod messages;
mod work;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use overside_device::{Applied, CpuTime, ExternalBytes, MemoryError, Region, Slice};
use serde::{Deserialize, Serialize};

pub use crate::volatile_slice::OutOfBounds;
pub use capabilities::{Capabilities, LinkInfo, Mover, VerbLimits};
pub use error::{
    ConfigError, ConnectError, ExportError, ImportError, LinkError, LinkErrorKind, PostError,
};
pub use error::{Refusal, WorkError};
pub use memory::{Access, EndpointId, Exported, ExportedSlice, RemoteMemory, RemoteSlice, Token};
pub use messages::{Messages, RecvBatch};
pub use work::{Closed, Completion, Verb, Work};

/// End of the link; decides the ledger of its threads' CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The host.
    Host,
    /// The DPU, or its substitute.
    Dpu,
}

impl Side {
    /// Time of an endpoint's own threads on the ledger of this side.
    pub fn cpu_time(self, spent_ns: u64) -> CpuTime {
        match self {
            Self::Host => CpuTime { host_ns: spent_ns, ..CpuTime::default() },
            Self::Dpu => CpuTime { dpu_ns: spent_ns, ..CpuTime::default() },
        }
    }
}

/// Configuration of a link; the same for every transport. The two ends agree on it when they
/// connect. The listening end decides on everything but `side`, `event` and `max_import_bytes`,
/// which each end sets for itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkConfig {
    /// End of the link that this is.
    pub side: Side,
    /// Number of queue pairs, one per thread; 1 to [`LinkConfig::MAX_QUEUE_PAIRS`].
    pub queue_pairs: usize,
    /// The most work in flight on a queue pair; 1 to [`LinkConfig::MAX_DEPTH`].
    pub depth: usize,
    /// The longest message in bytes; 1 to [`LinkConfig::MAX_MESSAGE_BYTES`].
    pub max_message_bytes: usize,
    /// This end wants to wait for events. Ends that only poll spare their peers a fence a
    /// doorbell.
    pub event: bool,
    /// Maximum number of bytes of the peer's memory that this end imports.
    pub max_import_bytes: u64,
}

impl LinkConfig {
    /// The most queue pairs.
    pub const MAX_QUEUE_PAIRS: usize = 64;
    /// The greatest depth.
    pub const MAX_DEPTH: usize = 4096;
    /// The longest message in bytes.
    pub const MAX_MESSAGE_BYTES: usize = 16 << 20;

    /// One queue pair of depth 64, messages up to 64 KiB, polling, imports up to 4 GiB.
    pub fn new(side: Side) -> Self {
        Self {
            side,
            queue_pairs: 1,
            depth: 64,
            max_message_bytes: 64 << 10,
            event: false,
            max_import_bytes: 4 << 30,
        }
    }

    /// Checks that all values are within their limits.
    ///
    /// # Errors
    /// [`ConfigError`] names the first that does not.
    pub fn check(&self) -> Result<(), ConfigError> {
        let limits = [
            ("queue_pairs", self.queue_pairs, Self::MAX_QUEUE_PAIRS),
            ("depth", self.depth, Self::MAX_DEPTH),
            ("max_message_bytes", self.max_message_bytes, Self::MAX_MESSAGE_BYTES),
        ];
        for (key, value, most) in limits {
            if !(1..=most).contains(&value) {
                return Err(ConfigError { key, value: value as u64, least: 1, most: most as u64 });
            }
        }
        Ok(())
    }
}

/// One end of a connected link. Shared between threads. Dropping it, once its queue pairs are
/// closed as well, ends the connection; the peer finds it [`LinkError`].
pub trait Endpoint: Send + Sync {
    /// Returns the endpoint's identifier, unique in this process.
    fn id(&self) -> EndpointId;

    /// Name, transport, peer, provenance.
    fn info(&self) -> &LinkInfo;

    /// Returns the endpoint's capabilities, probed when it was connected.
    fn capabilities(&self) -> &Capabilities;

    /// Zeroed local memory that the transport reaches without a copy. `align` is a power of two.
    ///
    /// # Errors
    /// [`MemoryError`].
    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError>;

    /// Makes the caller's memory a source of writes and sends, without a copy. Its owner lives
    /// until the last slice is dropped.
    ///
    /// # Errors
    /// [`MemoryError::Unreachable`] if the transport cannot read memory of that kind.
    fn register(&self, foreign: ExternalBytes) -> Result<Slice, MemoryError>;

    /// Zeroed memory that the peer can import with the handle's token and then read, write or both.
    /// Dropping the handle withdraws the token; a peer that has imported it may keep access until
    /// the link ends, so its memory is never used for anything else.
    ///
    /// # Errors
    /// [`ExportError`].
    fn export(&self, len: usize, access: Access) -> Result<Exported, ExportError>;

    /// Imports the peer's memory for a token of the peer. The caller transfers the token, as a message of
    /// this link or otherwise.
    ///
    /// # Errors
    /// [`ImportError`]: the peer did not issue the token, or the memory is too large.
    fn import(&self, token: &Token) -> Result<RemoteMemory, ImportError>;

    /// Queue pair `index`, from 0 on; each is handed out once.
    ///
    /// # Errors
    /// [`ConnectError::QueuePair`] if there is no such queue pair or if it has been handed out.
    fn open(&self, index: usize) -> Result<Box<dyn QueuePair>, ConnectError>;

    /// CPU time spent so far by the endpoint's own threads (serving the peer, copying), by ledger.
    /// A copy engine stands for hardware: its time is the emulator's.
    fn cpu_time(&self) -> CpuTime;
}

/// A queue pair of an endpoint, owned by one thread (it may be moved to another between calls).
///
/// Dropping it without [`QueuePair::close`] abandons work in flight: it does not wait.
pub trait QueuePair: Send {
    /// Takes work from the front of `work` and hands it over at one doorbell. Returns how much;
    /// less than offered, or none, is back-pressure.
    ///
    /// # Errors
    /// [`PostError::Refused`] if the first piece is not one for this queue pair (valid work before
    /// a refused piece is taken, and the next call reports it); [`PostError::Lost`].
    fn post(&mut self, work: &mut VecDeque<Work>) -> Result<usize, PostError>;

    /// Appends up to `max` completions to `out` and returns how many.
    ///
    /// # Errors
    /// [`LinkError`], once nothing that did complete is left to be returned.
    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, LinkError>;

    /// Copies messages from the front of `messages` and hands them over at one doorbell. Returns
    /// how many; fewer, or none, is back-pressure. There are no completions: messages that were
    /// taken will arrive unless the link is lost.
    ///
    /// # Errors
    /// [`PostError::Refused`] (tag 0) if messages are longer than the link takes;
    /// [`PostError::Lost`].
    fn send(&mut self, messages: Messages<'_>) -> Result<usize, PostError>;

    /// Appends up to `max` messages to `batch`, in the order in which they were sent, and returns
    /// how many. None while a [`Verb::Receive`] is in flight, because that one comes first.
    ///
    /// # Errors
    /// [`LinkError`], once no message that did arrive is left.
    fn receive(&mut self, batch: &mut RecvBatch, max: usize) -> Result<usize, LinkError>;

    /// The descriptor that becomes readable after [`QueuePair::arm`]; `None` if this end only
    /// polls. To wait: `arm`; if that returns `false`, wait until the descriptor is readable; then
    /// `poll` and `receive`. A wake-up for nothing is possible.
    fn event_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Makes the descriptor readable at the next completion or message, or when the link is lost. Returns
    /// `true` if something is already pending: then poll instead of waiting.
    ///
    /// # Errors
    /// [`LinkError`]; also for an end that only polls, with [`LinkErrorKind::NoEvents`].
    fn arm(&mut self) -> Result<bool, LinkError>;

    /// Pieces of work posted and not yet returned.
    fn in_flight(&self) -> usize;

    /// Number of destinations that the peer may still write to though their work is over.
    fn quarantined(&self) -> usize;

    /// Returns the record of the mechanism that moves the bytes, as samples name it.
    fn applied(&self) -> &Applied;

    /// Waits for the work in flight, but not longer than `deadline`, and informs the peer that nothing more
    /// will follow. Receives without a message are abandoned at once. Messages that the peer has not received
    /// yet still reach it.
    fn close(self: Box<Self>, deadline: Instant) -> Closed;
}
