//! Control messages as bytes: serde types, encoded as JSON.
//!
//! A control message is sent once for each link, context or test, never for each job, so its size does not
//! matter. JSON names its fields, so a peer with another format is refused with the field's name, and a
//! recorded message can be read. It needs no additional library. Data are not control messages: the heads
//! of jobs and results have a layout of their own ([`crate::agent`]).
//!
//! Bounds are checked before memory is allocated:
//!
//! 1. [`Message::MAX_BYTES`] bounds a message as bytes. The framing layer checks it before it reads one,
//!    and [`Message::decode`] checks it again.
//! 2. While serde reads, [`list`] and [`text`] refuse the first item or byte that is too many. Nesting
//!    is bounded by `serde_json`.
//! 3. [`Message::check`] comes last: it checks the combination of the fields' values.

use serde::de::{DeserializeOwned, Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The longest text about a message that cannot be read, in bytes.
const MAX_ERROR_BYTES: usize = 1024;

/// Bytes that are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// More bytes than any such message has.
    #[error("a message of {len} bytes, where {max} is the most")]
    Length {
        /// Length of the message in bytes.
        len: usize,
        /// The most.
        max: usize,
    },
    /// The message cannot be decoded.
    #[error("a message cannot be read: {0}")]
    Malformed(String),
    /// A field whose value cannot be.
    #[error("{field} is {value}, where at most {max} is allowed")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Value that was received.
        value: u64,
        /// The most.
        max: u64,
    },
}

/// Message between two programs of Overside that controls a link, a context or a test, as opposed
/// to data.
pub trait Message: Serialize + DeserializeOwned {
    /// The longest as bytes.
    const MAX_BYTES: usize;

    /// Checks a message that was just decoded, and may clean texts that people will see.
    ///
    /// # Errors
    /// [`CodecError`] if the message is invalid.
    fn check(&mut self) -> Result<(), CodecError> {
        Ok(())
    }

    /// The message as bytes.
    fn encode(&self) -> Vec<u8> {
        // Strings, numbers and lists; there is no map whose keys might not be strings.
        serde_json::to_vec(self).expect("a message is JSON")
    }

    /// The message that these bytes are, all of them.
    ///
    /// # Errors
    /// [`CodecError`].
    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        if bytes.len() > Self::MAX_BYTES {
            return Err(CodecError::Length { len: bytes.len(), max: Self::MAX_BYTES });
        }
        let mut message: Self = serde_json::from_slice(bytes)
            .map_err(|error| CodecError::Malformed(clean(&error.to_string(), MAX_ERROR_BYTES)))?;
        message.check()?;
        Ok(message)
    }
}

/// Refuses more than `max`.
///
/// # Errors
/// [`CodecError::Field`].
pub fn at_most(field: &'static str, value: u64, max: u64) -> Result<(), CodecError> {
    match value <= max {
        true => Ok(()),
        false => Err(CodecError::Field { field, value, max }),
    }
}

/// Reads a list of at most `MAX` items: `#[serde(deserialize_with = "codec::list::<_, _, 64>")]`.
///
/// # Errors
/// The deserializer's; at the first item too many.
pub fn list<'de, D, T, const MAX: usize>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct Items<T, const MAX: usize>(Vec<T>);

    impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for Items<T, MAX> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "a list of at most {MAX} items")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Vec<T>, A::Error> {
            while let Some(item) = items.next_element()? {
                if self.0.len() == MAX {
                    return Err(A::Error::invalid_length(MAX + 1, &self));
                }
                self.0.push(item);
            }
            Ok(self.0)
        }
    }
    deserializer.deserialize_seq(Items::<T, MAX>(Vec::new()))
}

/// Reads a text of at most `MAX` bytes, as [`list`] reads a list.
///
/// # Errors
/// The deserializer's; if it is longer.
pub fn text<'de, D: Deserializer<'de>, const MAX: usize>(
    deserializer: D,
) -> Result<String, D::Error> {
    struct Text<const MAX: usize>;

    impl<const MAX: usize> Visitor<'_> for Text<MAX> {
        type Value = String;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "a text of at most {MAX} bytes")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
            match text.len() <= MAX {
                true => Ok(text.to_owned()),
                false => Err(E::invalid_length(text.len(), &self)),
            }
        }
    }
    deserializer.deserialize_str(Text::<MAX>)
}

/// Bytes as hexadecimal digits, two a byte: `#[serde(with = "codec::hex")]`.
pub mod hex {
    use super::{Deserializer, Error, Visitor};
    use serde::Serializer;

    /// Writes them.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&encode(bytes))
    }

    /// Reads them. A message is bounded, and they are half of it at most.
    ///
    /// # Errors
    /// The deserializer's; if they are no digits.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        struct Digits;

        impl Visitor<'_> for Digits {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("pairs of hexadecimal digits")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Vec<u8>, E> {
                decode(text).ok_or_else(|| E::custom("not pairs of hexadecimal digits"))
            }
        }
        deserializer.deserialize_str(Digits)
    }

    /// The digits of these bytes.
    pub fn encode(bytes: &[u8]) -> String {
        let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
        let digits = bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        digits.collect()
    }

    /// Returns the bytes of hexadecimal digits; `None` if the text has other characters or an odd length.
    pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        let pair = |pair: &[u8]| match pair {
            [high, low] => Some((digit(high)? << 4 | digit(low)?) as u8),
            _ => None,
        };
        text.as_bytes().chunks(2).map(pair).collect()
    }
}

/// Returns a foreign text, cut to `max_bytes` and without control characters that a terminal would obey.
pub fn clean(text: &str, max_bytes: usize) -> String {
    let mut cleaned = String::new();
    for letter in text.chars() {
        let letter = if letter.is_control() { ' ' } else { letter };
        if cleaned.len() + letter.len_utf8() > max_bytes {
            break;
        }
        cleaned.push(letter);
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        #[serde(deserialize_with = "list::<_, _, 2>")]
        numbers: Vec<u8>,
        #[serde(deserialize_with = "text::<_, 3>")]
        name: String,
        #[serde(with = "hex")]
        bytes: Vec<u8>,
    }

    impl Message for Sample {
        const MAX_BYTES: usize = 60;
    }

    fn sample(numbers: &str, name: &str, bytes: &str) -> Result<Sample, CodecError> {
        let text = format!(r#"{{"numbers":[{numbers}],"name":"{name}","bytes":"{bytes}"}}"#);
        Sample::decode(text.as_bytes())
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let whole = sample("1,2", "abc", "00ff7a").unwrap();
        assert_eq!(whole.bytes, [0, 255, 0x7a]);
        assert_eq!(Sample::decode(&whole.encode()), Ok(whole));
    }

    #[test]
    fn what_is_too_much_is_refused_with_what_is_allowed() {
        for (one, words) in [
            (sample("1,2,3", "abc", ""), "a list of at most 2 items"),
            (sample("", "abcd", ""), "a text of at most 3 bytes"),
            (sample("", "", "0"), "hexadecimal"),
            (sample("", "", "+1"), "hexadecimal"),
            (sample("", "", &"0".repeat(60)), "60 is the most"),
            (Sample::decode(b"{}"), "missing field `numbers`"),
            (Sample::decode(&[b'['; 60]), "invalid type"),
        ] {
            let error = one.unwrap_err().to_string();
            assert!(error.contains(words), "{words}: {error}");
        }
    }

    #[test]
    fn texts_are_cut_between_letters_and_hold_nothing_that_a_terminal_obeys() {
        assert_eq!(clean("a\x1b[2Jä", 5), "a [2J");
        assert_eq!(clean("aä", 2), "a");
    }
}
