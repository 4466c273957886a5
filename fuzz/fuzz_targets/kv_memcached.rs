//! Any bytes from memcached's clients are answered, the same however they are divided; datagrams within
//! bounds, the same together and one by one.

#![no_main]

#[path = "../../crates/kv/tests/it/memcached/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::run(data));
