//! Detection of a file's format by its first bytes.

/// Format in which a file stores its records, or the program that compressed the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileFormat {
    /// Lines, or comma-separated values: both are text.
    Text,
    /// Apache Parquet.
    Parquet,
    /// An Arrow IPC file.
    ArrowFile,
    /// An Arrow IPC stream.
    ArrowStream,
    /// Compressed by the program of that name.
    Compressed(&'static str),
}

/// First bytes of compressed files and the program that writes them, longest first.
const COMPRESSED: [(&[u8], &str); 4] = [
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x04\x22\x4d\x18", "lz4"),
    (b"\x1f\x8b\x08", "gzip"),
];

impl FileFormat {
    /// Number of bytes at the start of a file that [`FileFormat::of`] needs.
    pub const HEAD_BYTES: usize = 8;

    /// Returns the format of a file that begins with `head`, which has at least the first
    /// [`FileFormat::HEAD_BYTES`] bytes.
    pub fn of(head: &[u8]) -> Self {
        // Arrow columnar format, "Encapsulated message format": the continuation marker, then the
        // length of the schema's message, which is less than 16 MiB and a multiple of 8.
        let is_stream = |head: &[u8]| {
            head.len() >= 8 && head[..4] == [0xff; 4] && head[4].is_multiple_of(8) && head[7] == 0
        };
        let compressed = COMPRESSED.iter().find(|(magic, _)| head.starts_with(magic));
        if let Some((_, program)) = compressed {
            return Self::Compressed(program);
        }
        match head {
            [b'P', b'A', b'R', b'1', ..] => Self::Parquet,
            [b'A', b'R', b'R', b'O', b'W', b'1', ..] => Self::ArrowFile,
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, ..] => Self::Compressed("bzip2"),
            head if is_stream(head) => Self::ArrowStream,
            _ => Self::Text,
        }
    }

    /// Returns `true` if `head` is a prefix of the magic number of gzip, zstd, lz4 or xz. A file of
    /// which only `head` has been read may then be compressed.
    pub fn may_be_compressed(head: &[u8]) -> bool {
        let begins = |(magic, _): &(&[u8], &str)| magic.starts_with(head);
        COMPRESSED.iter().any(begins)
    }
}

#[cfg(test)]
mod tests {
    use super::FileFormat;

    #[test]
    fn files_are_known_by_their_first_bytes() {
        assert_eq!(FileFormat::of(b"PAR1\x15\x04"), FileFormat::Parquet);
        assert_eq!(FileFormat::of(b"ARROW1\0\0"), FileFormat::ArrowFile);
        assert_eq!(FileFormat::of(b"\xff\xff\xff\xff\x78\x01\0\0"), FileFormat::ArrowStream);
        assert_eq!(FileFormat::of(b"\x1f\x8b\x08\0"), FileFormat::Compressed("gzip"));
        assert_eq!(FileFormat::of(b"\xfd7zXZ\0"), FileFormat::Compressed("xz"));
        assert!(FileFormat::may_be_compressed(b"") && FileFormat::may_be_compressed(b"\x28\xb5"));
        assert!(
            !FileFormat::may_be_compressed(b"text") && !FileFormat::may_be_compressed(b"\x1f\x8c")
        );
        for text in [&b""[..], b"P", b"PAR", b"\xff\xff\xff\xff", b"BZh9 is text", b"a,b\n1,2"] {
            assert_eq!(FileFormat::of(text), FileFormat::Text, "{}", text.escape_ascii());
        }
    }
}
