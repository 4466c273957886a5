//! Records of text and of tables.
#![no_main]
#[path = "../../crates/files/match/tests/it/common/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(
    // What a decoder of tables panics at is caught and refused. What is not caught still ends the
    // fuzzer, where it gets there.
    init: std::panic::set_hook(Box::new(|panic| eprintln!("{panic}"))),
    |data: &[u8]| {
        checks::records(data);
    }
);
