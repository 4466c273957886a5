//! Sequence numbers of the batches in a tree or another output: a batch that arrives twice is skipped.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// Maximum number of remembered producers. Beyond it, a sixteenth is forgotten: those that have been silent
/// for longest.
const PRODUCERS_MAX: usize = 1 << 15;

/// Highest sequence number of each producer: all batches up to it are in the tree. Serialized as pairs, the
/// most recent producers last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(Box<str>, u64)>", into = "Vec<(Box<str>, u64)>")]
pub struct Sequences {
    last: HashMap<Box<str>, Noted>,
    clock: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Noted {
    sequence: u64,
    /// Value of the clock at the last batch. The clock counts the batches of all producers.
    at: u64,
}

impl Sequences {
    pub(super) fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// Returns `true` if the producer's batch of this number is there.
    pub fn has(&self, producer: &str, sequence: u64) -> bool {
        let noted = self.last.get(producer);
        noted.is_some_and(|noted| sequence <= noted.sequence)
    }

    /// Records that this batch of the producer, and all before it, are there.
    pub fn note(&mut self, producer: &str, sequence: u64) {
        self.clock += 1;
        let at = self.clock;
        if let Some(noted) = self.last.get_mut(producer) {
            let sequence = sequence.max(noted.sequence);
            *noted = Noted { sequence, at };
            return;
        }
        if self.last.len() >= PRODUCERS_MAX {
            let mut times: Vec<u64> = self.last.values().map(|noted| noted.at).collect();
            times.sort_unstable();
            let limit = times[times.len() / 16];
            self.last.retain(|_, noted| noted.at > limit);
        }
        self.last.insert(producer.into(), Noted { sequence, at });
    }
}

impl From<Vec<(Box<str>, u64)>> for Sequences {
    fn from(pairs: Vec<(Box<str>, u64)>) -> Self {
        let mut all = Self::default();
        for (producer, sequence) in pairs {
            all.note(&producer, sequence);
        }
        all
    }
}

impl From<Sequences> for Vec<(Box<str>, u64)> {
    fn from(all: Sequences) -> Self {
        let mut pairs: Vec<(Box<str>, Noted)> = all.last.into_iter().collect();
        pairs.sort_unstable_by_key(|(_, noted)| noted.at);
        let pairs = pairs.into_iter();
        pairs.map(|(producer, noted)| (producer, noted.sequence)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{PRODUCERS_MAX, Sequences};

    #[test]
    fn of_too_many_producers_the_oldest_are_forgotten() {
        let mut all = Sequences::default();
        for number in 0..=PRODUCERS_MAX {
            all.note(&number.to_string(), 7);
            all.note("0", number as u64);
        }
        assert!(all.last.len() <= PRODUCERS_MAX);
        assert!(all.has("0", PRODUCERS_MAX as u64) && !all.has("1", 7));
        assert!(all.has(&PRODUCERS_MAX.to_string(), 7));
        let text = serde_json::to_string(&all).unwrap();
        let again: Sequences = serde_json::from_str(&text).unwrap();
        let (pairs, pairs_again): (Vec<_>, Vec<_>) = (all.into(), again.into());
        assert_eq!(pairs, pairs_again);
    }
}
