//! What the fuzzer has found stays found.

#[path = "common/checks.rs"]
mod checks;

use std::fs;
use std::path::Path;

#[test]
fn the_corpus_of_the_fuzzer_holds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/records");
    let mut count = 0;
    for entry in fs::read_dir(corpus).unwrap() {
        checks::records(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count > 10);
}
