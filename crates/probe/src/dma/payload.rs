//! What operations carry: bytes that say which operation they belong to.

use overside_base::Random;

/// Seed, thread, epoch and place: what makes a payload another's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// The test's seed.
    pub seed: u64,
    /// The initiating thread.
    pub thread: u64,
    /// Which filling of the buffers.
    pub epoch: u64,
}

impl Mark {
    /// The payload of the operations in place `slot`.
    pub(super) fn payload(self, slot: usize, len: usize) -> Vec<u8> {
        let seed = self.seed ^ (self.thread << 48) ^ (self.epoch << 40) ^ slot as u64;
        let mut bytes = Random::new(seed).bytes(len);
        // No two fillings of a place agree in the first byte, however short the payload is.
        if let Some(first) = bytes.first_mut() {
            *first = (slot as u8)
                .wrapping_mul(4)
                .wrapping_add(self.epoch as u8 & 3);
        }
        bytes
    }
}

/// What stands where nothing has arrived: no byte of it is the payload's.
pub(super) fn spoilt(payload: &[u8]) -> Vec<u8> {
    payload.iter().map(|byte| !byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fillings_places_and_threads_differ() {
        let mark = |thread, epoch| Mark {
            seed: 7,
            thread,
            epoch,
        };
        for len in [1, 2, 7, 64, 1000] {
            let one = mark(0, 0).payload(3, len);
            assert_eq!(one.len(), len);
            assert_eq!(one, mark(0, 0).payload(3, len));
            assert_ne!(one, mark(0, 1).payload(3, len));
            assert_ne!(one, mark(0, 0).payload(4, len));
            assert!(one.iter().zip(spoilt(&one)).all(|(a, b)| *a != b));
            assert!(len < 8 || one != mark(1, 0).payload(3, len));
        }
    }
}
