//! What tells the client of a test from everybody else who reaches the server.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};

/// How long a token is.
pub(super) const TOKEN_BYTES: usize = 16;

/// A number that nobody guesses, for one test. The default stands for none.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token(pub(super) [u8; TOKEN_BYTES]);

impl Token {
    /// One that nobody has seen.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn fresh() -> io::Result<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        let mut filled = 0;
        while filled < TOKEN_BYTES {
            filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
        }
        Ok(Self(bytes))
    }

    /// There is none.
    pub(super) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether these bytes are it. It takes as long whether they are or not, so that the time tells
    /// nothing of how much of them is right.
    pub(super) fn is(&self, bytes: &[u8]) -> bool {
        let differ = |sum: u8, (mine, theirs): (&u8, &u8)| sum | (mine ^ theirs);
        bytes.len() == TOKEN_BYTES && self.0.iter().zip(bytes).fold(0, differ) == 0
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_none() { "none" } else { "a token" })
    }
}
