#![no_main]
#[path = "../../crates/measure/model/tests/it/common/checks.rs"]
#[allow(dead_code)]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::facts(data));
