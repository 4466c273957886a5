//! A peer over shared memory that does as it likes.
#![no_main]
#[allow(dead_code)]
#[path = "../../crates/core/link/tests/it/common/hostile.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|data: &[u8]| hostile::session(data));
