//! Replays of the inputs that fuzzing found.

#[path = "common/checks.rs"]
mod checks;

use std::path::PathBuf;

fn replay(target: &str, check: fn(&[u8])) {
    let corpus = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus");
    let files = std::fs::read_dir(corpus.join(target)).unwrap();
    let mut replayed = 0;
    for file in files {
        let path = file.unwrap().path();
        println!("{}", path.display());
        check(&std::fs::read(&path).unwrap());
        replayed += 1;
    }
    assert!(replayed >= 5);
}

#[test]
fn collections() {
    replay("facts", checks::facts);
}

#[test]
fn profiles() {
    replay("profile", checks::profile);
}
