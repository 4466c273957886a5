//! Pipelines over Arrow Flight: producers put streams in, subscribers get the results, and no
//! acknowledged batch is lost.
//!
//! 1. A batch arrives with the name of its producer and a number (`input::metadata`). A known number is a
//!    duplicate (`input::producers`).
//! 2. It waits in the input queue: in memory, and then on disk (`queue`, `queue::spill`).
//! 3. The stages make batches of it (`process`), which wait in the queues of the outputs that they are
//!    routed to (`output`).
//! 4. Once all of them are delivered or on disk, the producer gets an acknowledgement.
//!
//! | topic | module |
//! |---|---|
//! | connections and authentication | `connection`, `access` |
//! | calls | `flight`: `input::put`, `output::get`, `output::exchange`, `nodes::node`, `descriptor` |
//! | results | `output`: `subscribers`, `downstream` (both with `in_flight`), `files` |
//! | trees | `output::tracks`; those on several machines: `output::pass` |
//! | compression of messages | `wire` |
//! | stages on other machines | `nodes`: `remote_node`, `remote_nodes`, `client` |
//! | monitoring | `statistics`, `pages` |
//! | load in bursts | `waves` |

mod access;
mod connection;
mod counted;
mod cpu_time;
pub mod descriptor;
mod error;
mod flight;
mod input;
pub mod load_waves;
mod nodes;
mod output;
mod pages;
mod pipeline_host;
mod process;
pub mod queue;
mod server;
mod service;
mod socket;
mod statistics;
mod wire;

pub use error::ServiceError;
pub use input::{batch, metadata};
pub use nodes::client::Target;
pub use nodes::node;
pub use nodes::remote_node::RemoteNode;
pub use nodes::remote_nodes::RemoteNodes;
pub use output::tracks::{RemoteTree, TracksTicket};
pub use queue::spill;
pub use server::{Ended, Server, Settings};
pub use service::{Limits, Service, Work};
