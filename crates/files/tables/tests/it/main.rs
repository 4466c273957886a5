//! Tests of the readers and writers of tables through their public interface.

mod csv;
mod pack;
mod pack_checks;
mod pack_hostile;
mod pack_placement;
mod pack_writers;
mod parquet;
mod pieces;
#[path = "../../../../flow/operators/tests/it/random.rs"]
mod random;
mod types;
