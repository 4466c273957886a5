#![no_main]
#[allow(dead_code)]
#[path = "../../crates/core/ops/tests/it/common/checks.rs"]
mod checks;

use libfuzzer_sys::Corpus;

libfuzzer_sys::fuzz_target!(|data: &[u8]| -> Corpus {
    // Patterns that are the bytes themselves take far longer than those that are made of them.
    if data.first().is_none_or(|how| (0x08..0x80).contains(how)) {
        return Corpus::Reject;
    }
    checks::matching(data);
    Corpus::Keep
});
