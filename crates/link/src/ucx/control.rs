//! How two ends find each other and stay in touch.
//!
//! Beside what UCX makes of the queue pairs there is one TCP connection that carries [`frame`]s: the
//! handshake, questions about exported memory, and heartbeats that say that an end is alive.

mod connection;
pub(crate) mod frame;
pub(crate) mod handshake;

pub(crate) use connection::ControlConnection;
pub(crate) use handshake::Listener;
