//! Replays the corpora of the fuzzer. `fuzz/README.md` describes how to fuzz.

use crate::common;

use std::fs;
use std::path::Path;

use common::checks;

fn replay(target: &str, check: impl Fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(target);
    let mut count = 0;
    for file in fs::read_dir(&corpus).unwrap() {
        let path = file.unwrap().path();
        // The name is needed to find a failure again.
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

#[test]
fn patterns_that_are_made() {
    // A few inputs like those of the fuzzer.
    let mut random = overside_base::Random::new(3);
    for _ in 0..2000 {
        let len = 10 + random.below(60) as usize;
        let mut data = random.bytes(len);
        data[0] |= 0x80;
        checks::matching(&data);
    }
}
