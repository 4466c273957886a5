//! The server over real sockets.

mod limits;
mod running;
mod serving;
mod shutdown;
mod stages;
mod tls;
