//! Contents of a message: bytes that only this message has.
//!
//! All messages of a session share one body, made from its seed. The first eight bytes of each
//! carry the message's number, and the last eight too where there are sixteen: missing, repeated
//! and shifted messages do not pass.

use overside_base::Random;

/// Number of messages of a connection that are compared in every byte, even if they are long.
pub(super) const WHOLE_FIRST: u64 = 64;
/// Interval of messages that are compared in every byte afterwards.
const WHOLE_EACH: u64 = 1021;
/// Messages up to this many bytes are always compared in every byte.
const WHOLE_BYTES: usize = 1024;
/// Bytes that carry the number.
const STAMP: usize = 8;

/// The body that all messages of a session share.
pub(super) struct BytePattern {
    body: Vec<u8>,
}

impl BytePattern {
    /// Random bytes.
    pub(super) fn new(message_bytes: usize, seed: u64) -> Self {
        let body = Random::new(seed).bytes(message_bytes);
        Self { body }
    }

    pub(super) fn message_bytes(&self) -> usize {
        self.body.len()
    }

    /// Returns `count` concatenated messages, to be stamped.
    pub(super) fn repeated(&self, count: usize) -> Vec<u8> {
        self.body.repeat(count)
    }

    /// Makes `message`, which has the body or any other stamp of it, message `number`.
    pub(super) fn stamp(&self, message: &mut [u8], number: u64) {
        let (head, tail) = self.ends(number);
        let len = message.len();
        message[..len.min(STAMP)].copy_from_slice(&head[..len.min(STAMP)]);
        if len >= 2 * STAMP {
            message[len - STAMP..].copy_from_slice(&tail);
        }
    }

    /// The number in a message; `None` if it is too short to have one.
    pub(super) fn number(&self, message: &[u8]) -> Option<u64> {
        let stamp = |bytes: &[u8]| Some(u64::from_le_bytes(*bytes.first_chunk::<STAMP>()?));
        Some(stamp(message)? ^ stamp(&self.body)?)
    }

    /// Returns `true` if the bytes are message `number`. The middle of a long message is compared
    /// only for the first messages and for one in every `WHOLE_EACH` later ones.
    pub(super) fn is(&self, message: &[u8], number: u64) -> bool {
        let len = self.body.len();
        if message.len() != len {
            return false;
        }
        let (head, tail) = self.ends(number);
        if message[..len.min(STAMP)] != head[..len.min(STAMP)] {
            return false;
        }
        if len < 2 * STAMP {
            return message.get(STAMP..) == self.body.get(STAMP..);
        }
        let whole = len <= WHOLE_BYTES || number < WHOLE_FIRST || number.is_multiple_of(WHOLE_EACH);
        let inner = STAMP..len - STAMP;
        message[len - STAMP..] == tail && (!whole || message[inner.clone()] == self.body[inner])
    }

    /// The first and the last bytes of message `number`.
    fn ends(&self, number: u64) -> ([u8; STAMP], [u8; STAMP]) {
        let stamped = |at: usize| {
            let mut bytes = [0; STAMP];
            let have = self.body.len().saturating_sub(at).min(STAMP);
            bytes[..have].copy_from_slice(&self.body[at..at + have]);
            (u64::from_le_bytes(bytes) ^ number).to_le_bytes()
        };
        (stamped(0), stamped(self.body.len().saturating_sub(STAMP)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_itself_and_no_other() {
        for len in [1, 2, 7, 8, 9, 15, 16, 17, 64, 1024, 1025, 100_000] {
            let pattern = BytePattern::new(len, 7);
            let mut message = pattern.repeated(1);
            for number in [0, 1, 255, 63, 64, 1021] {
                pattern.stamp(&mut message, number);
                assert!(pattern.is(&message, number), "{len} {number}");
                let told = pattern.number(&message);
                assert_eq!(told, (len >= 8).then_some(number), "{len} {number}");
                assert!(!pattern.is(&message, number ^ 1), "{len} {number}");
                assert!(!pattern.is(&message[1..], number), "{len} {number}");
            }
        }
    }

    #[test]
    fn one_wrong_byte_is_seen_in_what_is_compared_whole() {
        let pattern = BytePattern::new(100_000, 1);
        let mut message = pattern.repeated(1);
        for (number, seen) in [(3, true), (WHOLE_EACH, true), (WHOLE_EACH + 1, false)] {
            pattern.stamp(&mut message, number);
            message[50_000] ^= 1;
            assert_eq!(!pattern.is(&message, number), seen, "{number}");
            message[50_000] ^= 1;
        }
        for at in [0, 7, 99_992, 99_999] {
            pattern.stamp(&mut message, 70);
            message[at] ^= 1;
            assert!(!pattern.is(&message, 70), "{at}");
        }
    }

    #[test]
    fn another_seed_makes_other_messages() {
        let (one, other) = (BytePattern::new(64, 1), BytePattern::new(64, 2));
        assert!(!other.is(&one.repeated(1), 0));
    }
}
