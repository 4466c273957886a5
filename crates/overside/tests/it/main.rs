//! What overside promises, through its public interface: one program, so that it is linked once.

mod agent;
mod command;
mod compile;
mod files;
mod flow;
mod flow_run;
mod flow_tree;
mod kv;
mod kv_bench;
mod kv_designs;
mod kv_dpdk;
mod kv_profile;
mod like_grep;
mod logging;
mod matching;
mod nodes;
