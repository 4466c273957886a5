//! Execution of a definition: threads, nodes and memory, streams of batches, and reports.

pub(crate) mod adaptive;
pub(crate) mod engine;
pub(crate) mod file_output;
pub(crate) mod in_process;
pub(crate) mod node;
pub(crate) mod node_link;
pub(crate) mod packing;
pub(crate) mod report;
pub(crate) mod runner;
pub(crate) mod runtime;
pub(crate) mod stage_state;
pub(crate) mod stream;
pub(crate) mod stream_state;
pub(crate) mod tree_output;
