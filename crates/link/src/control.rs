//! How two ends over a network find each other and stay in touch.
//!
//! Beside the connections that carry work there is one that carries [`frame`]s: the handshake,
//! questions about exported memory, and a beat that says that this end is alive. The transports
//! over TCP and UCX share it.

pub(crate) mod channel;
pub mod frame;
mod talk;

pub(crate) use channel::Door;
pub(crate) use talk::Talk;
