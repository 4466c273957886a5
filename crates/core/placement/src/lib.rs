//! Splits a stream of chunks between the CPU and devices, and returns the results in order.
//!
//! An [`Executor`] takes [`Chunk`]s and returns [`ChunkResult`]s in the same order. A [`Policy`] assigns
//! chunks to the [`Target`]s: all to one of them, a fixed percentage of the bytes (`split`), or the share
//! that the [`controller`] finds best at run time (`adaptive`). Every chunk's result comes from one target.
//!
//! | topic | module |
//! |---|---|
//! | assignment of chunks to targets | `scheduler`, with `split` and `adaptive` |
//! | targets | `lanes` and `lane`: contexts and their memory; `circuit_breaker`: pauses of a device that failed |
//! | chunks in flight, and their order | `in_flight`, with `reorder` |
//! | verification of devices' results | `verifier` |
//! | failures of targets | `executor/recovery` |
//! | several submitting threads | `submitters` |
//!
//! If a device fails, the CPU repeats its chunks from the same source into another destination: jobs
//! that fail, are refused, or do not complete in time, and everything that was in flight when a
//! device was lost or reported something impossible. A destination that an engine may still write
//! to is not used again. The [`Report`] lists all of this.
//!
//! Buffers are reused from a pool of memory that all targets reach, if they can. A source in other
//! memory is copied for a target that does not reach it, and the copy is counted.

mod adaptive;
mod chunk;
mod circuit_breaker;
mod executor;
mod file;
mod in_flight;
mod lane;
mod lanes;
mod memory;
mod policy;
mod reorder;
mod report;
mod scheduler;
mod setup;
mod split;
mod submitters;
mod verifier;
mod verify;

pub use adaptive::chunk_size::{MAX_ADAPTIVE_CHUNK_BYTES, chunk_lengths};
pub use adaptive::controller;
pub use adaptive::lookahead::Lookahead;
pub use adaptive::throughput::ThroughputEstimator;
pub use chunk::{Checksum, Chunk, ChunkResult};
pub use circuit_breaker::CircuitBreaker;
pub use executor::Executor;
pub use file::{PlacementFile, Rule, SCHEMA as PLACEMENT_SCHEMA};
pub use memory::Buffer;
pub use policy::{DEVICES_MAX, Policy, PolicyError, Shares, Target};
pub use report::{DecisionRecord, Event, EventKind, Report, TargetReport, Verification};
pub use setup::{DeviceSetup, Error, Retry, SUBMITTERS_MAX, Setup, WINDOW_MAX, chunk_bytes};
pub use split::WeightedSplit;
pub use submitters::Submitters;
pub use verify::{SAMPLE_EVERY, UnknownVerify, Verify};
