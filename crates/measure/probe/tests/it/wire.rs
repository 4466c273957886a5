//! Tests of the messages that a host and an agent exchange about a test.

#[path = "common/wire_checks.rs"]
mod checks;

#[test]
fn the_fuzz_corpus_is_read_without_panic() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/corpus/probe_wire");
    let mut read = Vec::new();
    for entry in std::fs::read_dir(corpus).expect("the corpus is in the repository") {
        let path = entry.unwrap().path();
        if checks::probe_wire(&std::fs::read(&path).unwrap()) {
            read.push(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
    }
    read.sort();
    // What begins from a refusal finds little.
    let right = [
        "compare",
        "connect",
        "connected",
        "failed",
        "listening",
        "open",
        "pass",
        "passed",
        "prepare",
        "ran",
        "ran-saturated",
        "receive",
        "receiving",
        "run",
        "start",
    ];
    assert_eq!(read, right);
}
