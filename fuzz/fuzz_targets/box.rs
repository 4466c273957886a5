//! Any text is a box or has problems; none of it panics, hangs or takes unbounded memory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use overside_measure::boxes;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match boxes::parse(&text) {
        Ok(parsed) => {
            let tests = parsed.tasks.iter().map(|task| {
                task.parameters.0.iter().map(|(_, values)| values.len() as u64).product::<u64>()
            });
            assert!(tests.sum::<u64>() <= boxes::TESTS_MAX);
        }
        Err(problems) => assert!(!problems.is_empty()),
    }
});
