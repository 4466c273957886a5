//! Either engine of the key-value store, with a peer on the other side of the link that does as it likes.

#![no_main]

#[path = "../../crates/kv/server/tests/it/offload/checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    checks::session(data);
});
