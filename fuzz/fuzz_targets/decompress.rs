#![no_main]
#[allow(dead_code)]
#[path = "../../crates/core/ops/tests/it/common/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::decompress(data));
