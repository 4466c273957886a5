//! Control connection beside the queue pairs, over which two ends find each other and stay in touch.
//!
//! It is a TCP connection in addition to UCX's that carries [`frame`]s: the handshake, requests
//! about exported memory, and heartbeats.

mod connection;
pub(crate) mod frame;
pub(crate) mod handshake;

pub(crate) use connection::ControlConnection;
pub(crate) use handshake::Listener;
