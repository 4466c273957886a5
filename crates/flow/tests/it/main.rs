//! Tests of what other crates use.

mod bench;
mod enlarge;
mod files;
mod object_store;
mod pack;
mod pack_checks;
mod pack_hostile;
mod pack_placement;
mod pack_writers;
mod partition;
mod pipeline;
mod pipeline_checks;
mod pipeline_definition;
mod random;
mod rechunk;
mod sort;
mod sql;
mod suggest;
mod tree;
