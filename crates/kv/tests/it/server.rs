//! The server over real sockets.

mod limits;
mod memcached;
mod running;
mod serving;
mod shutdown;
mod stages;
mod tls;
