//! The pairing of HERD (Kalia, Kaminsky and Andersen, SIGCOMM 2014): a client writes its requests into a
//! region of the server's memory by one-sided writes, the server polls that region, and replies are
//! datagrams. docs/kv/kv-datagram.md specifies it.
//!
//! 1. A client comes over a link of its own: shared memory, or UCX. Each worker of the server exports a
//!    *request region* to it ([`RequestRegion`]), so that no client reaches another's.
//! 2. A region has slots that are used in turn. A slot holds one datagram of the datagram protocol at its
//!    end, with the trailer of the messages between the engines ([`link`](crate::link)): sequence
//!    number last, and a checksum, since the parts of a one-sided write need not arrive in order.
//! 3. The worker looks for the slot that is due of each of its clients, executes the requests of all that it
//!    finds as one batch, and sends the replies to the UDP port that the client has named.
//! 4. A reply tells the client that the slot is free again. Datagrams get lost, so the region also
//!    has the number of slots taken, which a client without replies reads by a one-sided read.

mod introduction;
mod listener;
mod region;
mod writer;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use overside_link::verbs::{LinkConfig, Side};
use serde::{Deserialize, Serialize};

pub use listener::{HerdError, HerdListener, RegionInbox};
pub use region::RequestRegion;
pub use writer::RequestWriter;

use crate::link::TRAILER_BYTES;

/// Slots of a region: as many datagrams of a client may be on the way to a worker.
pub const SLOTS: usize = 32;
/// Bytes of a slot.
pub const SLOT_BYTES: usize = 2048;
/// Longest datagram of requests.
pub const DATAGRAM_MAX_BYTES: usize = SLOT_BYTES - TRAILER_BYTES;
/// Maximum number of clients of a server.
pub const CLIENTS_MAX: usize = 256;
/// Number of bytes behind the slots: the first eight of this cache line count the messages taken.
const TAKEN_BYTES: usize = 64;
/// Bytes of a region.
pub const REGION_BYTES: usize = SLOTS * SLOT_BYTES + TAKEN_BYTES;
/// Longest message of a client's link.
const LINK_MESSAGE_BYTES: usize = 4096;
/// Upper bound on the memory that one client needs of each worker, in bytes: its region in whole
/// pages, and a queue pair, whose two rings are four times as long as its longest message.
const CLIENT_BYTES: usize = REGION_BYTES.next_multiple_of(4096) + 4096 + 8 * LINK_MESSAGE_BYTES;

/// Returns the maximum memory of all regions and their links, for a server with `workers` workers.
#[must_use]
pub fn memory_bytes(workers: usize) -> u64 {
    (CLIENTS_MAX * workers * CLIENT_BYTES) as u64
}

/// Address where clients open the links of their request regions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RegionAddress {
    /// Unix socket of this user: shared memory.
    Path(PathBuf),
    /// TCP address: UCX.
    Address(SocketAddr),
}

impl fmt::Display for RegionAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// The link of a client: a queue pair for each worker.
fn link_config(side: Side, workers: usize) -> LinkConfig {
    LinkConfig {
        queue_pairs: workers,
        depth: 2 * SLOTS,
        max_message_bytes: LINK_MESSAGE_BYTES,
        max_import_bytes: 64 << 20,
        ..LinkConfig::new(side)
    }
}
