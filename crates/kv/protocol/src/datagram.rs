//! The datagram protocol: many requests in one UDP datagram, by the encoding of [`overside_kv_store::codec`].
//! docs/kv/kv-datagram.md specifies it.
//!
//! 1. A datagram is executed as a whole or, if it is malformed, not at all. Requests of all datagrams
//!    that have come make one batch.
//! 2. The answers to a datagram are in one datagram, or in several where they are longer than the
//!    client allows. Each has the number of the request that its first answer is for.
//! 3. The server keeps nothing of a client but which of its last datagrams with writes were executed
//!    (`history`): a copy of one, by the network or because its answer was lost, is not executed
//!    again.

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

/// Most requests of a datagram.
pub const REQUESTS_MAX: usize = super::batch::BATCH_REQUESTS;
/// Longest datagram of UDP over IPv4.
pub const DATAGRAM_MAX_BYTES: usize = 65_507;
/// Shortest limit of answer datagrams that a client can set.
pub const ANSWER_LIMIT_MIN_BYTES: usize = 512;
/// Longest datagram that fits into one frame of Ethernet, over IPv4 and IPv6.
pub const ETHERNET_BYTES: usize = 1452;

/// Instead of an answer: it was executed, but the answer does not fit into a datagram.
pub const TOO_LONG: u8 = 253;
/// Instead of an answer: it was not executed; too many clients write. To be tried again later.
pub const BUSY: u8 = 254;
/// Instead of an answer: it changes something, and the datagram was executed before, or is too old.
pub const REPEATED: u8 = 255;
