//! A minimal IPv4 host for datagrams, without I/O: Ethernet (with or without a VLAN tag), ARP, IPv4, ICMP echo and
//! UDP.
//!
//! 1. [`Host::receive`] classifies a frame: a datagram for this host, a request that is answered by
//!    [`Host::write_reply`], an answer to one of its own ([`Host::write_arp_request`]), or anything else.
//! 2. A reply is sent on the [`Path`] of its datagram: to the same hardware address, VLAN, address and port.
//!    So a server keeps no state of clients, and needs neither routes nor a table of neighbors.
//! 3. Lengths and checksums are checked before anything else; fragments are refused.
//!
//! RFC 826 (ARP), 791 (IPv4), 792 (ICMP), 768 (UDP), 1071 (checksums), IEEE 802.1Q (VLAN).

mod checksum;
mod frame;
mod host;
pub mod port;
mod write;

pub use frame::{Checked, Ignored, Mac};
pub use host::{Datagram, FrameKind, Host, HostRequest, Path};
pub use port::{FrameCounts, PortSettings, memory_bytes};

/// Longest header of a datagram that is written: Ethernet with a VLAN tag, IPv4 and UDP.
pub const HEADERS_MAX_BYTES: usize = 14 + 4 + IPV4_BYTES + UDP_BYTES;
/// Headers of IPv4 (without options) and UDP.
pub const IPV4_BYTES: usize = 20;
/// Header of UDP.
pub const UDP_BYTES: usize = 8;
