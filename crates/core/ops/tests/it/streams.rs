//! Tests of the decoders that take a stream in pieces.

use crate::common;

use common::{kernel, names, noise, own_sources, run, worst_case};
use overside_ops::Operation::{Compress, Decompress};
use overside_ops::checksum::{adler32, adler32_combine, crc32};
use overside_ops::{DeflateJoiner, Error, Format, Step, StreamDecoder, stream_decoder};
use proptest::prelude::*;

const FORMATS: [Format; 3] = [Format::Deflate, Format::Lz4, Format::Zstd];

fn compressed(format: Format, variant: &str, content: &[u8]) -> Vec<u8> {
    let mut kernel = kernel(Compress(format), variant);
    run(&mut *kernel, content, worst_case(content.len())).unwrap().0
}

/// Decodes in pieces of `take` bytes into rooms of `room` bytes. Returns the content and the number
/// of bytes of the stream; `None` if the stream does not end.
fn decoded(
    decoder: &mut dyn StreamDecoder,
    stream: &[u8],
    take: usize,
    room: usize,
) -> Result<Option<(Vec<u8>, usize)>, Error> {
    decoder.reset()?;
    let (mut content, mut at) = (Vec::new(), 0);
    let mut room = vec![0; room];
    loop {
        let piece = &stream[at..stream.len().min(at + take)];
        let step = decoder.step(piece, &mut room)?;
        assert!(step.taken <= piece.len() && step.made <= room.len());
        assert!(step.unread <= Step::MAX_UNREAD);
        at += step.taken;
        content.extend(&room[..step.made]);
        if step.ended {
            return Ok(Some((content, at - step.unread)));
        }
        if (step.taken, step.made) == (0, 0) {
            assert_eq!(at, stream.len(), "it wants more than there is");
            return Ok(None);
        }
    }
}

#[test]
fn a_stream_in_pieces_is_the_same_stream() {
    let mut content = own_sources();
    content.extend(noise(100_000));
    for content in [&b""[..], b"x", &content] {
        for format in FORMATS {
            for variant in names(Compress(format)) {
                let mut stream = compressed(format, variant, content);
                let len = stream.len();
                stream.extend(b"what follows the stream");
                let mut decoder = stream_decoder(format).unwrap();
                for (take, room) in [(1, 70_000), (7, 1000), (70_000, 1), (1 << 20, 1 << 20)] {
                    let result = decoded(&mut *decoder, &stream, take, room);
                    let (restored, end) = result.unwrap().unwrap();
                    assert!(restored == content, "{format:?} {variant} {take} {room}");
                    assert_eq!(end, len, "{format:?} {variant} {take} {room}");
                }
            }
        }
    }
}

#[test]
fn a_stream_that_is_cut_off_does_not_end() {
    let content = &own_sources()[..50_000];
    for format in FORMATS {
        let stream = compressed(format, "auto", content);
        let mut decoder = stream_decoder(format).unwrap();
        for len in (0..stream.len()).step_by(997).chain([stream.len() - 1]) {
            let result = decoded(&mut *decoder, &stream[..len], 4096, 4096);
            assert_eq!(result.unwrap().map(|(_, end)| end), None, "{format:?} {len}");
        }
    }
}

#[test]
fn only_formats_with_a_decoder_for_streams_have_one() {
    for format in [Format::Gzip, Format::DeflatePart, Format::Lz4Block] {
        assert!(stream_decoder(format).is_err());
    }
}

#[test]
fn parts_make_a_stream_that_ends_with_an_empty_block() {
    let contents = [own_sources(), Vec::new(), noise(200_000), b"x".to_vec()];
    for variant in names(Compress(Format::DeflatePart)) {
        let mut stream = Vec::new();
        for content in &contents {
            let part = compressed(Format::DeflatePart, variant, content);
            stream.extend(part);
        }
        stream.extend([1, 0, 0, 0xff, 0xff]);
        for decompressor in names(Decompress(Format::Deflate)) {
            let mut kernel = kernel(Decompress(Format::Deflate), decompressor);
            let whole = contents.concat();
            let (restored, _) = run(&mut *kernel, &stream, whole.len()).unwrap();
            assert!(restored == whole, "{variant} {decompressor}");
        }
    }
}

#[test]
fn streams_become_parts_wherever_their_bits_end() {
    let text = own_sources();
    let mut joiner = DeflateJoiner::new().unwrap();
    for variant in names(Compress(Format::Deflate)) {
        let contents = (0..200).map(|len| text[..len].to_vec()).chain([
            text.clone(),
            noise(200_000),
            Vec::new(),
        ]);
        let (mut whole, mut stream) = (Vec::new(), Vec::new());
        for content in contents {
            let one = compressed(Format::Deflate, variant, &content);
            let part = joiner.part(&one, content.len()).unwrap();
            assert!(part.len() <= one.len() + 5, "{variant}");
            for decompressor in names(Decompress(Format::DeflatePart)) {
                let mut kernel = kernel(Decompress(Format::DeflatePart), decompressor);
                let (restored, _) = run(&mut *kernel, part, content.len()).unwrap();
                assert!(restored == content, "{variant} {decompressor}");
            }
            whole.extend(content);
            stream.extend(part);
        }
        stream.extend([1, 0, 0, 0xff, 0xff]);
        let mut kernel = kernel(Decompress(Format::Deflate), "auto");
        let (restored, _) = run(&mut *kernel, &stream, whole.len()).unwrap();
        assert!(restored == whole, "{variant}");
    }
}

#[test]
fn what_is_left_behind_a_streams_last_bit_is_no_block() {
    let mut joiner = DeflateJoiner::new().unwrap();
    // A fixed block without content ends two bits into its second byte.
    let clean = joiner.part(&[3, 0], 0).unwrap().to_vec();
    assert_eq!(joiner.part(&[3, 0xfc], 0).unwrap(), clean);
}

#[test]
fn only_whole_streams_become_parts() {
    let content = &own_sources()[..100_000];
    let stream = compressed(Format::Deflate, "zlib", content);
    let part = compressed(Format::DeflatePart, "zlib", content);
    let longer = [&stream[..], &[0]].concat();
    let mut invalid = stream.clone();
    invalid[0] |= 6;
    let mut joiner = DeflateJoiner::new().unwrap();
    let len = content.len();
    for (what, wrong, len) in [
        ("cut", &stream[..stream.len() - 1], len),
        ("half", &stream[..stream.len() / 2], len),
        ("nothing", &[], 0),
        ("a part", &part, len),
        ("more behind it", &longer, len),
        ("an invalid block", &invalid, len),
        ("shorter than said", &stream, len + 1),
        ("longer than said", &stream, len - 1),
    ] {
        let error = joiner.part(wrong, len).unwrap_err();
        assert!(matches!(error, Error::Corrupt(_)), "{what}: {error}");
    }
    // Earlier errors have no effect.
    assert!(joiner.part(&stream, len).is_ok());
}

#[test]
fn a_part_has_neither_a_last_block_nor_half_a_block() {
    let content = &own_sources()[..20_000];
    let part = compressed(Format::DeflatePart, "auto", content);
    let stream = compressed(Format::Deflate, "auto", content);
    for variant in names(Decompress(Format::DeflatePart)) {
        let mut kernel = kernel(Decompress(Format::DeflatePart), variant);
        for wrong in [&stream[..], &part[..part.len() - 1], &part[..part.len() / 2]] {
            let error = run(&mut *kernel, wrong, 1 << 20).unwrap_err();
            assert!(matches!(error, Error::Corrupt(_)), "{variant}: {error}");
        }
    }
}

proptest! {
    #[test]
    fn checksums_of_pieces_are_those_of_the_whole(
        first in proptest::collection::vec(any::<u8>(), 0..5000),
        second in proptest::collection::vec(any::<u8>(), 0..70_000),
    ) {
        let whole = [&first[..], &second].concat();
        prop_assert_eq!(crc32(crc32(0, &first), &second), crc32fast::hash(&whole));
        let expected = adler_by_definition(&whole);
        prop_assert_eq!(adler32(adler32(1, &first), &second), expected);
        let (a, b) = (adler32(1, &first), adler32(1, &second));
        prop_assert_eq!(adler32_combine(a, b, second.len() as u64), expected);
    }
}

/// Adler-32 by its definition (RFC 1950, section 8.2).
fn adler_by_definition(bytes: &[u8]) -> u32 {
    let (mut a, mut b) = (1u32, 0u32);
    for byte in bytes {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    b << 16 | a
}
