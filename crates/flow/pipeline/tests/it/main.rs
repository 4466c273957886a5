//! Tests of what other crates use.

mod bench;
mod corpora;
mod enlarge;
mod files;
mod object_store;
mod partition;
mod pipeline;
mod pipeline_checks;
mod pipeline_definition;
mod random;
mod reader_checks;
mod rechunk;
mod sort;
mod sql;
mod suggest;
mod tree;
mod types;
