//! Splits a stream of chunks between the CPU and a device, and merges the results in order.

mod memory;
mod policy;
mod report;
mod setup;

pub use memory::Buffer;
pub use policy::{Leg, Policy, PolicyError};
pub use report::{Decided, Event, EventKind, LegReport, Report};
pub use setup::{Error, Retry, Setup, WINDOW_MAX, chunk_bytes};
