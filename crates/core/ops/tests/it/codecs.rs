//! Tests of compression and decompression.

use crate::common;

use common::{FORMATS, checks, kernel, kernel_at, names, noise, own_sources, run, worst_case};
use overside_ops::Operation::{Compress, Decompress};
use overside_ops::{Error, Format, Kernel, variants};
use proptest::prelude::*;

/// Returns a text compressed by every variant, with the format and the variant.
fn streams(content: &[u8]) -> Vec<(Format, &'static str, Vec<u8>)> {
    let mut all = Vec::new();
    for format in FORMATS {
        for name in names(Compress(format)) {
            let mut kernel = kernel(Compress(format), name);
            let (stream, _) = run(&mut *kernel, content, worst_case(content.len())).unwrap();
            all.push((format, name, stream));
        }
    }
    all
}

/// Yields the variants that decompress a format.
fn decompressors(format: Format) -> impl Iterator<Item = (&'static str, Box<dyn Kernel>)> {
    let names = names(Decompress(format)).into_iter();
    names.map(move |name| (name, kernel(Decompress(format), name)))
}

fn assert_corrupt(error: Error, what: &str) {
    assert!(matches!(error, Error::Corrupt(_)), "{what}: {error}");
}

fn assert_restored_by_all(format: Format, made_by: &str, stream: &[u8], content: &[u8]) {
    for (name, mut kernel) in decompressors(format) {
        let restored = run(&mut *kernel, stream, content.len());
        let (restored, output) =
            restored.unwrap_or_else(|e| panic!("{format:?} by {made_by}, {name}: {e}"));
        assert!(restored == content, "{format:?} by {made_by}, restored by {name}");
        assert_eq!(output.value, None);
    }
}

#[test]
fn every_variant_restores_what_every_other_made() {
    for content in [&b""[..], b"x", b"what is said three times", &own_sources(), &noise(200_000)] {
        for (format, made_by, stream) in streams(content) {
            assert_restored_by_all(format, made_by, &stream, content);
        }
    }
}

#[test]
fn every_level_makes_a_valid_stream() {
    let content = &own_sources()[..50_000];
    for format in FORMATS {
        for variant in variants(Compress(format)) {
            let Some((levels, default)) = variant.levels else {
                continue;
            };
            assert!(levels.contains(&default));
            for level in levels {
                let mut kernel = kernel_at(Compress(format), variant.name, Some(level));
                let (stream, _) = run(&mut *kernel, content, worst_case(content.len())).unwrap();
                assert_restored_by_all(format, variant.name, &stream, content);
            }
        }
    }
}

/// ISA-L at levels 1 and 2 is the exception (docs/measure/limits.md).
#[test]
fn the_same_bytes_make_the_same_stream_in_every_kernel() {
    let text = own_sources();
    for format in FORMATS {
        for name in names(Compress(format)) {
            let level = (name == "isal").then_some(3);
            let mut kernels: Vec<_> =
                (0..4).map(|_| kernel_at(Compress(format), name, level)).collect();
            for piece in text.chunks(1024).take(200) {
                let mut streams = kernels.iter_mut().map(|kernel| {
                    let stream = run(&mut **kernel, piece, worst_case(piece.len()));
                    stream.unwrap().0
                });
                let first = streams.next().unwrap();
                assert!(streams.all(|stream| stream == first), "{format:?} by {name}");
            }
        }
    }
}

#[test]
fn real_files_are_restored() {
    let Some(directory) = common::shared("data/silesia") else {
        return;
    };
    for file in std::fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        let content = unzipped(&std::fs::read(&path).unwrap());
        for (format, made_by, stream) in streams(&content[..1 << 20]) {
            assert_restored_by_all(format, made_by, &stream, &content[..1 << 20]);
        }
    }
}

/// Returns the only member of a zip file (APPNOTE.TXT, section 4.3.7), decompressed alike by all variants.
fn unzipped(file: &[u8]) -> Vec<u8> {
    let short = |at: usize| usize::from(u16::from_le_bytes([file[at], file[at + 1]]));
    let long = |at: usize| short(at) | short(at + 2) << 16;
    assert!(file.starts_with(b"PK\x03\x04") && short(8) == 8, "not a deflated member");
    let begin = 30 + short(26) + short(28);
    let stream = &file[begin..begin + long(18)];
    let restored = names(Decompress(Format::Deflate)).into_iter().map(|name| {
        let mut kernel = kernel(Decompress(Format::Deflate), name);
        run(&mut *kernel, stream, long(22)).unwrap().0
    });
    let restored: Vec<_> = restored.collect();
    assert!(restored.iter().all(|content| content.len() == long(22) && *content == restored[0]));
    restored.into_iter().next().unwrap()
}

#[test]
fn frames_of_several_blocks_are_restored() {
    // LZ4's largest block is 4 MiB, so this takes three.
    let content: Vec<u8> = own_sources().into_iter().cycle().take(9 << 20).collect();
    for name in names(Compress(Format::Lz4)) {
        let mut kernel = kernel(Compress(Format::Lz4), name);
        let (stream, _) = run(&mut *kernel, &content, worst_case(content.len())).unwrap();
        assert_restored_by_all(Format::Lz4, name, &stream, &content);
    }
}

#[test]
fn a_stream_fits_where_it_fits() {
    let content = &own_sources()[..20_000];
    for (format, name, stream) in streams(content) {
        let mut kernel = kernel(Compress(format), name);
        for capacity in [0, 1, 5, 100, stream.len() / 2] {
            let error = run(&mut *kernel, content, capacity).unwrap_err();
            assert_eq!(error, Error::OutputTooSmall { capacity }, "{format:?} {name}");
        }
        // A kernel works after an error as before.
        let (again, _) = run(&mut *kernel, content, worst_case(content.len())).unwrap();
        assert!(again == stream, "{format:?} {name}");
    }
}

#[test]
fn a_bomb_takes_no_more_than_the_room_it_gets() {
    let zeros = vec![0; 8 << 20];
    for (format, made_by, stream) in streams(&zeros) {
        assert!(stream.len() < zeros.len() / 100);
        for (name, mut kernel) in decompressors(format) {
            for capacity in [0, 1, 1000, 65_536, zeros.len() - 1] {
                let error = run(&mut *kernel, &stream, capacity).unwrap_err();
                let expected = Error::OutputTooSmall { capacity };
                assert_eq!(error, expected, "{format:?} by {made_by}, {name}");
            }
        }
    }
}

#[test]
fn a_stream_that_is_cut_off_is_corrupt() {
    let content = b"a stream that is cut off, cut off, cut off anywhere is never taken for whole";
    for (format, made_by, stream) in streams(content) {
        for (name, mut kernel) in decompressors(format) {
            for len in 0..stream.len() {
                let result = run(&mut *kernel, &stream[..len], 2 * content.len());
                match result {
                    Err(Error::Corrupt(_)) => {}
                    // A block has no length and no checksum: if it is cut behind literals, it is
                    // still complete. So is a part that is cut behind one of its blocks.
                    Ok((part, _)) if matches!(format, Format::Lz4Block | Format::DeflatePart) => {
                        assert!(content.starts_with(&part));
                    }
                    other => panic!("{format:?} by {made_by}, {name}, {len} bytes: {other:?}"),
                }
            }
            let (whole, _) = run(&mut *kernel, &stream, content.len()).unwrap();
            assert_eq!(whole, content);
        }
    }
}

#[test]
fn what_follows_a_stream_is_corrupt() {
    let content = b"one stream, and nothing else";
    for (format, made_by, stream) in streams(content) {
        if format == Format::Lz4Block {
            // A block ends where its bytes end.
            continue;
        }
        // Two parts make one part.
        let again = if format == Format::DeflatePart { 0 } else { stream.len() };
        for excess in [&b"\0"[..], b"garbage", &stream[..again]] {
            if excess.is_empty() {
                continue;
            }
            let longer = [&stream, excess].concat();
            for (name, mut kernel) in decompressors(format) {
                let error = run(&mut *kernel, &longer, 2 * content.len()).unwrap_err();
                assert_corrupt(error, &format!("{format:?} by {made_by}, {name}"));
            }
        }
    }
}

#[test]
fn checksums_are_checked() {
    let content = noise(1000);
    for (format, made_by, stream) in streams(&content) {
        // Random bytes are stored, so a flipped bit in the middle is in the content.
        let checked = !matches!(format, Format::Deflate | Format::DeflatePart | Format::Lz4Block);
        let mut flipped = stream.clone();
        flipped[stream.len() / 2] ^= 1;
        for (name, mut kernel) in decompressors(format) {
            let result = run(&mut *kernel, &flipped, 2 * content.len());
            if checked {
                let error = result.unwrap_err();
                assert_corrupt(error, &format!("{format:?} by {made_by}, {name}"));
            }
        }
    }
}

#[test]
fn flipped_bits_are_never_worse_than_an_error() {
    let content = &own_sources()[..2000];
    for (_, (format, _, stream)) in (0..).zip(streams(content)) {
        let format = FORMATS.iter().position(|&other| other == format).unwrap() as u8;
        for bit in (0..stream.len() * 8).step_by(7) {
            let mut data = vec![format, 0, 16];
            data.extend(&stream);
            data[3 + bit / 8] ^= 1 << (bit % 8);
            checks::decompress(&data);
        }
    }
}

#[test]
fn giant_claims_cost_nothing() {
    // A Zstandard frame with a window of 2 GiB and a content of 2^60 bytes, one byte in it.
    let zstd = [
        &[0x28, 0xb5, 0x2f, 0xfd, 0b1100_0000, 0xa8][..],
        &(1u64 << 60).to_le_bytes(),
        &[0x09, 0x00, 0x00, b'x'],
    ]
    .concat();
    let mut kernel = kernel(Decompress(Format::Zstd), "zstd");
    let error = run(&mut *kernel, &zstd, 100).unwrap_err();
    assert!(matches!(error, Error::Corrupt(_) | Error::OutputTooSmall { .. }), "{error}");
    // An LZ4 frame whose header gives a size of 2^60 bytes, with a content of one byte.
    let lz4 = [
        &[0x04, 0x22, 0x4d, 0x18, 0x68, 0x70][..],
        &(1u64 << 60).to_le_bytes(),
        &[0x9e],
        &[1, 0, 0, 0x80, b'x', 0, 0, 0, 0],
    ]
    .concat();
    for name in names(Decompress(Format::Lz4)) {
        let mut kernel = common::kernel(Decompress(Format::Lz4), name);
        let error = run(&mut *kernel, &lz4, 100).unwrap_err();
        assert_corrupt(error, name);
    }
}

#[test]
fn frames_that_need_a_dictionary_or_hold_nothing_are_corrupt() {
    let skippable = [&[0x50, 0x2a, 0x4d, 0x18][..], &4u32.to_le_bytes(), b"skip"].concat();
    let zlib_with_dictionary = [0x78, 0xbb, 0, 0, 0, 1, 3, 0, 0, 0, 0, 1];
    let cases = [
        (Format::Lz4, &skippable[..]),
        (Format::Zstd, &skippable),
        (Format::Zlib, &zlib_with_dictionary),
    ];
    for (format, stream) in cases {
        for (name, mut kernel) in decompressors(format) {
            let error = run(&mut *kernel, stream, 100).unwrap_err();
            assert_corrupt(error, &format!("{format:?} {name}"));
        }
    }
}

/// Bytes with runs and repeats, typical input of compressors.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let run = (any::<u8>(), 1..300usize).prop_map(|(byte, len)| vec![byte; len]);
    let text = "[a-e ]{0,40}".prop_map(String::into_bytes);
    let bytes = prop::collection::vec(any::<u8>(), 0..100);
    prop::collection::vec(prop_oneof![run, text, bytes], 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_content_is_restored(content in content(), format in 0..6u8, level: u8) {
        checks::compress(&[&[format, level], &content[..]].concat());
    }

    #[test]
    fn any_bytes_are_restored_or_refused(
        content in content(),
        format in 0..6usize,
        (from, to) in (0..200usize, 0..200usize),
        new in any::<u8>(),
    ) {
        for name in names(Compress(FORMATS[format])) {
            let mut kernel = kernel(Compress(FORMATS[format]), name);
            let (mut stream, _) = run(&mut *kernel, &content, worst_case(content.len())).unwrap();
            // Damages the stream: changes one byte and moves another.
            let len = stream.len();
            stream[from % len] = new;
            let byte = stream.remove(to % len);
            stream.insert(from % len, byte);
            checks::decompress(&[&[format as u8, 0xff, 0x3f], &stream[..]].concat());
        }
    }
}
