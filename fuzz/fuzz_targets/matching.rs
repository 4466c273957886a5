#![no_main]
#[allow(dead_code)]
#[path = "../../crates/ops/tests/it/common/checks.rs"]
mod checks;

use libfuzzer_sys::Corpus;

libfuzzer_sys::fuzz_target!(|data: &[u8]| -> Corpus {
    // What is not made of the bytes but is them takes far longer, and was fuzzed before.
    if data.first().is_none_or(|how| *how < 0x80) {
        return Corpus::Reject;
    }
    checks::matching(data);
    Corpus::Keep
});
