//! Clients of key-value servers: of a cluster over TCP, and of one server by [`datagram`]s.
//!
//! [`Cluster`] divides keys among the servers of a cluster, by a [`Ring`], and follows the
//! directory of their addresses. It blocks, speaks RESP2, and belongs to one thread at a time.
//!
//! 1. Requests are grouped by the server that has their key. Each server gets its requests as a pipeline,
//!    and all servers work at the same time.
//! 2. A server says its name before it gets any, so that an address that has another server by now does no
//!    harm.
//! 3. Reads are tried once more on a new connection. Writes are not, since they may have been
//!    executed, unless nothing of them was sent.
//! 4. A server that cannot be reached fails its own requests, and nothing else: in a cluster of
//!    fixed members no other server ever answers for its keys.

mod alert;
mod cluster;
mod connection;
pub mod directory;
mod error;
mod pipeline;
mod reply;
pub mod ring;
mod stream;

pub use cluster::Cluster;
pub use connection::{ClusterOptions, info};
pub use error::{ClusterError, ServerFailure};
pub use overside_kv_datagram::client as datagram;
pub use reply::{Reply, ReplyLine, command};
pub use ring::Ring;
pub use stream::ServerStream;
pub use stream::ServerTls;
