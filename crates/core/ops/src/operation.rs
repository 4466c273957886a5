//! Names of operations on bytes, and their formats. `family.rs` has the entries of the registry.

/// Makes an enum of the operations of a family from a table: the name that follows the verb, as in
/// `hash-xxh3`, and the title for display.
macro_rules! members {
    ($(#[$about:meta])* $Member:ident { $($doc:literal $variant:ident $name:literal $title:literal;)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $Member {
            $(#[doc = $doc] $variant,)*
        }

        impl $Member {
            /// All members in a stable order.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Returns the name, as it follows the verb in the name of an operation.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Returns the common name, for display.
            pub const fn title(self) -> &'static str {
                match self {
                    $(Self::$variant => $title,)*
                }
            }
        }
    };
}

members! {
    /// Format of compressed bytes.
    Format {
        "Raw DEFLATE, RFC 1951." Deflate "deflate" "DEFLATE";
        "A piece of a raw DEFLATE stream that can be put before any other: none of its blocks is the \
         last one, and it refers to nothing before it and ends at a byte (a full flush)."
         DeflatePart "deflate-part" "parts of DEFLATE streams";
        "DEFLATE in zlib framing, RFC 1950." Zlib "zlib" "DEFLATE in zlib framing";
        "DEFLATE in gzip framing, RFC 1952; one member." Gzip "gzip" "DEFLATE in gzip framing";
        "One LZ4 block, without a size or a checksum (lz4_Block_format.md)." Lz4Block "lz4-block" "LZ4 blocks";
        "One LZ4 frame (lz4_Frame_format.md)." Lz4 "lz4" "LZ4 frames";
        "One Zstandard frame, RFC 8878." Zstd "zstd" "Zstandard";
    }
}

members! {
    /// Kind of answer that a matcher gives. The first three count *records*: runs of bytes ended by `\n` or by
    /// the end of the buffer (a final `\n` does not start another record). A record matches if any pattern
    /// matches inside it. Patterns match bytes, not characters, and never the `\n`; `^` and `$` are the ends of
    /// a record. So every engine gives the same answer, although engines treat overlapping matches differently.
    MatchKind {
        "Offset in bytes of the first matching record." Search "search" "Find the first matching record";
        "Number of matching records." Count "count" "Count matching records";
        "One bit a record, least significant bit first, set where the record matches." Bitmap "bitmap" "Mark matching records";
        "Each match, in order, with what its groups hold. Matches are the leftmost ones that do not \
         overlap; of those that begin in the same place the first pattern's, and of that the first \
         alternative's, as Perl has it. Empty ones are left out. Of each match: the pattern's number, \
         then where the match and each of the pattern's groups begin and end, as offsets in bytes \
         (all of 32 bits, little-endian; all ones for a group that takes no part)."
         Groups "groups" "Find matches and their groups";
    }
}

members! {
    /// Checksum or hash function with seed 0. Digests that are numbers are written big-endian; of
    /// those with 128 bits, the reference's first word is the low half.
    HashAlgorithm {
        "XXH3, 64 bits." Xxh3 "xxh3" "XXH3";
        "CRC-32 of ISO 3309 as gzip uses it." Crc32 "crc32" "CRC-32";
        "SHA-256, FIPS 180-4." Sha256 "sha256" "SHA-256";
        "XXH3, 128 bits." Xxh3Long "xxh3-128" "XXH3, 128 bits";
        "XXH32." Xxh32 "xxh32" "XXH32";
        "XXH64." Xxh64 "xxh64" "XXH64";
        "CityHash32, version 1.1." City32 "city-32" "CityHash, 32 bits";
        "CityHash64, version 1.1." City64 "city-64" "CityHash, 64 bits";
        "CityHash128, version 1.1." City128 "city-128" "CityHash, 128 bits";
        "MurmurHash2, 32 bits." Murmur2Short "murmur2-32" "MurmurHash2, 32 bits";
        "MurmurHash64A." Murmur2 "murmur2-64" "MurmurHash2, 64 bits";
        "MurmurHash3_x86_32." Murmur3Short "murmur3-32" "MurmurHash3, 32 bits";
        "MurmurHash3_x64_128." Murmur3 "murmur3-128" "MurmurHash3, 128 bits";
        "SpookyHash V2, the low 32 bits." Spooky32 "spooky-32" "SpookyHash, 32 bits";
        "SpookyHash V2, the low 64 bits." Spooky64 "spooky-64" "SpookyHash, 64 bits";
        "SpookyHash V2." Spooky128 "spooky-128" "SpookyHash, 128 bits";
        "FNV-1a, 32 bits." Fnv32 "fnv-32" "FNV-1a, 32 bits";
        "FNV-1a, 64 bits." Fnv64 "fnv-64" "FNV-1a, 64 bits";
        "FNV-1a, 128 bits." Fnv128 "fnv-128" "FNV-1a, 128 bits";
        "MD5, RFC 1321." Md5 "md5" "MD5";
    }
}

impl HashAlgorithm {
    /// Returns the length of the digest in bytes.
    pub const fn digest_len(self) -> usize {
        match self {
            Self::Crc32 | Self::Xxh32 | Self::City32 | Self::Spooky32 | Self::Fnv32 => 4,
            Self::Murmur2Short | Self::Murmur3Short => 4,
            Self::Xxh3 | Self::Xxh64 | Self::City64 | Self::Murmur2 => 8,
            Self::Spooky64 | Self::Fnv64 => 8,
            Self::Xxh3Long | Self::City128 | Self::Murmur3 => 16,
            Self::Spooky128 | Self::Fnv128 | Self::Md5 => 16,
            Self::Sha256 => 32,
        }
    }
}

members! {
    /// Cipher that encrypts and authenticates.
    Cipher {
        "AES-GCM with a key of 128 bits, NIST SP 800-38D." Aes128Gcm "aes-128-gcm" "AES-128-GCM";
        "AES-GCM with a key of 256 bits." Aes256Gcm "aes-256-gcm" "AES-256-GCM";
    }
}

impl Cipher {
    /// Returns the length of the key in bytes.
    pub const fn key_len(self) -> usize {
        match self {
            Self::Aes128Gcm => 16,
            Self::Aes256Gcm => 32,
        }
    }
}

/// Operation on a buffer. Serialized as its name: `compress-deflate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operation {
    /// Compresses the buffer.
    Compress(Format),
    /// Restores the source of [`Operation::Compress`].
    Decompress(Format),
    /// Finds the configured patterns in the buffer.
    Match(MatchKind),
    /// Hashes the buffer.
    Hash(HashAlgorithm),
    /// Copies the buffer.
    Copy,
    /// Encrypts the buffer with a test key, for measuring.
    Encrypt(Cipher),
    /// Restores the source of [`Operation::Encrypt`]; a job whose tag does not match fails.
    Decrypt(Cipher),
}

impl Operation {
    /// Returns the name and title that distinguish it from the other operations of its family.
    const fn member(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::Compress(format) | Self::Decompress(format) => {
                Some((format.name(), format.title()))
            }
            Self::Match(kind) => Some((kind.name(), kind.title())),
            Self::Hash(algorithm) => Some((algorithm.name(), algorithm.title())),
            Self::Copy => None,
            Self::Encrypt(cipher) | Self::Decrypt(cipher) => Some((cipher.name(), cipher.title())),
        }
    }

    /// Returns the name that follows the verb: `deflate` of `compress-deflate`. `None` if the
    /// operation is the only one of its family.
    pub fn member_name(self) -> Option<&'static str> {
        self.member().map(|(name, _)| name)
    }

    /// Returns its title: `DEFLATE`. `None` if the operation is the only one of its family.
    pub fn member_title(self) -> Option<&'static str> {
        self.member().map(|(_, title)| title)
    }

    /// Returns `true` if it is only a step of others, so that boxes cannot name it.
    pub(crate) const fn is_step(self) -> bool {
        matches!(self, Self::Compress(Format::DeflatePart) | Self::Decompress(Format::DeflatePart))
    }

    /// Returns the operation that restores this one's sources from its results; `None` if they
    /// cannot be restored.
    pub const fn inverse(self) -> Option<Self> {
        match self {
            Self::Compress(format) => Some(Self::Decompress(format)),
            Self::Decompress(format) => Some(Self::Compress(format)),
            Self::Encrypt(cipher) => Some(Self::Decrypt(cipher)),
            Self::Decrypt(cipher) => Some(Self::Encrypt(cipher)),
            Self::Match(_) | Self::Hash(_) | Self::Copy => None,
        }
    }
}
