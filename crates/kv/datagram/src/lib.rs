//! The key-value store's datagrams: over UDP, by sockets that send and receive many at once; over an Ethernet port that
//! DPDK drives; and in memory that clients write. And the client.

pub mod client;
pub mod ethernet;
pub mod herd;
pub mod link;
pub mod udp;
