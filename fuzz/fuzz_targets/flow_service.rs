//! Metadata from clients of a flow service, tickets, and spilled batches.
#![no_main]
#[path = "../../crates/flow/service/tests/it/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(
    // What Arrow's library panics at is caught and refused. What is not caught still ends the
    // fuzzer, where it gets there.
    init: std::panic::set_hook(Box::new(|panic| eprintln!("{panic}"))),
    |data: &[u8]| {
        checks::service(data);
    }
);
