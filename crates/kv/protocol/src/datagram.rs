//! The datagram protocol: many requests in one UDP datagram, encoded by [`overside_kv_store::codec`].
//! docs/kv/kv-datagram.md specifies it.
//!
//! 1. A datagram is executed as a whole or, if it is malformed, not at all. The requests of all
//!    received datagrams form one batch.
//! 2. The answers to a datagram are in one datagram, or in several if they are longer than the client
//!    allows. Each has the index of the request that its first answer belongs to.
//! 3. The only state of a client on the server is which of its last datagrams with writes were executed
//!    (`replay_window`). A copy of one, made by the network or sent again because its answer was lost,
//!    is not executed again.

mod answers;
mod engine;
mod header;
mod repeated;
mod replay_window;
mod writer;

pub use answers::{AnswerDatagrams, Reply, replies};
pub use engine::{DatagramCounts, DatagramEngine};
pub use header::{ANSWER, HEADER_BYTES, Header, HeaderError, MAGIC, STEERED, VERSION};
pub use replay_window::{CLIENTS_MAX, WINDOW};
pub use writer::RequestDatagram;

/// Maximum number of requests of a datagram.
pub const REQUESTS_MAX: usize = super::batch::BATCH_REQUESTS;
/// Length of the longest datagram of UDP over IPv4.
pub const DATAGRAM_MAX_BYTES: usize = 65_507;
/// Minimum limit of answer datagrams that a client can set.
pub const ANSWER_LIMIT_MIN_BYTES: usize = 512;
/// Length of the longest datagram that fits into one Ethernet frame, over IPv4 and IPv6.
pub const ETHERNET_BYTES: usize = 1452;

/// Status instead of an answer: the request was executed, but the answer does not fit into a datagram.
pub const TOO_LONG: u8 = 253;
/// Status instead of an answer: the request was not executed because too many clients write. The
/// client may try again later.
pub const BUSY: u8 = 254;
/// Status instead of an answer: the request is a write, and its datagram was executed before or is too old.
pub const REPEATED: u8 = 255;
