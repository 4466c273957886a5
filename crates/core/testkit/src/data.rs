//! Data to work on.

use std::path::{Path, PathBuf};
use std::{env, fs};

use overside_base::Random;

const WORDS: [&str; 14] = [
    "road", "closed", "at", "the", "accident", "on", "Exit", "ramp", "to", "slow", "traffic",
    "near", "needle", "hay",
];

/// Lines of words that compress, another text for each seed.
pub fn text(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut text = Vec::with_capacity(len + 32);
    while text.len() < len {
        let word = WORDS[random.below(WORDS.len() as u64) as usize];
        text.extend_from_slice(word.as_bytes());
        match random.below(12) {
            0 => text.extend(format!(" {}\n", random.below(1 << 16)).bytes()),
            1 => text.push(b'\n'),
            _ => text.push(b' '),
        }
    }
    text.truncate(len);
    text
}

/// Bytes that no codec makes smaller.
pub fn noise(len: usize) -> Vec<u8> {
    Random::new(11).bytes(len)
}

/// A file or folder of `../shared` beside the repository, or of the folder that `OVERSIDE_SHARED`
/// names; `None`, and a message about it, if it is not there.
pub fn shared(path: &str) -> Option<PathBuf> {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared");
    let root = env::var_os("OVERSIDE_SHARED").map_or_else(default, PathBuf::from);
    let path = root.join(path);
    if !path.exists() {
        eprintln!("skipped: {} is not there", path.display());
        return None;
    }
    Some(path)
}

/// Real data that every checkout has: the sources of this repository's crates, in the order of
/// their paths.
pub fn sources() -> Vec<u8> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    let all: Vec<u8> = files.iter().flat_map(|file| fs::read(file).unwrap_or_default()).collect();
    assert!(all.len() > 50_000, "a checkout has sources");
    all
}
