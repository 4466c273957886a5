//! The first bytes of either side.

use super::Violation;

const MAGIC: [u8; 8] = *b"OVERSIDE";

/// A range of versions of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The oldest.
    pub oldest: u16,
    /// The newest.
    pub newest: u16,
}

impl std::fmt::Display for Versions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.oldest == self.newest {
            true => write!(f, "{}", self.newest),
            false => write!(f, "{} to {}", self.oldest, self.newest),
        }
    }
}

/// First bytes that each side sends: magic, and the versions that it speaks. Both then speak the
/// newest version that both know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble(pub Versions);

impl Preamble {
    /// Length of a preamble in bytes.
    pub const BYTES: usize = 16;
    /// Versions that this release speaks.
    pub const OURS: Versions = Versions { oldest: 3, newest: 3 };

    /// This release's.
    pub fn ours() -> [u8; Self::BYTES] {
        Self(Self::OURS).encode()
    }

    /// Returns the preamble as the bytes that are sent.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&self.0.oldest.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.0.newest.to_le_bytes());
        bytes
    }

    /// Reads the peer's preamble and returns the version that both support.
    ///
    /// # Errors
    /// [`Violation`] if it is not a preamble, or if there is no common version.
    pub fn agree(bytes: &[u8; Self::BYTES]) -> Result<u16, Violation> {
        if bytes[..8] != MAGIC {
            return Err(Violation::Magic(bytes.escape_ascii().to_string()));
        }
        if bytes[12..] != [0; 4] {
            return Err(Violation::Reserved);
        }
        let number = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let theirs = Versions { oldest: number(8), newest: number(10) };
        let ours = Self::OURS;
        let both = theirs.newest.min(ours.newest);
        if theirs.oldest > theirs.newest || both < theirs.oldest.max(ours.oldest) {
            return Err(Violation::Version { theirs, ours });
        }
        Ok(both)
    }
}
