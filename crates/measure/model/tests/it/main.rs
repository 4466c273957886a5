//! Tests of the model through its public interface: one program, so that it is linked once.

mod advice;
mod ask;
mod capacity;
mod check;
mod corpus;
mod cost;
mod engines;
mod facts;
mod held_out;
mod kv;
mod kv_stages;
mod link;
mod machine;
mod parameters;
mod profiles;
mod question_forms;
mod questions;
mod scenarios;
mod search;
mod sim;
mod verdicts;
mod workload;
