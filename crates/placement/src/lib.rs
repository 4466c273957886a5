//! Splits a stream of chunks between the CPU and a device, and merges the results in order.
//!
//! An [`Executor`] takes [`Chunk`]s and gives [`Piece`]s back in the same order. A [`Policy`] says
//! which of the two legs gets what: one of them alone, a fixed percentage of the bytes, or what
//! the [`controller`] finds best while it goes. Every chunk's result is one leg's, whole.
//!
//! What the device fails at, the CPU does again from the same source into another destination:
//! jobs that fail, are refused, or do not come back in time, and everything that was in flight
//! when the device was lost or told something impossible. A destination that an engine may still
//! write to is not used again. The device is then left alone for a while, twice as long each time,
//! and tried again with one job. What happened stands in the [`Report`].
//!
//! Buffers go round in a pool of memory that both legs reach. A source that lies elsewhere is
//! copied for the leg that does not reach it, which is counted.

mod ahead;
pub mod controller;
mod drive;
mod executor;
mod file;
mod health;
mod lane;
mod memory;
mod outcome;
mod pace;
mod pilot;
mod policy;
mod queues;
mod report;
mod setup;
mod window;

pub use executor::Executor;
pub use file::{FileError, PlacementFile, Rule, SCHEMA as PLACEMENT_SCHEMA};
pub use memory::Buffer;
pub use policy::{Leg, Policy, PolicyError};
pub use report::{Decided, Event, EventKind, LegReport, Report};
pub use setup::{Error, Retry, Setup, WINDOW_MAX, chunk_bytes};
pub use window::{Chunk, Piece};
