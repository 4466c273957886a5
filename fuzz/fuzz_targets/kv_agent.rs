//! Messages between a host and an agent about a server of the key-value store.

#![no_main]

#[path = "../../crates/kv/server/tests/it/offload/agent_checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    checks::agent_message(data);
});
