//! The server over real sockets.

mod datagrams;
mod herd;
mod limits;
mod memcached;
pub(crate) mod running;
mod serving;
mod shutdown;
mod stages;
pub(crate) mod tls;
