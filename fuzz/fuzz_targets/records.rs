//! Records of text and of tables.
#![no_main]
#[path = "../../crates/match/tests/common/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::records(data));
