//! The server over real sockets.

mod datagrams;
mod drivers;
mod herd;
mod limits;
mod memcached;
pub mod running;
mod sealed;
mod serving;
mod shutdown;
mod stages;
pub mod tls;
