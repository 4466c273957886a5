//! Replay of the fuzzer's corpus, so that bugs that it found stay fixed.

#[path = "common/checks.rs"]
mod checks;

use std::fs;
use std::path::Path;

#[test]
fn the_corpus_of_the_fuzzer_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/records");
    let mut count = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        checks::records(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 10);
}

#[test]
fn made_tables_hold() {
    // A few of what the fuzzer makes; it makes more of them.
    let mut random = overside_base::Random::new(7);
    for _ in 0..300 {
        let mut data = vec![0; 200];
        random.fill(&mut data);
        data[0] |= 0x80;
        checks::records(&data);
        // Without changes.
        data[2] = 0;
        checks::records(&data);
    }
}
