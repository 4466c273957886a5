//! Arrow IPC, streams and files.
#![no_main]
#[path = "../../crates/files/tables/tests/it/pack_checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(
    // What Arrow's library panics at is caught and refused. What is not caught still ends the
    // fuzzer, where it gets there.
    init: std::panic::set_hook(Box::new(|panic| eprintln!("{panic}"))),
    |data: &[u8]| {
        checks::ipc(data);
    }
);
