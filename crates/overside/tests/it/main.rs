//! Tests of the command `overside` through its public interface. They are one program, so that it
//! is linked once.

mod agent;
mod command;
mod compile;
mod files;
#[cfg(feature = "flow")]
mod flow;
#[cfg(feature = "flow")]
mod flow_run;
#[cfg(feature = "flow")]
mod flow_tree;
#[cfg(feature = "kv")]
mod kv;
#[cfg(feature = "kv")]
mod kv_bench;
#[cfg(feature = "kv")]
mod kv_designs;
#[cfg(feature = "kv")]
mod kv_dpdk;
#[cfg(feature = "kv")]
mod kv_profile;
mod like_grep;
mod logging;
#[cfg(feature = "flow")]
mod matching;
#[cfg(feature = "measure")]
mod nodes;
