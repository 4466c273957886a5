//! Tests of the crate through its public interface.

mod bench;
mod corpora;
mod enlarge;
mod files;
mod object_store;
mod pipeline;
mod pipeline_checks;
mod pipeline_definition;
#[path = "../../../operators/tests/it/random.rs"]
mod random;
mod reader_checks;
