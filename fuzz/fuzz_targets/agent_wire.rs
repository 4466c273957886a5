//! Messages between a host and an agent.
#![no_main]
#[path = "../../crates/core/link/tests/it/common/agent_checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    checks::agent_wire(data);
});
