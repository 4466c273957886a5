//! A peer over TCP that does as it likes.
#![no_main]
#[allow(dead_code)]
#[path = "../../crates/link/tests/it/common/tcp_hostile.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|data: &[u8]| hostile::session(data));
