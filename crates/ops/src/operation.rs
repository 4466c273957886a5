//! The words for what can be done to bytes.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// How compressed bytes are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// Raw DEFLATE, RFC 1951.
    Deflate,
    /// A piece of a raw DEFLATE stream that can be put before any other: none of its blocks is the
    /// last one, and it refers to nothing before it and ends at a byte (a full flush).
    DeflatePart,
    /// DEFLATE in zlib framing, RFC 1950.
    Zlib,
    /// DEFLATE in gzip framing, RFC 1952; one member.
    Gzip,
    /// One LZ4 block, without a size or a checksum (lz4_Block_format.md).
    Lz4Block,
    /// One LZ4 frame (lz4_Frame_format.md).
    Lz4,
    /// One Zstandard frame, RFC 8878.
    Zstd,
}

/// What a matcher answers. The first three count *records*: runs of bytes ended by `\n` or by the end
/// of the buffer (a final `\n` does not start another record). A record matches if any pattern
/// matches inside it. Patterns see bytes, not characters, and never see the `\n`; `^` and `$` are
/// the record's ends. That makes the answer the same for every engine, whatever its rules for
/// overlapping matches are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MatchKind {
    /// Where the first matching record begins, as an offset in bytes.
    Search,
    /// How many records match.
    Count,
    /// One bit a record, least significant bit first, set where the record matches.
    Bitmap,
    /// Each match, in order, with what its groups hold. Matches are the leftmost ones that do not
    /// overlap; of those that begin in the same place the first pattern's, and of that the first
    /// alternative's, as Perl has it. Empty ones are left out. Of each match: the pattern's number,
    /// then where the match and each of the pattern's groups begin and end, as offsets in bytes
    /// (all of 32 bits, little-endian; all ones for a group that takes no part).
    Groups,
}

/// Makes [`HashAlgorithm`] out of a table: name, title, and the length of the digest in bytes.
macro_rules! hashes {
    ($($doc:literal $hash:ident $name:literal $title:literal $digest_len:literal;)*) => {
        /// A checksum or a hash. Hashes that are numbers are written big-endian; of those of 128 bits the
        /// reference's first word is the low half. Seeds are 0.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum HashAlgorithm {
            $(#[doc = $doc] $hash,)*
        }

        impl HashAlgorithm {
            /// All of them, in a stable order.
            pub const ALL: [Self; 20] = [$(Self::$hash),*];

            /// Its name, its title, and the length of its digest in bytes.
            const fn about(self) -> (&'static str, &'static str, usize) {
                match self {
                    $(Self::$hash => ($name, $title, $digest_len),)*
                }
            }

            /// Its name, as in `hash-xxh3`.
            pub const fn name(self) -> &'static str {
                self.about().0
            }

            /// As people know it: `XXH3`.
            pub const fn title(self) -> &'static str {
                self.about().1
            }

            /// Length of the digest in bytes.
            pub const fn digest_len(self) -> usize {
                self.about().2
            }
        }
    };
}

hashes! {
    "XXH3, 64 bits." Xxh3 "xxh3" "XXH3" 8;
    "CRC-32 of ISO 3309 as gzip uses it." Crc32 "crc32" "CRC-32" 4;
    "SHA-256, FIPS 180-4." Sha256 "sha256" "SHA-256" 32;
    "XXH3, 128 bits." Xxh3Long "xxh3-128" "XXH3, 128 bits" 16;
    "XXH32." Xxh32 "xxh32" "XXH32" 4;
    "XXH64." Xxh64 "xxh64" "XXH64" 8;
    "CityHash32, version 1.1." City32 "city-32" "CityHash, 32 bits" 4;
    "CityHash64, version 1.1." City64 "city-64" "CityHash, 64 bits" 8;
    "CityHash128, version 1.1." City128 "city-128" "CityHash, 128 bits" 16;
    "MurmurHash2, 32 bits." Murmur2Short "murmur2-32" "MurmurHash2, 32 bits" 4;
    "MurmurHash64A." Murmur2 "murmur2-64" "MurmurHash2, 64 bits" 8;
    "MurmurHash3_x86_32." Murmur3Short "murmur3-32" "MurmurHash3, 32 bits" 4;
    "MurmurHash3_x64_128." Murmur3 "murmur3-128" "MurmurHash3, 128 bits" 16;
    "SpookyHash V2, the low 32 bits." Spooky32 "spooky-32" "SpookyHash, 32 bits" 4;
    "SpookyHash V2, the low 64 bits." Spooky64 "spooky-64" "SpookyHash, 64 bits" 8;
    "SpookyHash V2." Spooky128 "spooky-128" "SpookyHash, 128 bits" 16;
    "FNV-1a, 32 bits." Fnv32 "fnv-32" "FNV-1a, 32 bits" 4;
    "FNV-1a, 64 bits." Fnv64 "fnv-64" "FNV-1a, 64 bits" 8;
    "FNV-1a, 128 bits." Fnv128 "fnv-128" "FNV-1a, 128 bits" 16;
    "MD5, RFC 1321." Md5 "md5" "MD5" 16;
}

/// What is done to a buffer. Serialised as its name: `compress-deflate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Make it smaller.
    Compress(Format),
    /// Restore what [`Operation::Compress`] made.
    Decompress(Format),
    /// Find the configured patterns in it.
    Match(MatchKind),
    /// Hash it.
    Hash(HashAlgorithm),
    /// Copy it.
    Copy,
}

/// Which side of an operation is the uncompressed one, the side that throughput counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The source: everything but decompression.
    Source,
    /// The destination: decompression.
    Destination,
}

impl Operation {
    /// Which side throughput is counted on.
    pub const fn uncompressed_side(self) -> Direction {
        match self {
            Self::Decompress(_) => Direction::Destination,
            _ => Direction::Source,
        }
    }

    /// The verb: `compress`, `decompress`, `match`, `hash` or `copy`.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Compress(_) => "compress",
            Self::Decompress(_) => "decompress",
            Self::Match(_) => "match",
            Self::Hash(_) => "hash",
            Self::Copy => "copy",
        }
    }

    /// All operations there are, in a stable order.
    pub fn all() -> Vec<Self> {
        use Format::*;
        let formats = [Deflate, DeflatePart, Zlib, Gzip, Lz4Block, Lz4, Zstd];
        let matches = [
            MatchKind::Search,
            MatchKind::Count,
            MatchKind::Bitmap,
            MatchKind::Groups,
        ];
        (formats.map(Self::Compress).into_iter())
            .chain(formats.map(Self::Decompress))
            .chain(matches.map(Self::Match))
            .chain(HashAlgorithm::ALL.map(Self::Hash))
            .chain([Self::Copy])
            .collect()
    }
}

/// `compress-deflate`, `match-count`, `hash-xxh3`, `copy`: also what profiles and boxes use.
impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.verb())?;
        if *self != Self::Copy {
            f.write_str("-")?;
        }
        match self {
            Self::Compress(format) | Self::Decompress(format) => format.serialize(f),
            Self::Match(kind) => kind.serialize(f),
            Self::Hash(algorithm) => f.write_str(algorithm.name()),
            Self::Copy => Ok(()),
        }
    }
}

impl std::str::FromStr for Operation {
    type Err = crate::Error;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        (Self::all().into_iter())
            .find(|operation| operation.to_string() == name)
            .ok_or_else(|| crate::Error::UnknownOperation(name.into()))
    }
}

impl Serialize for Operation {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Operation {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(de::Error::custom)
    }
}
