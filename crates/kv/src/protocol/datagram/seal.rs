//! Seals: how datagrams prove that their sender knows the server's password, where other machines can send some.
//!
//! A sealed datagram is an envelope around one of this protocol (or nothing). All numbers are in little endian:
//!
//! ```text
//!   0 magic (2) | 2 version (1) | 3 flags (1) | 4 partition (2) | 6 length (2) | 8 epoch (8)
//!   16 tag (16) | 32 the datagram, of that length | padding
//! ```
//!
//! 1. The tag is the first half of an HMAC-SHA-256 (RFC 2104) of the first 16 bytes, the server's port (2) and
//!    the datagram. So nobody can change one, or send it to another port, whose worker would not know that it
//!    was executed.
//! 2. The epoch is the server's, and changes every [`EPOCH_MS`] and with every start: a recorded datagram is
//!    worth nothing after two. For so long [`super::history`] remembers what was executed.
//! 3. A client asks for the epoch by an envelope around nothing, and finds it in every answer.
//!
//! Nothing is encrypted.

use ring::hmac;

/// The first two bytes.
pub const SEAL_MAGIC: [u8; 2] = *b"KS";
/// What a seal adds to a datagram.
pub const SEAL_BYTES: usize = 32;
/// How long an epoch lasts in milliseconds. Two are less than what the history remembers.
pub const EPOCH_MS: u64 = 25_000;

const VERSION: u8 = 1;
const ANSWER: u8 = 1;
const TAG: std::ops::Range<usize> = 16..SEAL_BYTES;
/// What the key is for.
const PURPOSE: &[u8] = b"overside kv datagram seal 1";

const _: () = assert!(2 * EPOCH_MS < super::FORGET_MS);

/// What both sides know.
#[derive(Clone)]
pub struct SealKey(hmac::Key);

/// A sealed datagram whose tag is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sealed<'a> {
    /// That of the server when it was made, as its sender knew it.
    pub epoch: u64,
    /// What is in it; empty: nothing but the epoch.
    pub datagram: &'a [u8],
}

/// Who has made a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A client.
    Client,
    /// The server.
    Server,
}

impl SealKey {
    /// From the SHA-256 digest of the password.
    #[must_use]
    pub fn new(password_digest: &[u8; 32]) -> Self {
        let digest = hmac::Key::new(hmac::HMAC_SHA256, password_digest);
        let key = hmac::sign(&digest, PURPOSE);
        Self(hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()))
    }

    /// Appends a datagram in its envelope.
    ///
    /// # Panics
    /// If the datagram is longer than 65,535 bytes.
    pub fn seal(&self, sender: Sender, port: u16, epoch: u64, datagram: &[u8], out: &mut Vec<u8>) {
        let len = u16::try_from(datagram.len()).expect("a datagram");
        let mut envelope = [0; SEAL_BYTES];
        envelope[..2].copy_from_slice(&SEAL_MAGIC);
        envelope[2] = VERSION;
        envelope[3] = flags(sender);
        // Where it is in the datagram itself, for whoever steers by it.
        if let Some(partition) = datagram.get(4..6) {
            envelope[4..6].copy_from_slice(partition);
        }
        envelope[6..8].copy_from_slice(&len.to_le_bytes());
        envelope[8..16].copy_from_slice(&epoch.to_le_bytes());
        let tag = self.tag(&envelope, port, datagram);
        envelope[TAG].copy_from_slice(&tag);
        out.extend_from_slice(&envelope);
        out.extend_from_slice(datagram);
    }

    /// What is in an envelope; `None`: it is none, or not one of that sender, or its tag is wrong.
    #[must_use]
    pub fn open<'a>(&self, sender: Sender, port: u16, bytes: &'a [u8]) -> Option<Sealed<'a>> {
        let (envelope, rest) = bytes.split_first_chunk::<SEAL_BYTES>()?;
        if envelope[..2] != SEAL_MAGIC || envelope[2] != VERSION || envelope[3] != flags(sender) {
            return None;
        }
        let len = u16::from_le_bytes([envelope[6], envelope[7]]);
        let datagram = rest.get(..usize::from(len))?;
        let pairs = envelope[TAG].iter().zip(self.tag(envelope, port, datagram));
        // As long for a wrong one as for a right one.
        let difference = pairs.fold(0, |all, (one, other)| all | (one ^ other));
        (difference == 0).then(|| Sealed {
            epoch: u64::from_le_bytes(std::array::from_fn(|byte| envelope[8 + byte])),
            datagram,
        })
    }

    fn tag(&self, envelope: &[u8; SEAL_BYTES], port: u16, datagram: &[u8]) -> [u8; 16] {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(&envelope[..TAG.start]);
        context.update(&port.to_le_bytes());
        context.update(datagram);
        let tag = context.sign();
        std::array::from_fn(|byte| tag.as_ref()[byte])
    }
}

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealKey")
    }
}

/// Whether these bytes claim to be sealed.
#[must_use]
pub fn is_sealed(bytes: &[u8]) -> bool {
    bytes.starts_with(&SEAL_MAGIC)
}

/// The epochs of a server.
#[derive(Clone, Copy, Debug)]
pub struct Epochs {
    /// Another number for each start of the server.
    start: u32,
    started_ms: u64,
}

impl Epochs {
    /// Those of a server that was started at a time. `start`: a random number.
    #[must_use]
    pub fn new(start: u32, started_ms: u64) -> Self {
        Self { start, started_ms }
    }

    /// That of a time.
    #[must_use]
    pub fn at(&self, now_ms: u64) -> u64 {
        let number = now_ms.saturating_sub(self.started_ms) / EPOCH_MS;
        u64::from(self.start) << 32 | (number & u64::from(u32::MAX))
    }

    /// Whether an epoch is that of a time, or the one before it.
    #[must_use]
    pub fn is_recent(&self, epoch: u64, now_ms: u64) -> bool {
        let now = self.at(now_ms);
        let before = now_ms.checked_sub(EPOCH_MS).map(|then| self.at(then));
        epoch == now || Some(epoch) == before
    }
}

fn flags(sender: Sender) -> u8 {
    match sender {
        Sender::Client => 0,
        Sender::Server => ANSWER,
    }
}

#[cfg(test)]
mod tests {
    use super::{EPOCH_MS, Epochs, SEAL_BYTES, SealKey, Sealed, Sender};

    #[test]
    fn what_was_sealed_is_opened_and_every_change_is_noticed() {
        let key = SealKey::new(&[7; 32]);
        for datagram in [&b""[..], b"KV", &[9; 300]] {
            let mut bytes = Vec::new();
            key.seal(Sender::Client, 6379, 42, datagram, &mut bytes);
            assert_eq!(bytes.len(), SEAL_BYTES + datagram.len());
            let expected = Some(Sealed {
                epoch: 42,
                datagram,
            });
            assert_eq!(key.open(Sender::Client, 6379, &bytes), expected);
            // As it comes when it was sent in a train.
            let padded = [&bytes[..], &[0; 9]].concat();
            assert_eq!(key.open(Sender::Client, 6379, &padded), expected);
            assert_eq!(key.open(Sender::Server, 6379, &bytes), None);
            assert_eq!(key.open(Sender::Client, 6380, &bytes), None);
            let other = SealKey::new(&[8; 32]);
            assert_eq!(other.open(Sender::Client, 6379, &bytes), None);
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 1;
                assert_eq!(key.open(Sender::Client, 6379, &changed), None, "{at}");
                assert_eq!(key.open(Sender::Client, 6379, &bytes[..at]), None, "{at}");
            }
        }
    }

    #[test]
    fn an_epoch_is_worth_something_for_less_than_two() {
        let epochs = Epochs::new(5, 1_000);
        let first = epochs.at(1_000);
        for (now_ms, is_recent) in [
            (1_000, true),
            (1_000 + EPOCH_MS, true),
            (999 + 2 * EPOCH_MS, true),
            (1_000 + 2 * EPOCH_MS, false),
        ] {
            assert_eq!(epochs.is_recent(first, now_ms), is_recent, "{now_ms}");
        }
        assert!(!Epochs::new(6, 1_000).is_recent(first, 1_000));
        assert!(!epochs.is_recent(epochs.at(1_000 + EPOCH_MS), 1_000));
    }
}
