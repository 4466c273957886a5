//! Test helpers that several crates share. No delivered program depends on this crate.
//!
//! * [`conformance`]: the contract of every backend, as tests that any device can be put through.
//! * [`InlineDevice`]: a device without threads that works when it is polled, with limits, memory
//!   and a rate as a test needs them.
//! * [`data`]: text and files to work on.
//! * [`link_conformance`]: the same for every transport of a link.
//! * [`linearizability`]: clients of a key-value store that record the replies, and whether one
//!   register a key explains it.

pub mod conformance;
pub mod data;
mod inline_device;
pub mod linearizability;
pub mod link_conformance;
mod run;

pub use inline_device::{InlineDevice, InlineOptions};
pub use run::{Timed, again, assert_contains, run};
