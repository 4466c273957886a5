//! What tests of several crates share. Nothing that is delivered depends on it.
//!
//! * [`conformance`]: what every backend promises, as tests that any device can be put through.
//! * [`InlineDevice`]: a device without threads that works when it is polled, with limits, memory
//!   and a rate as a test needs them.
//! * [`data`]: text and files to work on.
//! * [`linearizability`]: clients of a key-value store that note what they see, and whether one register a key explains
//!   it.

pub mod conformance;
pub mod data;
mod inline_device;
pub mod linearizability;
mod run;

pub use inline_device::{InlineDevice, InlineOptions};
pub use run::{Timed, again, assert_contains, run};
