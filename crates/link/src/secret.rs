//! What only the expected peer knows.

use crate::exports;

/// Sixteen random bytes that a listening end gives to the peer that it expects, by another way
/// than the link. Whoever connects without them is turned away. They are sent in the clear, so
/// they are good for one link and for as long as it takes to connect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; Secret::BYTES]);

impl Secret {
    /// How long it is.
    pub const BYTES: usize = 16;

    /// One that nobody else has.
    ///
    /// # Errors
    /// What the system says.
    pub fn random() -> std::io::Result<Self> {
        exports::random_bytes().map(Self)
    }

    /// The secret with these digits: two hexadecimal ones a byte.
    pub fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 2 * Self::BYTES || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let value = u128::from_str_radix(text, 16).ok()?;
        Some(Self(value.to_be_bytes()))
    }

    /// Its digits.
    pub fn to_hex(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    /// As it is sent; zeroes where there is none.
    pub(crate) fn sent(secret: Option<Self>) -> [u8; Self::BYTES] {
        secret.map_or([0; Self::BYTES], |secret| secret.0)
    }

    /// Whether `told` is what was to be told. Looks at all of it whatever it is.
    pub(crate) fn admits(expected: Option<Self>, told: [u8; Self::BYTES]) -> bool {
        let Some(expected) = expected else {
            return true;
        };
        let bytes = expected.0.into_iter().zip(told);
        bytes.fold(0, |all, (one, other)| all | (one ^ other)) == 0
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
        assert!(Secret::admits(Some(secret), Secret::sent(Some(secret))));
        assert!(!Secret::admits(Some(secret), Secret::sent(Some(other))));
        assert!(!Secret::admits(Some(secret), Secret::sent(None)));
        assert!(Secret::admits(None, Secret::sent(Some(other))));
    }
}
