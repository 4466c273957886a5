//! Model of devices from published facts: profiles, and the closed-form cost of one operation.
//!
//! A [`Profile`] is one card behind one host link in one mode of use, each of its values cited.
//! [`cost`] gives the time of one operation on it, as an interval; [`outlook`] the change against a
//! measured CPU, and from which buffer size. Both name the facts that they rest on and the terms
//! for which no fact exists: such a term counts as zero, which makes a time a lower bound, and
//! figures that depend on it have no prediction.
//!
//! ```
//! use overside_model::{Setting, Work, cost, profile};
//! let bf2 = profile("bf2")?;
//! let mut work = Work::new("compress-deflate".parse()?, 1 << 20, 500_000);
//! let fixed = cost(&bf2, &work)?;
//! work.setting = Setting::Reconfiguration;
//! assert!(cost(&bf2, &work)?.low_ns > 10 * fixed.low_ns);
//! assert!(fixed.missing.iter().any(|term| term.contains("cost of one job")));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod advice;
mod arrow;
mod catalogue;
pub mod check;
pub mod codec;
pub mod contention;
pub mod corpus;
mod cost;
pub mod dma;
mod engine;
mod error;
pub mod facts;
mod fallback;
mod fifo;
pub mod kv;
mod library;
mod lookup;
mod machine;
mod matching;
pub mod network;
mod outlook;
mod pace;
mod parameters;
mod prediction;
mod profile;
mod quantity;
mod query;
pub mod questions;
mod scaling;
pub mod scenario;
pub mod sim;
pub mod split;
mod spread;
mod workload;

pub use catalogue::{PROFILES_ENV, profile, profiles, profiles_with, text_of};
pub use cost::{Completion, Cost, Parts, Setting, Span, Work, cost};
pub use error::CostError;
pub use fifo::{Fifo, Schedule};
pub use library::Library;
pub use outlook::{BreakEven, Outlook, OutlookQuestion, outlook};
pub use overside_config::{Dimension, Interval, Unit};
pub use pace::{Pace, StageTimes};
pub use parameters::{PARAMETERS, Parameter, Step};
pub use prediction::{
    Answer, Evaluation, Evidence, EvidenceLevel, Influence, MissingParameter, NoPrediction,
    Outcome, ParameterValue, Prediction, Values, Verdict,
};
pub use profile::{
    Basis, DeviceFacts, Initiator, Link, Missing, OperationProfile, PatternProfile, Processor,
    Profile, ProfileProvenance,
};
pub use quantity::{Axis, Quantity, Sweep, Table};
pub use workload::{Prices, Stage, Task, WORKLOAD_SCHEMA, Watts, Workload};
