//! Secret that only the expected peer of a link knows.

use overside_base::random_bytes;
use serde::{Deserialize, Serialize};

use crate::codec::hex;

/// Sixteen random bytes that a listening end gives to the expected peer by another way than the link. A peer
/// that connects without them is refused. They are sent unencrypted, so they are only valid for one link,
/// until it is connected.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Secret([u8; Secret::BYTES]);

impl Secret {
    /// Length of a preamble in bytes.
    pub const BYTES: usize = 16;

    /// Returns a new random secret.
    ///
    /// # Errors
    /// The system's error.
    pub fn random() -> std::io::Result<Self> {
        random_bytes().map(Self)
    }

    /// The secret with these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The secret with these digits: two hexadecimal ones a byte.
    pub fn from_hex(text: &str) -> Option<Self> {
        hex::decode(text)?.try_into().ok().map(Self)
    }

    /// Returns the secret as hexadecimal digits, two per byte.
    pub fn to_hex(self) -> String {
        hex::encode(&self.0)
    }

    /// Returns the bytes of the secret, for a connection that begins with them.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        self.0
    }

    /// Returns `true` if `bytes` are this secret. It always compares all bytes, so that the time
    /// taken does not reveal how many of them are correct.
    pub fn is(&self, bytes: &[u8; Self::BYTES]) -> bool {
        let pairs = self.0.iter().zip(bytes);
        pairs.fold(0, |all, (one, other)| all | (one ^ other)) == 0
    }

    /// Returns `true` if the peer's secret `told` is the expected one, or if no secret is expected.
    pub(crate) fn admits(expected: Option<Self>, told: Option<Self>) -> bool {
        expected.is_none_or(|expected| told.is_some_and(|told| expected.is(&told.0)))
    }
}

impl TryFrom<String> for Secret {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::from_hex(&text).ok_or("no secret: it has 32 hexadecimal digits")
    }
}

impl From<Secret> for String {
    fn from(secret: Secret) -> Self {
        secret.to_hex()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_the_secret_and_the_secret_is_not_shown() {
        let secret = Secret::random().unwrap();
        assert_eq!(Secret::from_hex(&secret.to_hex()), Some(secret));
        assert_ne!(Secret::random().unwrap(), secret);
        assert!(!format!("{secret:?}").contains(&secret.to_hex()[..4]));
        for wrong in ["", "00", &"g".repeat(32), &"0".repeat(33), &"+".repeat(32)] {
            assert_eq!(Secret::from_hex(wrong), None);
        }
    }

    #[test]
    fn nobody_gets_in_without_it() {
        let secret = Secret::random().unwrap();
        let other = Secret::random().unwrap();
        assert!(Secret::admits(Some(secret), Some(secret)));
        assert!(!Secret::admits(Some(secret), Some(other)));
        assert!(!Secret::admits(Some(secret), None));
        assert!(Secret::admits(None, Some(other)));
        for at in 0..Secret::BYTES {
            let mut bytes = secret.to_bytes();
            bytes[at] ^= 0x80;
            assert!(!secret.is(&bytes), "{at}");
        }
    }
}
