//! Digests and copies, against published values.

mod common;

use common::{names, own_sources};
use overside_ops::{Config, Error, HashAlgorithm, Operation, prepare};

/// One digest by one variant, the source cut into `segments`.
fn digest(algorithm: HashAlgorithm, variant: &str, segments: &[&[u8]]) -> String {
    let mut kernel = common::kernel(Operation::Hash(algorithm), variant);
    let mut out = [0xa5; 40];
    let output = kernel.run(segments, &mut out).unwrap();
    assert_eq!(output.written, algorithm.digest_len());
    assert_eq!(output.value, None);
    assert!(out[output.written..].iter().all(|&byte| byte == 0xa5));
    out[..output.written]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

#[test]
fn published_digests() {
    // SHA-256: FIPS 180-4's examples. CRC-32: the catalogue's check value (CRC-32/ISO-HDLC).
    // XXH3: the empty input's digest from the specification; the others from xxhsum 0.8.
    let known: [(HashAlgorithm, &[u8], &str); 7] = [
        (
            HashAlgorithm::Sha256,
            b"",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
        (
            HashAlgorithm::Sha256,
            b"abc",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            HashAlgorithm::Sha256,
            b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        ),
        (HashAlgorithm::Crc32, b"", "00000000"),
        (HashAlgorithm::Crc32, b"123456789", "cbf43926"),
        (HashAlgorithm::Xxh3, b"", "2d06800538d394c2"),
        (HashAlgorithm::Xxh3, b"abc", "78af5f94892f3950"),
    ];
    for (algorithm, source, expected) in known {
        for name in names(Operation::Hash(algorithm)) {
            assert_eq!(
                digest(algorithm, name, &[source]),
                expected,
                "{algorithm:?} {name}"
            );
        }
    }
}

#[test]
fn segments_are_hashed_as_one() {
    let content = own_sources();
    for algorithm in [
        HashAlgorithm::Xxh3,
        HashAlgorithm::Crc32,
        HashAlgorithm::Sha256,
    ] {
        let names = names(Operation::Hash(algorithm));
        let whole = digest(algorithm, names[0], &[&content]);
        for name in names {
            assert_eq!(digest(algorithm, name, &[&content]), whole);
            for len in [1, 7, 300, content.len() / 16 + 1] {
                let head = content.len() - (len * 15).min(content.len());
                let (first, rest) = content.split_at(head);
                let segments: Vec<&[u8]> = [first].into_iter().chain(rest.chunks(len)).collect();
                assert_eq!(
                    digest(algorithm, name, &segments),
                    whole,
                    "{algorithm:?} {name}"
                );
            }
            assert_eq!(
                digest(algorithm, name, &[]),
                digest(algorithm, name, &[b"", b""])
            );
        }
    }
}

#[test]
fn copies_are_the_segments_in_a_row() {
    let mut kernel = prepare(&Config::new(Operation::Copy))
        .unwrap()
        .kernel()
        .unwrap();
    let mut out = [0xa5; 12];
    let output = kernel
        .run(&[b"one", b"", b"two", b"three"], &mut out)
        .unwrap();
    assert_eq!(output.written, 11);
    assert_eq!(&out, b"onetwothree\xa5");
    assert_eq!(kernel.run(&[], &mut out).unwrap().written, 0);
    let error = kernel
        .run(&[b"seven bytes", b"and more"], &mut out)
        .unwrap_err();
    assert_eq!(error, Error::OutputTooSmall { capacity: 12 });
}

#[test]
fn limits_are_errors() {
    for operation in Operation::all() {
        let takes_many = matches!(operation, Operation::Hash(_) | Operation::Copy);
        for name in names(operation) {
            let config = Config {
                variant: name.into(),
                patterns: vec!["x".into()],
                ..Config::new(operation)
            };
            let mut kernel = prepare(&config).unwrap().kernel().unwrap();
            assert_eq!(kernel.max_segments(), if takes_many { 16 } else { 1 });
            let segments = vec![&b"x"[..]; kernel.max_segments() + 1];
            let error = kernel.run(&segments, &mut [0; 100]).unwrap_err();
            assert!(
                matches!(error, Error::TooLarge(_)),
                "{operation} {name}: {error}"
            );
        }
    }
    for algorithm in [
        HashAlgorithm::Xxh3,
        HashAlgorithm::Crc32,
        HashAlgorithm::Sha256,
    ] {
        for name in names(Operation::Hash(algorithm)) {
            let mut kernel = common::kernel(Operation::Hash(algorithm), name);
            let capacity = algorithm.digest_len() - 1;
            let error = kernel.run(&[b"x"], &mut vec![0; capacity]).unwrap_err();
            assert_eq!(error, Error::OutputTooSmall { capacity });
        }
    }
}
