//! Helpers that several tests use.
#![allow(dead_code, unused_imports)]

pub(crate) mod checks;

use std::fs;
use std::path::Path;

use overside_ops::{Config, Kernel, Operation, prepare, variants};

pub(crate) use overside_testkit::data::{noise, shared};

pub(crate) use checks::{FORMATS, config, guarded as run, kernel};

/// Makes a kernel of the named variant at a level.
pub(crate) fn kernel_at(
    operation: Operation,
    variant: &str,
    level: Option<u32>,
) -> Box<dyn Kernel> {
    let config = Config { level, ..config(operation, variant, &[]) };
    prepare(&config).unwrap().kernel().unwrap()
}

/// Returns the names of an operation's variants.
pub(crate) fn names(operation: Operation) -> Vec<&'static str> {
    variants(operation).iter().map(|variant| variant.name).collect()
}

/// Returns a room that suffices for any codec's worst case.
pub(crate) fn worst_case(len: usize) -> usize {
    len + len / 8 + 1024
}

/// Returns real data that every checkout has: this crate's own sources.
pub(crate) fn own_sources() -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut all = Vec::new();
    for directory in ["src", "src/deflate", "src/lz4", "src/matching", "tests"] {
        let mut files: Vec<_> = fs::read_dir(root.join(directory))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        for file in files.iter().filter(|file| file.is_file()) {
            all.extend(fs::read(file).unwrap());
        }
    }
    assert!(all.len() > 50_000);
    all
}
