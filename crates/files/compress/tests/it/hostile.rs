//! Tests that input that is cut off, flipped or made up does no harm.

#[path = "common/checks.rs"]
mod checks;
use crate::common;

use std::fs;
use std::ops::Range;
use std::path::Path;

use common::{compressed, decompressed, noise, options, text};
use overside_compress::{Container, Error, Options, decompress, gzip, zstd};
use overside_testkit::assert_contains;
use proptest::prelude::*;

/// A small file of each format.
fn files() -> Vec<(Container, Vec<u8>, Vec<u8>)> {
    let content = [text(3000), noise(500), text(2000)].concat();
    let options = |container| Options { chunk_bytes: 2048, ..options(container) };
    Container::ALL
        .map(|container| {
            let (bytes, _) = compressed(&content, &options(container));
            (container, content.clone(), bytes)
        })
        .into()
}

#[test]
fn what_is_cut_off_is_truncated_and_what_came_before_is_right() {
    for (container, content, bytes) in files() {
        let begins: Vec<usize> =
            (headers(container, &bytes).iter().flatten()).map(|header| header.start).collect();
        let near = begins.iter().flat_map(|begin| [*begin, begin + 1]);
        for len in near.chain((0..bytes.len()).step_by(7)).chain([bytes.len() - 1]) {
            if len == 0 {
                continue;
            }
            let (output, result) = checks::pushed(Some(container), &bytes[..len], 100);
            assert!(content.starts_with(&output), "{container} {len}");
            match result {
                Err(Error::Truncated { .. }) => {}
                // Between two members it looks whole.
                Ok(summary) => {
                    assert!(begins.contains(&len), "{container} {len}");
                    assert_eq!(summary.ignored, None);
                }
                Err(error) => panic!("{container} {len}: {error}"),
            }
        }
    }
}

/// Returns where the headers of a file's members are, which mark members that can be decompressed
/// by themselves. Returns `None` for formats that are not verified member by member.
fn headers(container: Container, bytes: &[u8]) -> Option<Vec<Range<usize>>> {
    let mut headers = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (header_bytes, member_bytes) = match container {
            Container::Gzip => {
                let header = gzip::Header::parse(rest).unwrap().unwrap();
                (header.len, header.sizes.unwrap().member as usize)
            }
            Container::Zstd => {
                let header = zstd::Header::parse(rest).unwrap().unwrap();
                (header.len, header.frame_bytes(rest).unwrap().unwrap())
            }
            Container::Zlib | Container::Lz4 => return None,
        };
        headers.push(at..at + header_bytes);
        at += member_bytes;
    }
    Some(headers)
}

#[test]
fn a_flipped_bit_is_noticed_before_its_member_is_written() {
    for (container, content, bytes) in files() {
        let headers = headers(container, &bytes);
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            let (output, result) = checks::pushed(Some(container), &flipped, 1 << 20);
            match result {
                // Bits that say nothing of the content: the time, the system, a hint.
                Ok(_) if output == content => {}
                // A member that no longer looks like one ends the file.
                Ok(summary) => assert!(summary.ignored.is_some(), "{container} {at}"),
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    // With another header a member may have to be decompressed in pieces.
                    let strict = (headers.as_ref())
                        .is_some_and(|all| !all.iter().any(|header| header.contains(&at)));
                    assert!(!strict || content.starts_with(&output), "{container} {at}: {error}");
                }
            }
        }
    }
}

/// Our own gzip member with other lengths in its header.
fn lying(member: u32, content: u32) -> Vec<u8> {
    let (mut bytes, _) = compressed(&text(5000), &Options::default());
    assert_eq!(bytes[12..16], *b"OV\x08\0");
    bytes[16..20].copy_from_slice(&member.to_le_bytes());
    bytes[20..24].copy_from_slice(&content.to_le_bytes());
    bytes
}

#[test]
fn members_that_lie_about_their_lengths_are_refused() {
    let (good, _) = compressed(&text(5000), &Options::default());
    let len = good.len() as u32;
    assert_eq!(lying(len, 5000), good);
    for (member, content) in [(len, 4999), (len, 5001), (len, 0), (len - 1, 5000), (0, 5000)] {
        let error = decompressed(&lying(member, content)).unwrap_err();
        assert!(matches!(error, Error::Corrupt { .. }), "{member} {content}: {error}");
    }
    for member in [len + 1, 1 << 20, 60 << 20] {
        let error = decompressed(&lying(member, 5000)).unwrap_err();
        assert!(matches!(error, Error::Truncated { .. }), "{member}: {error}");
    }
    // More than is ever held at once: it is read in pieces.
    let error = decompressed(&lying(u32::MAX, 5000)).unwrap_err();
    assert_contains(&error, "it has another length than its header says");
    // More than DEFLATE can stand for.
    let error = decompressed(&lying(len, u32::MAX)).unwrap_err();
    assert_contains(&error, "a length that cannot be");
}

#[test]
fn output_is_limited_where_that_is_asked_for() {
    for container in Container::ALL {
        let content = vec![0; 100_000];
        let (bytes, _) = compressed(&content, &options(container));
        let limited = |limit| {
            let options = Options { max_output_bytes: Some(limit), ..options(container) };
            let mut out = Vec::new();
            let result = decompress(&bytes[..], &mut out, &options);
            assert!(out.len() as u64 <= limit, "{container}");
            result
        };
        limited(100_000).unwrap();
        let error = limited(99_999).unwrap_err();
        assert!(matches!(error, Error::TooLong { limit: 99_999 }), "{error}");
    }
}

#[test]
fn the_corpora_of_the_fuzzer_hold() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus");
    for (target, check) in [
        ("members", checks::gzip_header as fn(&[u8])),
        ("members", checks::frame_header),
        ("streams", checks::decompression),
    ] {
        let mut count = 0;
        for entry in fs::read_dir(root.join(target)).unwrap() {
            check(&fs::read(entry.unwrap().path()).unwrap());
            count += 1;
        }
        assert!(count > 10, "{target}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn headers_of_any_bytes_are_read_or_refused(
        start in prop::sample::select(vec![
            &[0x1f, 0x8b, 8][..], &[4, 0x22, 0x4d, 0x18], &[0x28, 0xb5, 0x2f, 0xfd], &[],
        ]),
        rest in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let bytes = [start, &rest].concat();
        checks::gzip_header(&bytes);
        checks::frame_header(&bytes);
    }

    #[test]
    fn damaged_streams_are_the_same_in_pieces(
        format in 0..4u8,
        piece in any::<u8>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        end in any::<prop::sample::Index>(),
    ) {
        let (_, _, mut bytes) = files().swap_remove(usize::from(format));
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(end.index(bytes.len() * 2));
        checks::decompression(&[&[format, piece], &bytes[..]].concat());
    }

    #[test]
    fn pieces_of_any_length_make_the_same_file(
        container in prop::sample::select(Container::ALL.to_vec()),
        chunk_bytes in 1024..20_000usize,
        lengths in prop::collection::vec(0..30_000usize, 0..10),
        piece in 1..5000usize,
    ) {
        let content = text(lengths.iter().sum());
        // ISA-L's first levels do not make the same stream each time (docs/measure/limits.md).
        let options = Options { chunk_bytes, level: Some(3), ..options(container) };
        let mut compressor = overside_compress::Compressor::new(Vec::new(), &options).unwrap();
        let mut at = 0;
        for len in &lengths {
            compressor.write(&content[at..at + len]).unwrap();
            at += len;
        }
        let (bytes, summary) = compressor.finish().unwrap();
        prop_assert_eq!(summary.bytes_in, content.len() as u64);
        prop_assert!(bytes == compressed(&content, &options).0);
        let (back, _) = checks::pushed(None, &bytes, piece);
        prop_assert!(back == content);
    }
}
