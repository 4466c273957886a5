//! Digests and copies: segments, limits, calls in a loop. `hash::check_known_answers` has the
//! published digests.

use crate::common;

use common::{names, own_sources};
use overside_ops::hash::{Calls, Inputs, low};
use overside_ops::{Config, Error, HashAlgorithm, Operation, prepare};

/// Returns one digest by one variant, with the source cut into `segments`.
fn digest(algorithm: HashAlgorithm, variant: &str, segments: &[&[u8]]) -> String {
    let mut kernel = common::kernel(Operation::Hash(algorithm), variant);
    let mut out = [0xa5; 40];
    let output = kernel.run(segments, &mut out).unwrap();
    assert_eq!(output.written, algorithm.digest_len());
    assert_eq!(output.value, None);
    assert!(out[output.written..].iter().all(|&byte| byte == 0xa5));
    out[..output.written].iter().map(|byte| format!("{byte:02x}")).collect()
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
                assert_eq!(digest(algorithm, name, &segments), whole, "{algorithm:?} {name}");
            }
            assert_eq!(digest(algorithm, name, &[]), digest(algorithm, name, &[b"", b""]));
        }
    }
}

#[test]
fn copies_are_the_segments_in_a_row() {
    let mut kernel = prepare(&Config::new(Operation::Copy)).unwrap().kernel().unwrap();
    let mut out = [0xa5; 12];
    let output = kernel.run(&[b"one", b"", b"two", b"three"], &mut out).unwrap();
    assert_eq!(output.written, 11);
    assert_eq!(&out, b"onetwothree\xa5");
    assert_eq!(kernel.run(&[], &mut out).unwrap().written, 0);
    let error = kernel.run(&[b"seven bytes", b"and more"], &mut out).unwrap_err();
    assert_eq!(error, Error::OutputTooSmall { capacity: 12 });
}

#[test]
fn limits_are_errors() {
    for operation in Operation::all() {
        let takes_many = matches!(operation, Operation::Hash(_) | Operation::Copy);
        for name in names(operation) {
            let config = common::config(operation, name, &["x"]);
            let mut kernel = prepare(&config).unwrap().kernel().unwrap();
            assert_eq!(kernel.max_segments(), if takes_many { 16 } else { 1 });
            let segments = vec![&b"x"[..]; kernel.max_segments() + 1];
            let error = kernel.run(&segments, &mut [0; 100]).unwrap_err();
            assert!(matches!(error, Error::TooLarge(_)), "{operation} {name}: {error}");
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
                    bytes.iter_mut().zip(&content).for_each(|(to, from)| *to = *from);
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
