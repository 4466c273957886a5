//! Clients of key-value servers: of one over TCP or by [`datagram`]s, and of the directory of servers.

mod alert;
mod connection;
pub mod directory;
mod reply;
mod stream;

pub use connection::{Connection, info};
pub use overside_kv_datagram::client as datagram;
pub use reply::{Reply, ReplyLine, command};
pub use stream::ServerStream;
pub use stream::ServerTls;
