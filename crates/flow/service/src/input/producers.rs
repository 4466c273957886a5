//! Producers of batches, and the state of their batches: accepted or committed.
//!
//! A producer numbers its batches in ascending order. A batch with a number that was accepted before is a
//! duplicate. A batch is committed once all of its results are delivered or on disk; a producer receives the
//! number up to which all batches are. A failed batch withdraws its number and all later ones, so that they
//! can be sent again.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use overside_base::lock;
use tokio::sync::{Mutex as AsyncMutex, Notify};

use crate::queue::Ack;

/// Producers that are remembered; of more, the ones that sent nothing for longest are forgotten.
const PRODUCERS_MAX: usize = 1 << 16;

/// All producers of a service.
#[derive(Default)]
pub struct Producers {
    table: Mutex<HashMap<Arc<str>, Arc<Producer>>>,
    clock: AtomicU64,
}

/// A producer of batches.
pub struct Producer {
    /// Name that the producer gives in its metadata, or that its stream was given.
    pub name: Arc<str>,
    /// Held while a batch is admitted and waits for room: by whichever streams they come, the batches of a producer
    /// get into the queue in the order of their numbers.
    pub turn: AsyncMutex<()>,
    state: Mutex<AcceptedBatches>,
    last_used: AtomicU64,
}

#[derive(Default)]
struct AcceptedBatches {
    /// Last number that was accepted.
    accepted: Option<u64>,
    /// The last number up to which all are safe.
    acknowledged: Option<u64>,
    /// Batches that are accepted and not acknowledged, by ascending number.
    in_flight: VecDeque<InFlight>,
    /// Counts accepted batches.
    attempts: u64,
    streams: Vec<Weak<Acknowledgements>>,
}

struct InFlight {
    sequence: u64,
    /// Tells it from an earlier one with the same number, which failed.
    attempt: u64,
    is_safe: bool,
}

/// Decision about a batch that a producer sends.
pub enum Admission {
    /// A new batch to be processed.
    New(Receipt),
    /// A batch that was there before.
    Duplicate,
    /// A batch behind one that has failed: all are to be sent again by another stream.
    Late,
}

/// A batch that was accepted. Dropped without [`Ack::safe`], it has failed.
pub struct Receipt {
    producer: Arc<Producer>,
    sequence: u64,
    attempt: u64,
    is_settled: bool,
}

/// Acknowledgements and failures that a stream has not yet sent to its client.
#[derive(Default)]
pub struct Acknowledgements {
    latest: Mutex<Latest>,
    changed: Notify,
}

#[derive(Default)]
struct Latest {
    acknowledged: HashMap<Arc<str>, u64>,
    failure: Option<Failure>,
}

/// A batch that cannot be processed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Name of the producer that sent the batch.
    pub producer: Arc<str>,
    /// Number of the batch among those of its producer.
    pub sequence: u64,
    /// Reason why the batch cannot be processed.
    pub reason: String,
}

impl Producers {
    /// The producer of that name.
    pub fn get(&self, name: &str) -> Arc<Producer> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut table = lock(&self.table);
        if let Some(producer) = table.get(name) {
            producer.last_used.store(now, Ordering::Relaxed);
            return Arc::clone(producer);
        }
        if table.len() >= PRODUCERS_MAX {
            forget_some(&mut table);
        }
        let name: Arc<str> = name.into();
        let producer = Arc::new(Producer {
            name: Arc::clone(&name),
            turn: AsyncMutex::default(),
            state: Mutex::default(),
            last_used: AtomicU64::new(now),
        });
        table.insert(name, Arc::clone(&producer));
        producer
    }

    /// Returns the number of producers that are known.
    pub fn len(&self) -> usize {
        lock(&self.table).len()
    }

    /// Batches that are accepted and not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        let table = lock(&self.table);
        (table.values()).map(|producer| lock(&producer.state).in_flight.len()).sum()
    }
}

/// Forgets a sixteenth of those that have nothing on its way, beginning with those that sent nothing for longest.
fn forget_some(table: &mut HashMap<Arc<str>, Arc<Producer>>) {
    let idle = table.values().filter(|one| Arc::strong_count(one) == 1);
    let mut used: Vec<u64> = idle.map(|one| one.last_used.load(Ordering::Relaxed)).collect();
    used.sort_unstable();
    if let Some(&limit) = used.get(used.len() / 16) {
        table.retain(|_, one| {
            Arc::strong_count(one) > 1 || one.last_used.load(Ordering::Relaxed) > limit
        });
    }
}

impl Producer {
    /// Sends acknowledgements to a stream, earlier ones included.
    pub fn subscribe(&self, stream: &Arc<Acknowledgements>) {
        let mut state = lock(&self.state);
        state.streams.retain(|one| one.strong_count() > 0);
        state.streams.push(Arc::downgrade(stream));
    }

    /// Takes a batch with this number from a stream, if it is a new one.
    pub fn admit(self: &Arc<Self>, sequence: u64, stream: &Acknowledgements) -> Admission {
        let mut state = lock(&self.state);
        if lock(&stream.latest).failure.is_some() {
            return Admission::Late;
        }
        if state.accepted.is_some_and(|accepted| sequence <= accepted) {
            // What was acknowledged to a stream that is gone is said again.
            if let Some(acknowledged) = state.acknowledged {
                self.tell(&state, acknowledged);
            }
            return Admission::Duplicate;
        }
        state.accepted = Some(sequence);
        state.attempts += 1;
        let attempt = state.attempts;
        state.in_flight.push_back(InFlight { sequence, attempt, is_safe: false });
        Admission::New(Receipt { producer: Arc::clone(self), sequence, attempt, is_settled: false })
    }

    /// A batch with this number was safe before the service started.
    pub fn recover(&self, sequence: u64) {
        let mut state = lock(&self.state);
        let known = state.accepted.map_or(sequence, |known| known.max(sequence));
        state.accepted = Some(known);
        state.acknowledged = Some(known);
    }

    fn settle(&self, sequence: u64, attempt: u64, is_safe: bool) {
        self.settle_in(&mut lock(&self.state), sequence, attempt, is_safe);
    }

    fn settle_in(&self, state: &mut AcceptedBatches, sequence: u64, attempt: u64, is_safe: bool) {
        let Some(index) = state.position(sequence, attempt) else {
            return;
        };
        if !is_safe {
            state.in_flight.truncate(index);
            let last = state.in_flight.back().map(|one| one.sequence);
            state.accepted = last.or(state.acknowledged);
            return;
        }
        if let Some(one) = state.in_flight.get_mut(index) {
            one.is_safe = true;
        }
        let mut acknowledged = None;
        while let Some(first) = state.in_flight.front().filter(|one| one.is_safe) {
            acknowledged = Some(first.sequence);
            state.in_flight.pop_front();
        }
        if let Some(number) = acknowledged {
            state.acknowledged = Some(number);
            self.tell(state, number);
        }
    }

    fn tell(&self, state: &AcceptedBatches, acknowledged: u64) {
        for stream in state.streams.iter().filter_map(Weak::upgrade) {
            stream.add(&self.name, acknowledged);
        }
    }
}

impl AcceptedBatches {
    /// Returns the index of a batch in `in_flight`; `None` if it is not there any more, for example
    /// because it or an earlier batch failed.
    fn position(&self, sequence: u64, attempt: u64) -> Option<usize> {
        let found = (self.in_flight).binary_search_by_key(&sequence, |one| one.sequence);
        let is_same =
            |index: &usize| (self.in_flight.get(*index)).is_some_and(|one| one.attempt == attempt);
        found.ok().filter(is_same)
    }
}

impl Receipt {
    /// The batch cannot be processed. It is as if it and all behind it had not come.
    pub fn fail(mut self, reason: &str) {
        self.is_settled = true;
        let failure = Failure {
            producer: Arc::clone(&self.producer.name),
            sequence: self.sequence,
            reason: reason.into(),
        };
        let mut state = lock(&self.producer.state);
        (self.producer).settle_in(&mut state, self.sequence, self.attempt, false);
        for stream in state.streams.iter().filter_map(Weak::upgrade) {
            stream.fail(failure.clone());
        }
    }
}

impl Ack for Receipt {
    /// Records that all results of the batch are delivered or on disk.
    fn committed(mut self) {
        self.is_settled = true;
        self.producer.settle(self.sequence, self.attempt, true);
    }

    /// Returns `true` if neither this batch nor one before it has failed meanwhile.
    fn is_current(&self) -> bool {
        let state = lock(&self.producer.state);
        state.position(self.sequence, self.attempt).is_some()
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if !self.is_settled {
            self.producer.settle(self.sequence, self.attempt, false);
        }
    }
}

impl Acknowledgements {
    fn add(&self, producer: &Arc<str>, acknowledged: u64) {
        let mut latest = lock(&self.latest);
        latest.acknowledged.insert(Arc::clone(producer), acknowledged);
        drop(latest);
        self.changed.notify_one();
    }

    fn fail(&self, failure: Failure) {
        lock(&self.latest).failure.get_or_insert(failure);
        self.changed.notify_one();
    }

    /// Takes the new acknowledgements: each producer with its last safe number. Empty if there are
    /// none.
    ///
    /// # Errors
    /// A batch of the stream cannot be processed.
    pub fn take(&self) -> Result<Vec<(Arc<str>, u64)>, Failure> {
        let mut latest = lock(&self.latest);
        match latest.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(latest.acknowledged.drain().collect()),
        }
    }

    /// Waits for something new.
    ///
    /// # Errors
    /// As [`Acknowledgements::take`].
    pub async fn next(&self) -> Result<Vec<(Arc<str>, u64)>, Failure> {
        loop {
            let new = self.take()?;
            if !new.is_empty() {
                return Ok(new);
            }
            // Keeps one notification that came in between.
            self.changed.notified().await;
        }
    }

    /// Makes [`Acknowledgements::changed`] return.
    pub fn wake(&self) {
        self.changed.notify_one();
    }

    /// Waits until something may be new.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Ack, Acknowledgements, Admission, Producer, Producers, Receipt};

    fn admit(producer: &Arc<Producer>, sequence: u64) -> Receipt {
        match producer.admit(sequence, &Acknowledgements::default()) {
            Admission::New(receipt) => receipt,
            _ => panic!("{sequence} is new"),
        }
    }

    fn is_duplicate(producer: &Arc<Producer>, sequence: u64) -> bool {
        let admission = producer.admit(sequence, &Acknowledgements::default());
        matches!(admission, Admission::Duplicate)
    }

    #[test]
    fn what_is_safe_is_acknowledged_in_order() {
        let producers = Producers::default();
        let producer = producers.get("p");
        let stream = Arc::new(Acknowledgements::default());
        producer.subscribe(&stream);
        let [first, second, third] = [1, 5, 6].map(|number| admit(&producer, number));
        second.committed();
        assert!(stream.take().unwrap().is_empty());
        first.committed();
        assert_eq!(stream.take().unwrap(), [("p".into(), 5)]);
        assert!(is_duplicate(&producer, 6));
        third.committed();
        assert_eq!(stream.take().unwrap(), [("p".into(), 6)]);
        // A batch that is sent again is acknowledged again.
        assert!(is_duplicate(&producer, 1));
        assert_eq!(stream.take().unwrap(), [("p".into(), 6)]);
        assert_eq!((producers.len(), producers.unacknowledged()), (1, 0));
    }

    #[test]
    fn a_failure_takes_back_what_came_behind_it() {
        let producers = Producers::default();
        let producer = producers.get("p");
        let stream = Arc::new(Acknowledgements::default());
        producer.subscribe(&stream);
        let [first, second, third] = [0, 1, 2].map(|number| admit(&producer, number));
        drop(second);
        assert!(!third.is_current());
        third.committed();
        first.committed();
        assert_eq!(stream.take().unwrap(), [("p".into(), 0)]);
        assert!(is_duplicate(&producer, 0));
        let again = [1, 2].map(|number| admit(&producer, number));
        again.into_iter().for_each(Receipt::committed);
        assert_eq!(stream.take().unwrap(), [("p".into(), 2)]);
    }

    #[test]
    fn nothing_behind_a_failure_is_taken_by_the_same_stream() {
        let producers = Producers::default();
        let producer = producers.get("p");
        let stream = Arc::new(Acknowledgements::default());
        producer.subscribe(&stream);
        let [first, second] = [0, 1].map(|number| admit(&producer, number));
        first.fail("wrong");
        assert!(!second.is_current());
        assert!(matches!(producer.admit(2, &stream), Admission::Late));
        admit(&producer, 0).committed();
        assert_eq!(stream.take().unwrap_err().sequence, 0);
    }
}
