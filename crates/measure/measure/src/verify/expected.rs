//! Record of a verified output, sufficient to recognize the output under the clock.

use overside_device::Outcome;
use overside_probe::{Failure, FailureKind};
use xxhash_rust::xxh3::xxh3_64;

/// Number of bytes at an output's end that are compared in every completion. No digest is longer.
const TAIL_BYTES: usize = 32;

/// Verified result of an operation on one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expected {
    /// The outcome with its length and value.
    pub outcome: Outcome,
    /// The last bytes of the output, as many as there are.
    tail: [u8; TAIL_BYTES],
    /// XXH3 of the output.
    digest: u64,
}

impl Expected {
    /// Records a verified completion.
    pub(crate) fn new(outcome: Outcome, destination: &[u8]) -> Self {
        let output = &destination[..written(&outcome)];
        let mut tail = [0; TAIL_BYTES];
        let len = output.len().min(TAIL_BYTES);
        tail[..len].copy_from_slice(&output[output.len() - len..]);
        Self { outcome, tail, digest: xxh3_64(output) }
    }

    fn tail_range(&self) -> std::ops::Range<usize> {
        let end = written(&self.outcome);
        end.saturating_sub(TAIL_BYTES)..end
    }

    /// Overwrites the place where the output's end will be, so that a completion without an output,
    /// or one that comes before its output, cannot look like the one before.
    pub(crate) fn poison(&self, destination: &mut [u8]) {
        let Some(tail) = destination.get_mut(self.tail_range()) else {
            return;
        };
        for (byte, right) in tail.iter_mut().zip(&self.tail) {
            *byte = !right;
        }
    }

    /// Returns `true` if outcome, length, value and last bytes are as expected; cheap under the clock.
    pub(crate) fn looks_like(&self, outcome: &Outcome, destination: &[u8]) -> bool {
        let Some(tail) = destination.get(self.tail_range()) else {
            return false;
        };
        *outcome == self.outcome && *tail == self.tail[..tail.len()]
    }

    /// Fails if a source that compressed well before is now reported as incompressible, even if a
    /// compressor's output depends on its earlier work.
    pub(crate) fn not_incompressible(
        &self,
        outcome: &Outcome,
        source_bytes: usize,
    ) -> Result<(), Failure> {
        match (outcome, self.outcome) {
            (Outcome::Incompressible, Outcome::Done(before))
                if before.written < source_bytes - source_bytes / 8 =>
            {
                let message = format!(
                    "{source_bytes} bytes that had been compressed to {} were called incompressible",
                    before.written
                );
                Err(Failure::new(FailureKind::Verification, message))
            }
            _ => Ok(()),
        }
    }

    /// Returns `true` if every byte is as expected.
    pub(crate) fn is(&self, outcome: &Outcome, destination: &[u8]) -> bool {
        let Some(output) = destination.get(..written(outcome)) else {
            return false;
        };
        *outcome == self.outcome && xxh3_64(output) == self.digest
    }
}

fn written(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Done(output) => output.written,
        Outcome::Incompressible => 0,
    }
}

#[cfg(test)]
mod tests {
    use overside_device::Output;

    use super::*;

    #[test]
    fn a_poisoned_destination_does_not_look_right() {
        for len in [1, 5, 31, 32, 33, 1000] {
            let mut destination = vec![7; 1000];
            let outcome = Outcome::Done(Output { written: len, value: None });
            let expected = Expected::new(outcome, &destination);
            assert!(expected.looks_like(&outcome, &destination));
            expected.poison(&mut destination);
            assert!(!expected.looks_like(&outcome, &destination), "{len}");
        }
    }
}
