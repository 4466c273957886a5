//! The measuring loop, and the format of boxes.
//!
//! A [`Worker`] takes one [`Sample`] of a [`Test`]: every distinct output is verified, the same
//! work is done again to warm up, and then under the clock, which starts before the first
//! submission and stops after the last completion was reaped. Tests of other kinds than jobs on a
//! device come in as JSON: [`Worker::measure_json`].

pub mod audit;
mod begin;
pub mod boxes;
mod context_bench;
mod context_queue;
mod data;
mod dma;
mod evidence;
mod job_totals;
mod lifecycle_times;
mod memory_budget;
mod metrics;
pub mod node;
mod placement_bench;
mod plan;
mod prediction;
mod remote_end;
mod sample;
mod shuffle;
mod table_pieces;
pub mod tasks;
mod test;
mod verify;
mod warnings;
mod worker;

pub use data::BUFFERS_MAX;
pub use overside_probe::latency::{HistogramError, Merged, merge_histograms};
pub use overside_probe::{Failure, FailureKind};
pub use sample::{
    Check, Cpu, Model, PlacementRecord, Sample, Series, SeriesPhase, Status, TargetRecord, Warning,
    Work,
};
pub use tasks::PartitionTest;
pub use tasks::{DmaBuffers, DmaCompletion, DmaMeasure, DmaOperation, DmaTest};
pub use tasks::{HashCalls, HashTest, Hop, MemoryPattern, MemoryTest, NetworkTest};
pub use test::{
    BUFFER_SIZE_MAX, CompletionMode, DEPTH_MAX, Data, FILES_MAX, Input, PATTERN_BYTES_MAX,
    PATTERNS_MAX, SAMPLE_BYTES_MAX, Setting, Sizes, THREADS_MAX, Test, TestError,
};
pub use worker::{Opener, Worker};
