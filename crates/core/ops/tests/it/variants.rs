//! Tests of the list of variants and of the choice among them.

use crate::common;

use overside_ops::{Config, Error, Format, HashAlgorithm, MatchKind, Operation, prepare, variants};

#[test]
fn every_operation_has_the_libraries_it_promises() {
    let has = |operation, promised: &[&str]| {
        let names = common::names(operation);
        let missing = promised.iter().find(|name| !names.contains(name));
        assert_eq!(missing, None, "{operation} has {names:?}");
    };
    for format in [Format::Deflate, Format::Zlib, Format::Gzip] {
        for operation in [Operation::Compress(format), Operation::Decompress(format)] {
            has(operation, &["isal", "libdeflate", "zlib"]);
        }
    }
    for operation in [Operation::Compress, Operation::Decompress] {
        has(operation(Format::DeflatePart), &["isal", "zlib"]);
        has(operation(Format::Lz4Block), &["lz4", "lz4-flex"]);
        has(operation(Format::Lz4), &["lz4", "lz4-flex"]);
        has(operation(Format::Zstd), &["zstd"]);
    }
    for kind in MatchKind::ALL {
        has(Operation::Match(kind), &["literal", "regex", "re2"]);
    }
    has(Operation::Hash(HashAlgorithm::Crc32), &["crc32fast", "zlib"]);
    has(Operation::Copy, &["memcpy"]);
}

#[test]
fn a_variants_name_is_its_own() {
    for operation in Operation::all() {
        let mut names = common::names(operation);
        assert!(!names.is_empty(), "{operation}");
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count, "{operation}");
    }
}

#[test]
fn what_runs_is_what_was_asked_for() {
    for operation in Operation::all() {
        for variant in variants(operation) {
            let config = common::config(operation, variant.name, &["x"]);
            let prepared = prepare(&config).unwrap();
            assert_eq!(prepared.variant().name, variant.name);
            assert_eq!(prepared.variant().library, variant.library);
        }
    }
}

#[test]
fn auto_is_the_first_and_says_what_it_is() {
    for operation in Operation::all() {
        let config = common::config(operation, "auto", &["x"]);
        let prepared = prepare(&config).unwrap();
        let first = variants(operation).remove(0);
        assert_eq!(prepared.variant().name, first.name);
        for variant in variants(operation) {
            assert_ne!(variant.name, "auto");
            assert!(!variant.library.is_empty());
            let version = &variant.version;
            assert!(!version.is_empty() && version != "unknown", "{}", variant.name);
            let has_levels = variant.levels.is_some();
            let may_have = matches!(operation, Operation::Compress(_));
            assert!(may_have || !has_levels, "{operation} {}", variant.name);
        }
    }
}

#[test]
fn auto_takes_the_library_that_has_the_level() {
    let at = |format, level| {
        let config = Config { level: Some(level), ..Config::new(Operation::Compress(format)) };
        prepare(&config).map(|prepared| prepared.variant().name)
    };
    for format in [Format::Deflate, Format::Zlib, Format::Gzip] {
        assert_eq!(at(format, 1), Ok("isal"));
        assert_eq!(at(format, 3), Ok("isal"));
        assert_eq!(at(format, 4), Ok("libdeflate"));
        assert_eq!(at(format, 12), Ok("libdeflate"));
        let error = at(format, 13).unwrap_err();
        assert_eq!(error.to_string(), "libdeflate has levels 0 to 12, not 13");
    }
    assert_eq!(at(Format::DeflatePart, 4), Ok("zlib"));
    assert_eq!(at(Format::Lz4Block, 9), Ok("lz4"));
    let error = at(Format::Lz4Block, 13).unwrap_err();
    assert_eq!(error.to_string(), "lz4 has levels 1 to 12, not 13");
}

#[test]
fn an_unknown_variant_is_told_the_known_ones() {
    let config =
        Config { variant: "gzip".into(), ..Config::new(Operation::Compress(Format::Zlib)) };
    let error = prepare(&config).err().unwrap();
    let known = common::names(config.operation).join(", ");
    let expected = format!("compress-zlib has no variant \"gzip\"; there are: {known}");
    assert_eq!(error.to_string(), expected);
}

#[test]
fn levels_are_checked() {
    for operation in Operation::all() {
        let Operation::Compress(_) = operation else {
            continue;
        };
        for variant in variants(operation) {
            let at = |level| {
                let config = Config {
                    variant: variant.name.into(),
                    level: Some(level),
                    ..Config::new(operation)
                };
                prepare(&config).err()
            };
            let Some((levels, _)) = &variant.levels else {
                assert_eq!(at(1), Some(Error::NoLevels { variant: variant.name }));
                continue;
            };
            let (min, max) = (*levels.start(), *levels.end());
            assert_eq!((at(min), at(max)), (None, None));
            for level in [min.checked_sub(1), Some(max + 1), Some(u32::MAX)].into_iter().flatten() {
                let expected = Error::Level { variant: variant.name, level, min, max };
                assert_eq!(at(level), Some(expected));
            }
        }
    }
}

#[test]
fn kernels_of_one_preparation_run_in_their_own_threads() {
    for operation in Operation::all() {
        for variant in variants(operation) {
            let config = common::config(operation, variant.name, &["o+ne"]);
            let prepared = prepare(&config).unwrap();
            let run = || {
                let mut kernel = prepared.kernel().unwrap();
                (0..20).map(|_| kernel.run(&[b"one\nsome\none"], &mut [0; 200])).collect::<Vec<_>>()
            };
            let results = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(run)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            });
            let same = results.iter().flatten().all(|result| *result == results[0][0]);
            assert!(same, "{operation} {}", variant.name);
        }
    }
}

#[test]
fn the_version_of_a_crate_that_cannot_be_asked_is_the_locked_one() {
    // Versions by variant. The libraries of the others report their version.
    let crates = [
        ("aes-gcm", "aes-gcm"),
        ("crc32fast", "crc32fast"),
        ("literal", "memchr"),
        ("lz4-flex", "lz4_flex"),
        ("md5", "md-5"),
        ("regex", "regex"),
        ("ring", "ring"),
        ("sha2", "sha2"),
        ("xxhash", "xxhash-rust"),
        ("zlib-rs", "zlib-rs"),
    ];
    let lock = include_str!("../../../../../Cargo.lock");
    let by_groups = Operation::Match(MatchKind::Groups);
    // For groups, some engines are combined with a second one.
    let operations = Operation::all().into_iter().filter(|one| *one != by_groups);
    let all: Vec<_> = operations.flat_map(variants).collect();
    for (variant, name) in crates {
        let of_crate: Vec<_> = all.iter().filter(|one| one.name == variant).collect();
        assert!(!of_crate.is_empty(), "{variant}");
        for one in of_crate {
            let locked = format!("name = \"{name}\"\nversion = \"{}\"\n", one.version);
            assert!(lock.contains(&locked), "{variant} is not {}", one.version);
        }
    }
}
