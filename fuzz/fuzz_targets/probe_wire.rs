//! Messages between a host and an agent about a test.
#![no_main]
#[path = "../../crates/measure/probe/tests/it/common/wire_checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    checks::probe_wire(data);
});
