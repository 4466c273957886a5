//! Digests and copies, against published values.

use crate::common;

use common::{names, own_sources};
use overside_ops::hash::{Calls, Inputs, low};
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
    // SHA-256: FIPS 180-4's examples. MD5: RFC 1321's. CRC-32: the catalogue's check value
    // (CRC-32/ISO-HDLC). xxHash: the empty input's digests from the specification; the others from
    // xxhsum 0.8. FNV-1a: draft-eastlake-fnv. MurmurHash3: SMHasher's. CityHash: k2 and the like,
    // from its source.
    use HashAlgorithm as A;
    let fox: &[u8] = b"The quick brown fox jumps over the lazy dog";
    let known: [(A, &[u8], &str); 25] = [
        (
            A::Sha256,
            b"",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
        (
            A::Sha256,
            b"abc",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ),
        (
            A::Sha256,
            b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        ),
        (A::Md5, b"", "d41d8cd98f00b204e9800998ecf8427e"),
        (A::Md5, b"abc", "900150983cd24fb0d6963f7d28e17f72"),
        (A::Crc32, b"", "00000000"),
        (A::Crc32, b"123456789", "cbf43926"),
        (A::Xxh3, b"", "2d06800538d394c2"),
        (A::Xxh3, b"abc", "78af5f94892f3950"),
        (A::Xxh3Long, b"", "99aa06d3014798d86001c324468d497f"),
        (A::Xxh32, b"", "02cc5d05"),
        (A::Xxh32, b"abc", "32d153ff"),
        (A::Xxh64, b"", "ef46db3751d8e999"),
        (A::Xxh64, b"abc", "44bc2cf5ad770999"),
        (A::City32, b"", "dc56d17a"),
        (A::City64, b"", "9ae16a3b2f90404f"),
        (A::Murmur3Short, b"Hello, world!", "c0363e43"),
        (A::Murmur3Short, fox, "2e4ff723"),
        (A::Murmur3, fox, "7a433ca9c49a9347e34bbc7bbc071b6c"),
        (A::Fnv32, b"a", "e40c292c"),
        (A::Fnv32, b"foobar", "bf9cf968"),
        (A::Fnv64, b"a", "af63dc4c8601ec8c"),
        (A::Fnv64, b"foobar", "85944171f73967e8"),
        (A::Fnv128, b"a", "d228cb696f1a8caf78912b704e4a8964"),
        (A::Fnv128, b"", "6c62272e07bb014262b821756295c58d"),
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
    for algorithm in HashAlgorithm::ALL {
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
    for algorithm in HashAlgorithm::ALL {
        for name in names(Operation::Hash(algorithm)) {
            let mut kernel = common::kernel(Operation::Hash(algorithm), name);
            let capacity = algorithm.digest_len() - 1;
            let error = kernel.run(&[b"x"], &mut vec![0; capacity]).unwrap_err();
            assert_eq!(error, Error::OutputTooSmall { capacity });
        }
    }
}

#[test]
fn calls_in_a_loop_are_those_of_the_kernels() {
    let content = own_sources();
    for algorithm in HashAlgorithm::ALL {
        for name in names(Operation::Hash(algorithm)) {
            for (len, count) in [(1, 4), (16, 64), (100, 2), (4096, 1)] {
                let inputs = Inputs::new(len, count, |bytes| {
                    bytes
                        .iter_mut()
                        .zip(&content)
                        .for_each(|(to, from)| *to = *from);
                });
                let mut kernel = common::kernel(Operation::Hash(algorithm), name);
                let digests: Vec<u64> = (inputs.iter())
                    .map(|input| {
                        let mut digest = vec![0; algorithm.digest_len()];
                        kernel.run(&[input], &mut digest).unwrap();
                        low(&digest)
                    })
                    .collect();
                let calls = Calls::new(algorithm, name).unwrap();
                let (mut at, mut chained, mut in_a_row) = (0, 0_u64, 0_u64);
                for call in 0..1000 {
                    chained = chained.wrapping_add(digests[at]);
                    at = inputs.after(digests[at]);
                    in_a_row = in_a_row.wrapping_add(digests[call % count]);
                }
                assert_eq!(calls.chain(&inputs, 1000), chained, "{algorithm:?} {name}");
                assert_eq!(calls.row(&inputs, 1000), in_a_row, "{algorithm:?} {name}");
                assert_eq!(calls.variant.name, name);
            }
        }
    }
    let unknown = Calls::new(HashAlgorithm::Md5, "teleport");
    assert!(matches!(unknown, Err(Error::UnknownVariant { .. })));
}
