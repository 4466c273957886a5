//! Codecs and layouts of messages.

use std::fmt;
use std::str::FromStr;

use arrow_ipc::CompressionType;

use crate::Error;

/// Compression of each of a message's buffers, as the format defines it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Codec {
    /// No compression.
    #[default]
    None,
    /// LZ4 frames of independent blocks.
    Lz4,
    /// Zstandard frames at a level, 1 to 22.
    Zstd(u32),
}

/// Default level of Zstandard: that of Arrow's C++ library and pyarrow.
const ZSTD_LEVEL: u32 = 1;
const ZSTD_LEVEL_MAX: u32 = 22;

impl Codec {
    /// Returns the codec's number in the format; `None` without compression.
    pub(super) fn compression(self) -> Option<CompressionType> {
        match self {
            Self::None => None,
            Self::Lz4 => Some(CompressionType::LZ4_FRAME),
            Self::Zstd(_) => Some(CompressionType::ZSTD),
        }
    }
}

impl FromStr for Codec {
    type Err = Error;

    /// Parses `none`, `lz4`, `zstd`, `zstd:9`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let level = |level: &str| {
            let level = level.parse().ok();
            level.filter(|level| (1..=ZSTD_LEVEL_MAX).contains(level))
        };
        match text.split_once(':') {
            None if text == "none" => Some(Self::None),
            None if text == "lz4" => Some(Self::Lz4),
            None if text == "zstd" => Some(Self::Zstd(ZSTD_LEVEL)),
            Some(("zstd", text)) => level(text).map(Self::Zstd),
            _ => None,
        }
        .ok_or_else(|| Error::UnknownCodec(text.into()))
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Lz4 => f.write_str("lz4"),
            Self::Zstd(level) => write!(f, "zstd:{level}"),
        }
    }
}

/// Sequence of Arrow IPC messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// One message after the other; dictionaries may be replaced.
    Stream,
    /// A stream between magic bytes, with an index at its end; also called Feather, version 2.
    #[default]
    File,
}

#[cfg(test)]
mod tests {
    use super::Codec;

    #[test]
    fn a_codec_is_what_it_says() {
        for (text, codec) in [
            ("none", Codec::None),
            ("lz4", Codec::Lz4),
            ("zstd:1", Codec::Zstd(1)),
            ("zstd:22", Codec::Zstd(22)),
        ] {
            assert_eq!(text.parse::<Codec>().unwrap(), codec);
            assert_eq!(codec.to_string(), text);
        }
        assert_eq!("zstd".parse::<Codec>().unwrap(), Codec::Zstd(1));
        for text in ["", "gzip", "lz4:1", "zstd:0", "zstd:23", "zstd:x", "zstd:"] {
            let error = text.parse::<Codec>().unwrap_err().to_string();
            assert!(error.contains("none, lz4, zstd"), "{error}");
        }
    }
}
