//! Properties of arbitrary bytes, as entry functions: the fuzzer calls them, and a test replays
//! the fuzzer's corpora through them.

use std::sync::Arc;

use overside_backend_cpu::{CpuDevice, CpuOptions};
use overside_compress::{Container, Decompressor, Error, Options, Summary, gzip, zstd};
use overside_device::Device;
use overside_ops::lz4_frame;

/// Largest output of hostile input, in bytes; more is not worth a fuzzer's time.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;

/// Any bytes are a gzip header, or the beginning of one, or a mistake; a header lies within them,
/// and no shorter beginning has another result.
pub(super) fn gzip_header(data: &[u8]) {
    let whole = gzip::Header::parse(data);
    if let Ok(Some(header)) = &whole {
        assert!(header.len <= data.len() && header.len >= 10);
        if let Some(sizes) = header.sizes {
            assert!(sizes.member >= header.len as u64 + 10);
        }
        for len in (0..header.len).rev().take(64) {
            assert_eq!(gzip::Header::parse(&data[..len]), Ok(None));
        }
        assert_eq!(gzip::Header::parse(&data[..header.len]), whole);
    }
    if let Err(reason) = whole {
        assert!(!reason.is_empty());
    }
}

/// The same of the headers of LZ4 and Zstandard frames; a header of LZ4 is written as it was read.
pub(super) fn frame_header(data: &[u8]) {
    if let Ok(Some((header, len))) = lz4_frame::Header::parse(data) {
        assert!(len <= data.len());
        assert!((64 << 10..=4 << 20).contains(&header.block_max));
        assert_eq!(header.write(), data[..len]);
        assert_eq!(lz4_frame::Header::parse(&data[..len - 1]), Ok(None));
    }
    if let Ok(Some(header)) = zstd::Header::parse(data) {
        assert!(header.len <= data.len());
        assert_eq!(zstd::Header::parse(&data[..header.len - 1]), Ok(None));
        if let Ok(Some(len)) = header.frame_bytes(data) {
            assert!(len > header.len && len <= data.len());
            assert_eq!(header.frame_bytes(&data[..len]), Ok(Some(len)));
            assert_eq!(header.frame_bytes(&data[..len - 1]), Ok(None));
        }
    }
}

/// The first byte chooses a format or none, the second the length of pieces that the rest is given
/// in. The output does not depend on the pieces; nor does an error, or the output before it.
pub(super) fn decompression(data: &[u8]) {
    let [format, pieces, stream @ ..] = data else {
        return;
    };
    let container = Container::ALL.get(usize::from(*format % 5)).copied();
    let whole = pushed(container, stream, stream.len().max(1));
    let in_pieces = pushed(container, stream, 1 + usize::from(*pieces));
    let (short, long) = match whole.0.len() <= in_pieces.0.len() {
        true => (&whole.0, &in_pieces.0),
        false => (&in_pieces.0, &whole.0),
    };
    assert!(long.starts_with(short), "another output in pieces");
    match (whole.1, in_pieces.1) {
        (Ok(one), Ok(other)) => {
            assert_eq!(short.len(), long.len());
            assert_eq!(one.members, other.members);
            assert_eq!(one.streamed, other.streamed);
            assert_eq!(one.ignored, other.ignored);
        }
        (Err(one), Err(other)) => {
            let kind = std::mem::discriminant;
            assert_eq!(kind(&one), kind(&other), "{one}, {other}");
        }
        (one, other) => panic!("{one:?} at once, {other:?} in pieces"),
    }
}

/// Decompresses a stream that is given in pieces. Returns the output and how the stream ended.
/// Checks that a stream that has failed refuses more input.
pub(super) fn pushed(
    container: Option<Container>,
    stream: &[u8],
    piece_bytes: usize,
) -> (Vec<u8>, Result<Summary, Error>) {
    let options = Options {
        container,
        cpu: Some(cpu()),
        threads: 1,
        max_output_bytes: Some(MAX_OUTPUT_BYTES),
        ..Options::default()
    };
    let mut output = Vec::new();
    let mut decompressor = Decompressor::new(&mut output, &options).unwrap();
    for piece in stream.chunks(piece_bytes) {
        let written = decompressor.write(piece).and_then(|()| decompressor.flush());
        if let Err(error) = written {
            assert!(matches!(decompressor.write(b"x"), Err(Error::Spent)));
            drop(decompressor);
            return (output, Err(error));
        }
    }
    let result = decompressor.finish().map(|(_, summary)| summary);
    (output, result)
}

fn cpu() -> Arc<dyn Device> {
    let options = CpuOptions { threads: 1, cores: None };
    Arc::new(CpuDevice::new(options).unwrap())
}
