//! Connection beside the queue pairs, over which two ends find each other and stay in touch.
//!
//! Beside UCX's connections there is one TCP connection that carries [`frame`]s: the handshake,
//! questions about exported memory, and heartbeats of an end that is alive.

mod connection;
pub(crate) mod frame;
pub(crate) mod handshake;

pub(crate) use connection::ControlConnection;
pub(crate) use handshake::Listener;
