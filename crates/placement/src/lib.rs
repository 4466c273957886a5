//! Splits a stream of chunks between the CPU and a device, and merges the results in order.

pub mod controller;
mod drive;
mod executor;
mod health;
mod lane;
mod memory;
mod outcome;
mod pilot;
mod policy;
mod queues;
mod report;
mod setup;
mod window;

pub use executor::Executor;
pub use memory::Buffer;
pub use policy::{Leg, Policy, PolicyError};
pub use report::{Decided, Event, EventKind, LegReport, Report};
pub use setup::{Error, Retry, Setup, WINDOW_MAX, chunk_bytes};
pub use window::{Chunk, Piece};
