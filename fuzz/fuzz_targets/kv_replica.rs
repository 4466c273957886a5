//! Any bytes from a primary are frames or refused, the same however they come, and what frames hold is
//! executed or refused.

#![no_main]

#[path = "../../crates/kv/server/tests/it/replica/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::stream(data));
