//! Definitions of pipelines.
#![no_main]
#[path = "../../crates/flow/pipeline/tests/it/pipeline_checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::definition(data));
