//! Whole decompression, at once and in pieces.
#![no_main]
#[allow(dead_code)]
#[path = "../../crates/files/compress/tests/it/common/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::decompression(data));
