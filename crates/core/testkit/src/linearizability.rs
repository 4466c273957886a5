//! Linearizability checker. It decides whether one register per key explains the clients'
//! observations, with each operation at one moment between its call and its return (Herlihy and
//! Wing, TOPLAS 1990). The search is that of Wing and Gong (JPDC 1993), which remembers visited
//! states (Lowe, 2017). Keys are independent, so each is checked by itself.

mod clients;

use std::collections::{BTreeMap, HashSet};

pub use clients::history;

/// Operation of a client on a key, with the reply that it received. Values are numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Read the value.
    Get {
        /// Value that was found, if any.
        found: Option<u64>,
    },
    /// Wrote.
    Set {
        /// Value in the client's request.
        value: u64,
    },
    /// Wrote the value if the key had none.
    SetIfAbsent {
        /// Value in the client's request.
        value: u64,
        /// `true` if the key was absent.
        done: bool,
    },
    /// Wrote a value, and read the one before.
    Swap {
        /// Value that the client wrote.
        value: u64,
        /// Value that the key had before the write; `None` if it had none.
        found: Option<u64>,
    },
    /// Wrote the value if the key had the expected one.
    CompareAndSet {
        /// Value that the key had before the write; `None` if it had none.
        expected: Option<u64>,
        /// Value that the client wrote.
        value: u64,
    },
    /// Removed the value.
    Delete {
        /// `true` if the key was there.
        done: bool,
    },
}

impl Event {
    /// Returns the key's value after the event. The outer `None` means that the event is impossible
    /// if the key's value is `state`.
    fn after(self, state: Option<u64>) -> Option<Option<u64>> {
        match self {
            Self::Get { found } => (found == state).then_some(state),
            Self::Set { value } => Some(Some(value)),
            Self::SetIfAbsent { value, done } => {
                (done == state.is_none()).then_some(if done { Some(value) } else { state })
            }
            Self::Swap { value, found } => (found == state).then_some(Some(value)),
            Self::CompareAndSet { expected, value } => (expected == state).then_some(Some(value)),
            Self::Delete { done } => (done == state.is_some()).then_some(None),
        }
    }
}

/// An event, and when it was called and returned. No two times are the same.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Number of the key in the client's requests.
    pub key: usize,
    /// Logical time at which the client sent the request.
    pub called: u64,
    /// Logical time at which the client received the reply.
    pub returned: u64,
    /// Operation and its reply.
    pub event: Event,
}

/// Checks that the history of each key can be explained.
///
/// # Errors
/// The first key for which it cannot, with its history.
pub fn check(records: &[Record]) -> Result<(), (usize, Vec<Record>)> {
    let mut by_key: BTreeMap<usize, Vec<Record>> = BTreeMap::new();
    for record in records {
        by_key.entry(record.key).or_default().push(*record);
    }
    for (key, mut history) in by_key {
        history.sort_by_key(|record| record.called);
        let mut search = Search {
            done: vec![0; history.len().div_ceil(64)],
            seen: HashSet::new(),
            history: &history,
        };
        if !search.explains(0, None) {
            return Err((key, history));
        }
    }
    Ok(())
}

struct Search<'h> {
    history: &'h [Record],
    /// A bit for each event that has its moment.
    done: Vec<u64>,
    seen: HashSet<(Vec<u64>, Option<u64>)>,
}

impl Search<'_> {
    fn is_done(&self, at: usize) -> bool {
        self.done[at / 64] >> (at % 64) & 1 == 1
    }

    /// Returns `true` if all pending events from `first` on can happen, in some order, when the
    /// key's value is `state`.
    fn explains(&mut self, mut first: usize, state: Option<u64>) -> bool {
        while first < self.history.len() && self.is_done(first) {
            first += 1;
        }
        let left = (first..self.history.len()).filter(|at| !self.is_done(*at));
        let left: Vec<_> = left.collect();
        let Some(limit) = left.iter().map(|at| self.history[*at].returned).min() else {
            return true;
        };
        // Whatever was called after another had returned comes after that.
        for at in left {
            let record = self.history[at];
            if record.called > limit {
                break;
            }
            let Some(next) = record.event.after(state) else {
                continue;
            };
            self.done[at / 64] |= 1 << (at % 64);
            if self.seen.insert((self.done.clone(), next)) && self.explains(first, next) {
                return true;
            }
            self.done[at / 64] &= !(1 << (at % 64));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::{Event, Record, check};

    fn record((called, returned): (u64, u64), event: Event) -> Record {
        Record { key: 7, called, returned, event }
    }

    #[test]
    fn only_what_one_register_can_do_is_explained() {
        let set = |times, value| record(times, Event::Set { value });
        let get = |times, found| record(times, Event::Get { found });
        let add = |times, value, done| record(times, Event::SetIfAbsent { value, done });
        let delete = |times, done| record(times, Event::Delete { done });
        let swap = |times, value, found| record(times, Event::Swap { value, found });
        let compare =
            |times, expected, value| record(times, Event::CompareAndSet { expected, value });
        for (history, expected) in [
            (vec![set((1, 2), 5), get((3, 4), Some(5))], true),
            (vec![set((1, 2), 5), get((3, 4), None)], false),
            // During a write both values can be seen, but not the new one before the old one.
            (vec![set((1, 6), 5), get((2, 3), None), get((4, 5), Some(5))], true),
            (vec![set((1, 6), 5), get((2, 3), Some(5)), get((4, 5), None)], false),
            // Two that overlap come in either order, and for all alike.
            (
                vec![set((1, 4), 5), set((2, 3), 6), get((5, 6), Some(5)), get((7, 8), Some(5))],
                true,
            ),
            (
                vec![set((1, 4), 5), set((2, 3), 6), get((5, 6), Some(5)), get((7, 8), Some(6))],
                false,
            ),
            (vec![add((1, 4), 5, true), add((2, 3), 6, false)], true),
            (vec![add((1, 4), 5, true), add((2, 3), 6, true)], false),
            (vec![set((1, 2), 5), delete((3, 6), true), delete((4, 5), false)], true),
            (vec![set((1, 2), 5), delete((3, 6), true), delete((4, 5), true)], false),
            (vec![swap((1, 4), 5, Some(6)), swap((2, 3), 6, None)], true),
            (vec![swap((1, 4), 5, Some(6)), swap((2, 3), 6, Some(5))], false),
            (vec![set((1, 2), 5), compare((3, 4), Some(5), 6), get((5, 6), Some(6))], true),
            (vec![set((1, 2), 5), compare((3, 6), Some(5), 6), compare((4, 5), Some(5), 7)], false),
        ] {
            assert_eq!(check(&history).is_ok(), expected, "{history:?}");
            let mut two_keys = history.clone();
            two_keys.push(Record { key: 8, ..get((100, 101), None) });
            assert_eq!(check(&two_keys).is_ok(), expected);
        }
    }
}
