//! What operations carry: bytes that say which operation they belong to.

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
        let mut state = self.seed ^ (self.thread << 48) ^ (self.epoch << 40) ^ slot as u64;
        let mut bytes = Vec::with_capacity(len.next_multiple_of(8));
        while bytes.len() < len {
            bytes.extend_from_slice(&next(&mut state).to_le_bytes());
        }
        bytes.truncate(len);
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

/// SplitMix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
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
