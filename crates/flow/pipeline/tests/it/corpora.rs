//! Replays of fuzzing corpora. The inputs, and copies with some bytes changed, must pass the
//! checks.

use std::path::Path;

use overside_base::Random;

use crate::reader_checks;

/// Replays a corpus, and `copies` changed copies of each of its files.
fn replay(name: &str, least: usize, copies: usize, check: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus").join(name);
    let mut random = Random::new(17);
    let mut files: Vec<_> = std::fs::read_dir(corpus)
        .expect("a corpus")
        .map(|file| file.expect("a file").path())
        .collect();
    files.sort();
    assert!(files.len() >= least, "{} of {name}", files.len());
    for file in files {
        let bytes = std::fs::read(file).expect("bytes");
        check(&bytes);
        for _ in 0..copies {
            let mut changed = bytes.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(changed.len().max(1) as u64) as usize;
                if let Some(byte) = changed.get_mut(at) {
                    *byte = random.next_u64() as u8;
                }
            }
            check(&changed);
        }
    }
}

#[test]
fn any_bytes_are_a_table_or_refused() {
    replay("flow_table", 25, 20, reader_checks::table);
}

#[test]
fn any_text_is_an_expression_or_a_key_or_refused() {
    replay("flow_text", 20, 100, reader_checks::text);
}
