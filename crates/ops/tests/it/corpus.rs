//! The fuzzer's corpora, replayed. `fuzz/README.md` says how to fuzz.

use crate::common;

use std::fs;
use std::path::Path;

use common::checks;

fn replay(target: &str, check: impl Fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut count = 0;
    for file in fs::read_dir(&corpus).unwrap() {
        let path = file.unwrap().path();
        // The name is what a failure needs to be found again.
        eprintln!("{}", path.display());
        check(&fs::read(&path).unwrap());
        count += 1;
    }
    assert!(count >= 10, "{} is nearly empty", corpus.display());
}

#[test]
fn decompress() {
    replay("decompress", checks::decompress);
}

#[test]
fn compress() {
    replay("compress", checks::compress);
}

#[test]
fn matching() {
    replay("matching", checks::matching);
}
