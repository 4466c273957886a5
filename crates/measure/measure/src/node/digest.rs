//! SHA-256 of a file, as data go by.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use overside_link::codec::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// SHA-256 as 64 hexadecimal digits: nothing else, so that it can name a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

impl Digest {
    /// Returns the 64 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Computes the digest of a file's bytes. Returns it with the number of bytes.
    ///
    /// # Errors
    /// The system's error.
    pub fn of_file(path: &Path) -> io::Result<(Self, u64)> {
        let mut file = File::open(path)?;
        let mut hasher = Hasher::default();
        let mut buffer = vec![0; 1 << 18];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(hasher.finish()),
                count => hasher.update(&buffer[..count]),
            }
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_digit = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
        match text.len() == 64 && text.bytes().all(is_digit) {
            true => Ok(Self(text)),
            false => Err("no digest: it has 64 hexadecimal digits"),
        }
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Computes the digest of a stream of bytes.
#[derive(Default)]
pub(super) struct Hasher {
    hash: Sha256,
    bytes: u64,
}

impl Hasher {
    pub(super) fn update(&mut self, part: &[u8]) {
        self.hash.update(part);
        self.bytes += part.len() as u64;
    }

    /// Returns the number of bytes hashed so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The digest, and of how many bytes.
    pub(super) fn finish(self) -> (Digest, u64) {
        (Digest(hex::encode(&self.hash.finalize())), self.bytes)
    }
}
