//! Compressed streams that are read.

use crate::common;

use std::io::{Cursor, Read};

use common::{compressed, contents, options, text};
use overside_compress::{Container, DecompressReader, Error, Options};

#[test]
fn what_is_read_is_what_was_compressed() {
    for container in Container::ALL {
        for (name, content) in contents() {
            let (bytes, _) = compressed(&content, &options(container));
            let mut reader = DecompressReader::new(Cursor::new(bytes), Options::default()).unwrap();
            let mut back = Vec::new();
            reader.read_to_end(&mut back).unwrap();
            assert!(back == content, "{container} {name}");
        }
    }
}

#[test]
fn what_was_there_of_a_truncated_stream_is_read_before_the_error() {
    let content = text(300_000);
    for container in Container::ALL {
        let options = Options { chunk_bytes: 256 << 10, ..options(container) };
        let (mut bytes, _) = compressed(&content, &options);
        bytes.truncate(bytes.len() / 2);
        let mut reader = DecompressReader::new(Cursor::new(bytes), Options::default()).unwrap();
        let mut back = Vec::new();
        let error = reader.read_to_end(&mut back).unwrap_err();
        let inner = error.get_ref().and_then(|error| error.downcast_ref::<Error>());
        assert!(matches!(inner, Some(Error::Truncated { .. })), "{error}");
        assert!(content.starts_with(&back), "{container}");
        // A block of LZ4 is there or it is not; zstd's are up to 128 KiB.
        let least = match container {
            Container::Gzip | Container::Zlib => 100_000,
            Container::Zstd => 128 << 10,
            Container::Lz4 => 0,
        };
        assert!(back.len() >= least, "{container}: {}", back.len());
    }
}

#[test]
fn a_reader_can_be_left() {
    let (bytes, _) = compressed(&vec![0; 64 << 20], &options(Container::Gzip));
    let mut reader = DecompressReader::new(Cursor::new(bytes), Options::default()).unwrap();
    reader.read_exact(&mut [0; 10]).unwrap();
}
