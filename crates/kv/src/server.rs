//! Serves clients over sockets.

mod backing;

pub use backing::{Backing, Memory, TICK_MS};
