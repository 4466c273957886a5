//! Execution of a definition: threads, nodes and memory, streams of batches, and what a run reports.

mod adaptive;
mod engine;
mod file_output;
mod in_process;
mod node;
mod node_link;
mod packing;
mod report;
mod runner;
mod runtime;
mod stage_state;
mod stream;
mod stream_state;
mod tree_output;
