//! Tables of any format as flows read, partition and sort them.
#![no_main]
#[path = "../../crates/flow/pipeline/tests/it/reader_checks.rs"]
#[allow(dead_code)]
mod checks;

libfuzzer_sys::fuzz_target!(
    // What Arrow's library panics at is caught and refused. What is not caught still ends the
    // fuzzer, where it gets there.
    init: std::panic::set_hook(Box::new(|panic| eprintln!("{panic}"))),
    |data: &[u8]| {
        checks::table(data);
    }
);
