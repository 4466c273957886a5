//! Execution of a definition: threads, nodes and memory, streams of batches, and what a run reports.

pub(in crate::pipeline) mod adaptive;
pub(in crate::pipeline) mod engine;
pub(in crate::pipeline) mod file_output;
pub(in crate::pipeline) mod in_process;
pub(in crate::pipeline) mod node;
pub(in crate::pipeline) mod node_link;
pub(in crate::pipeline) mod packing;
pub(in crate::pipeline) mod report;
pub(in crate::pipeline) mod runner;
pub(in crate::pipeline) mod runtime;
pub(in crate::pipeline) mod stage_state;
pub(in crate::pipeline) mod stream;
pub(in crate::pipeline) mod stream_state;
pub(in crate::pipeline) mod tree_output;
