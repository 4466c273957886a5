//! Any bytes from memcached's clients are answered, the same however they are divided.

#![no_main]

#[path = "../../crates/kv/server/tests/it/memcached/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::run(data));
