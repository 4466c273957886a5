//! Pipelines over Arrow Flight: producers put streams in, subscribers get what comes out, and nothing that was
//! acknowledged is lost.
//!
//! 1. A batch comes with the name of its producer and a number (`metadata`). One that was there before is a
//!    duplicate (`producers`).
//! 2. It waits in the input queue: in memory, and then on disk (`queue`, `spill`).
//! 3. The stages make batches of it (`process`), which wait in the queues of the outputs that they are routed
//!    to (`outputs`).
//! 4. Once all of them are delivered or on disk, the producer is told so.
//!
//! | question | module |
//! |---|---|
//! | who may connect and call? | `connection`, `access` |
//! | what can be called? | `flight`: `put`, `get`, `exchange`, `node`, `descriptor` |
//! | where does what comes out go? | `outputs`: `subscribers`, `downstream` (both with `in_flight`), `files` |
//! | what of trees? | `tracks`; those on several machines: `pass` |
//! | what are messages compressed with? | `wire` |
//! | who runs a stage elsewhere? | `remote_node`, `remote_nodes`, `client` |
//! | how is it? | `statistics`, `pages` |
//! | how does it cope with bursts? | `waves` |

mod access;
pub mod batch;
mod client;
mod connection;
mod cpu_time;
pub mod descriptor;
mod downstream;
mod error;
mod exchange;
mod files;
mod flight;
mod get;
mod hosted;
mod in_flight;
pub mod metadata;
pub mod node;
mod opening;
mod outputs;
mod pages;
mod pass;
mod process;
mod producers;
mod put;
pub mod queue;
mod remote_node;
mod remote_nodes;
mod schemas;
mod server;
mod service;
pub mod spill;
mod statistics;
mod subscribers;
mod tracks;
pub mod waves;
mod wire;

pub use client::Target;
pub use error::ServiceError;
pub use remote_node::RemoteNode;
pub use remote_nodes::RemoteNodes;
pub use server::{Ended, Server, Settings};
pub use service::{Limits, Service, Work};
pub use tracks::{RemoteTree, TracksTicket};
