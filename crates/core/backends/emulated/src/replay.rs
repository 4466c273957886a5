//! Results that are kept, so that an input computed once can be delivered at any speed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use overside_base::lock;
use overside_device::{JobError, OperationConfig, Outcome, Source};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Memory in bytes that an entry takes in addition to its result.
const OVERHEAD_BYTES: usize = 160;

/// Key under which a result is kept. Digests of 128 bits do not collide by chance. A user who
/// constructs colliding inputs on purpose gets only their own wrong result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    config: u128,
    source: u128,
    len: u64,
}

impl Key {
    /// Digest of an operation on a source: operation, library, level and patterns.
    pub(crate) fn config(config: &OperationConfig) -> u128 {
        // Debug quotes strings, so that no two configurations read the same.
        xxh3_128(format!("{config:?}").as_bytes())
    }

    pub(crate) fn new(config: u128, source: &Source) -> Self {
        let digest = match source.segments() {
            [one] => xxh3_128(one),
            many => {
                let mut hasher = Xxh3::new();
                many.iter().for_each(|slice| hasher.update(slice));
                hasher.digest128()
            }
        };
        Self { config, source: digest, len: source.len() as u64 }
    }
}

/// A result that can be delivered again.
pub(crate) struct KeptResult {
    outcome: Outcome,
    bytes: Vec<u8>,
    source_len: usize,
}

impl KeptResult {
    /// Delivers it into a destination, by the rules that computing it would follow.
    pub(crate) fn deliver(&self, destination: &mut [u8]) -> Result<Outcome, JobError> {
        let needed = match self.outcome {
            Outcome::Done(output) => output.written,
            Outcome::Incompressible => self.source_len,
        };
        let capacity = destination.len();
        if capacity < needed {
            return Err(JobError::OutputTooSmall { capacity });
        }
        destination[..self.bytes.len()].copy_from_slice(&self.bytes);
        Ok(self.outcome)
    }
}

/// The results that a device keeps.
pub(crate) struct Replay {
    max_bytes: usize,
    kept: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    by_key: HashMap<Key, Arc<KeptResult>>,
    bytes: usize,
}

impl Replay {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, kept: Mutex::default() }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Arc<KeptResult>> {
        let kept = lock(&self.kept);
        kept.by_key.get(key).cloned()
    }

    /// Stores a result if there is room for it. Failures are not stored: they may differ with
    /// another destination.
    pub(crate) fn keep(&self, key: Key, outcome: Outcome, destination: &[u8]) {
        let written = match outcome {
            Outcome::Done(output) => output.written.min(destination.len()),
            Outcome::Incompressible => 0,
        };
        let mut bytes = Vec::new();
        if written > self.max_bytes || bytes.try_reserve_exact(written).is_err() {
            return;
        }
        bytes.extend_from_slice(&destination[..written]);
        let kept = KeptResult { outcome, bytes, source_len: key.len as usize };
        let mut entries = lock(&self.kept);
        let after = entries.bytes + written + OVERHEAD_BYTES;
        if after <= self.max_bytes && entries.by_key.insert(key, Arc::new(kept)).is_none() {
            entries.bytes = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use overside_device::{ExternalBytes, Output, Slice};

    fn source(bytes: &[u8]) -> Source {
        Slice::from_external(ExternalBytes::new(bytes.to_vec()), None).into()
    }

    fn done(written: usize) -> Outcome {
        Outcome::Done(Output { written, value: Some(7) })
    }

    #[test]
    fn a_result_is_found_by_configuration_and_content() {
        let replay = Replay::new(10_000);
        let key = Key::new(1, &source(b"abc"));
        replay.keep(key, done(2), b"xyz");
        let mut out = [0; 4];
        let kept = replay.get(&Key::new(1, &source(b"abc"))).expect("kept");
        assert_eq!((kept.deliver(&mut out), &out), (Ok(done(2)), b"xy\0\0"));
        assert!(replay.get(&Key::new(2, &source(b"abc"))).is_none());
        assert!(replay.get(&Key::new(1, &source(b"abd"))).is_none());
        let chain = Source::Chain(Box::new(
            [b"a", b"b", b"c"]
                .map(|one| Slice::from_external(ExternalBytes::new(one.to_vec()), None)),
        ));
        assert_eq!(Key::new(1, &chain), key);
    }

    #[test]
    fn a_destination_that_is_too_small_is_refused_as_if_computed() {
        let replay = Replay::new(10_000);
        let (small, stored) = (Key::new(1, &source(b"abcd")), Key::new(1, &source(b"efgh")));
        replay.keep(small, done(2), b"xy");
        replay.keep(stored, Outcome::Incompressible, b"....");
        let deliver = |key, capacity| replay.get(key).unwrap().deliver(&mut vec![0; capacity]);
        assert_eq!(deliver(&small, 1), Err(JobError::OutputTooSmall { capacity: 1 }));
        assert_eq!(deliver(&small, 2), Ok(done(2)));
        assert_eq!(deliver(&stored, 3), Err(JobError::OutputTooSmall { capacity: 3 }));
        assert_eq!(deliver(&stored, 4), Ok(Outcome::Incompressible));
    }

    #[test]
    fn no_more_is_kept_than_allowed() {
        let replay = Replay::new(1000);
        let keys: Vec<_> = (0..100u8).map(|one| Key::new(1, &source(&[one]))).collect();
        keys.iter().for_each(|key| replay.keep(*key, done(100), &[1; 100]));
        let found = keys.iter().filter(|key| replay.get(key).is_some()).count();
        assert_eq!(found, 1000 / (100 + OVERHEAD_BYTES));
        // The same result again takes no room.
        keys.iter().take(1).for_each(|key| replay.keep(*key, done(100), &[1; 100]));
        assert!(replay.get(&keys[2]).is_some());
        Replay::new(10).keep(keys[0], done(100), &[1; 100]);
    }
}
