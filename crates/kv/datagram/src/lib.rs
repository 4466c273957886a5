//! The key-value store over UDP: sockets that send and receive many datagrams at once, and the client.

pub mod client;
pub mod udp;
