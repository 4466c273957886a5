//! Batches in stages, and the contract of a processing engine.

use super::Store;
use super::index::Slot;
use super::item::{Item, NewItem};
use super::snapshot::requests_of;
use crate::{
    Answer, Answers, Condition, Element, Expiry, KEY_MAX_BYTES, ListBuilder, Metadata, Operation,
    ProcessingEngine, Refusal, Request, ScanPosition, SetOptions, Statistics, Transaction,
    VALUE_MAX_BYTES, Value, ValueKind, codec,
};

/// Number of requests by which each step of fetching is ahead of the next.
const AHEAD: usize = 8;

/// Fetches the memory that requests will need in three steps, each ahead of the next: the bucket of a key; the item
/// whose tag is that of the key, or the bucket behind; the item that is found there.
struct Fetcher {
    /// A bit for each of the last 64 requests, by its index: 1 if its item may be behind the first bucket of its chain.
    chained: u64,
    /// Offset of an item with the request's tag, and the value of `Index::changes` when it was
    /// found; 0, 0 if there is none.
    candidates: [(u32, u32); CANDIDATES],
}

/// More than requests are between the second step and the execution.
const CANDIDATES: usize = 4 * AHEAD;

impl Fetcher {
    fn begin(store: &Store, batch: &[Request<'_>]) -> Self {
        let mut fetcher = Self { chained: 0, candidates: [(0, 0); CANDIDATES] };
        let first = batch.iter().take(3 * AHEAD);
        first.for_each(|request| store.index.prefetch(request.hash));
        for index in 0..2 * AHEAD {
            fetcher.fetch_item(store, batch, index);
        }
        for index in 0..AHEAD {
            fetcher.fetch_item_in_chain(store, batch, index);
        }
        fetcher
    }

    /// The steps that are due before a request is executed.
    #[inline(always)]
    fn advance(&mut self, store: &Store, batch: &[Request<'_>], index: usize) {
        if let Some(request) = batch.get(index + 3 * AHEAD) {
            store.index.prefetch(request.hash);
        }
        self.fetch_item(store, batch, index + 2 * AHEAD);
        self.fetch_item_in_chain(store, batch, index + AHEAD);
    }

    #[inline(always)]
    fn fetch_item(&mut self, store: &Store, batch: &[Request<'_>], index: usize) {
        if let Some(request) = batch.get(index) {
            let mut candidate = (0, 0);
            let is_chained = store.index.candidates(request.hash, |offset| {
                store.memory.prefetch(offset);
                candidate = (offset, store.index.changes());
            });
            self.candidates[index % CANDIDATES] = candidate;
            self.chained |= u64::from(is_chained) << (index % 64);
        }
    }

    /// Returns the offset at which the item of a request may be; `None` if the index has changed
    /// since it was looked up.
    #[inline(always)]
    fn candidate(&self, store: &Store, index: usize) -> Option<u32> {
        let (offset, changes) = self.candidates[index % CANDIDATES];
        (changes == store.index.changes() && changes != 0).then_some(offset)
    }

    #[inline(always)]
    fn fetch_item_in_chain(&mut self, store: &Store, batch: &[Request<'_>], index: usize) {
        let bit = 1 << (index % 64);
        if self.chained & bit != 0
            && let Some(request) = batch.get(index)
        {
            self.chained &= !bit;
            let candidate = &mut self.candidates[index % CANDIDATES];
            store.index.candidates_in_chain(request.hash, |offset| {
                store.memory.prefetch(offset);
                *candidate = (offset, store.index.changes());
            });
        }
    }
}

impl ProcessingEngine for Store {
    fn execute(&mut self, batch: &[Request<'_>], now_ms: u64, answers: Answers<'_>) {
        if let [request] = batch {
            // One request alone waits for its memory anyway.
            return self.execute_one(0, request, now_ms, answers);
        }
        let mut fetcher = Fetcher::begin(self, batch);
        for (index, request) in batch.iter().enumerate() {
            fetcher.advance(self, batch, index);
            let is_done = match fetcher.candidate(self, index) {
                Some(offset) => self.execute_at(offset, index, request, now_ms, answers),
                None => false,
            };
            if !is_done {
                self.execute_one(index, request, now_ms, answers);
            }
        }
    }

    fn execute_transaction(
        &mut self,
        transaction: &Transaction<'_>,
        now_ms: u64,
        answers: Answers<'_>,
    ) -> bool {
        let mut watched = transaction.watched.iter();
        let is_unchanged = watched.all(|(key, hash, expected)| match *expected {
            0 => self.lookup(key, *hash, now_ms).is_none(),
            version => self.watched_version(key, *hash, now_ms) == version,
        });
        if is_unchanged {
            self.execute(&transaction.requests, now_ms, answers);
        }
        is_unchanged
    }

    fn scan(
        &mut self,
        position: ScanPosition,
        count: usize,
        now_ms: u64,
        keys: &mut dyn FnMut(&[u8], Metadata),
    ) -> Result<ScanPosition, Refusal> {
        Ok(self.scan_keys(position, count, now_ms, keys))
    }

    fn expire_some(&mut self, now_ms: u64, buckets: usize) -> usize {
        self.sweep(now_ms, buckets)
    }

    fn flush(&mut self) -> Result<(), Refusal> {
        self.index.clear();
        self.memory.clear();
        self.collections.clear();
        self.snapshot.cancel();
        self.expire_position = 0;
        self.counts.items = 0;
        self.counts.items_with_expiry = 0;
        self.counts.payload_bytes = 0;
        Ok(())
    }

    fn statistics(&self) -> Statistics {
        let collections = self.collections.bytes() + self.snapshot.pending_bytes();
        Statistics {
            memory_bytes: (self.memory.used() + self.index.bytes() + collections) as u64,
            ..self.counts
        }
    }
}

impl Store {
    /// Executes the most frequent and simple requests, if the item at `offset`, which the index
    /// has, is that of the key: reading a string, and overwriting one with one of the same length.
    #[inline(always)]
    fn execute_at(
        &mut self,
        offset: u32,
        index: usize,
        request: &Request<'_>,
        now_ms: u64,
        answers: Answers<'_>,
    ) -> bool {
        let item = self.item(offset);
        if !item.has_key(request.key) || item.expires_at_ms().is_some_and(|at| at <= now_ms) {
            return false;
        }
        match &request.operation {
            Operation::Get => {
                answers(index, value_answer(item));
                self.count_read(true);
                true
            }
            Operation::Set {
                value,
                options:
                    SetOptions {
                        flags,
                        expiry: Expiry::Never,
                        return_old: false,
                        condition: Condition::Always,
                    },
            } => {
                let new = NewItem {
                    key: request.key,
                    value,
                    kind: ValueKind::String,
                    flags: *flags,
                    expires_at_ms: None,
                };
                if value.len() > VALUE_MAX_BYTES {
                    return false;
                }
                let version = self.overwrite(request.hash, offset, &new);
                if let Some(version) = version {
                    answers(index, Answer::Stored { version });
                }
                version.is_some()
            }
            _ => false,
        }
    }

    #[inline(always)]
    fn execute_one(
        &mut self,
        index: usize,
        request: &Request<'_>,
        now_ms: u64,
        answers: Answers<'_>,
    ) {
        if request.key.len() > KEY_MAX_BYTES {
            answers(index, Answer::Refused(Refusal::TooLarge));
        } else if let Operation::Get = request.operation {
            let slot = self.read_slot(request, now_ms);
            let answer = slot.map_or(Answer::Missing, |slot| value_answer(self.item_in(slot)));
            answers(index, answer);
        } else {
            let answer = &mut |answer: Answer<'_>| answers(index, answer);
            let result = self.perform(request, now_ms, answer);
            if let Err(refusal) = result {
                self.counts.refusals += u64::from(refusal == Refusal::OutOfMemory);
                answers(index, Answer::Refused(refusal));
            }
        }
    }

    /// Looks a key up, and counts that as a read.
    #[inline(always)]
    pub(super) fn read_slot(&mut self, request: &Request<'_>, now_ms: u64) -> Option<Slot> {
        let slot = self.lookup(request.key, request.hash, now_ms);
        self.count_read(slot.is_some());
        slot
    }

    pub(super) fn count_read(&mut self, is_hit: bool) {
        self.counts.hits += u64::from(is_hit);
        self.counts.misses += u64::from(!is_hit);
    }

    fn perform(
        &mut self,
        request: &Request<'_>,
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let done = match &request.operation {
            Operation::Get => return self.get(request, now_ms, answer),
            Operation::GetAndExpire(expiry) => {
                return self.get_and_expire(request, *expiry, now_ms, answer);
            }
            Operation::GetAndDelete => return self.get_and_delete(request, now_ms, answer),
            Operation::GetRange { start, end } => {
                return self.get_range(request, *start, *end, now_ms, answer);
            }
            Operation::Set { value, options } => {
                return self.set(request, value, options, now_ms, answer);
            }
            Operation::IncrementFloat { delta } => {
                return self.increment_float(request, delta, now_ms, answer);
            }
            Operation::HashGet { fields } => return self.hash_get(request, fields, now_ms, answer),
            Operation::HashGetAll => {
                return self.members(request, ValueKind::Hash, now_ms, answer);
            }
            Operation::HashIncrementFloat { field, delta } => {
                return self.hash_increment_float(request, field, delta, now_ms, answer);
            }
            Operation::Dump => return self.dump(request, now_ms, answer),
            Operation::Members(kind) => return self.members(request, *kind, now_ms, answer),
            Operation::Scores { kind, members } => {
                return self.scores(request, *kind, members, now_ms, answer);
            }
            Operation::Choose { kind, count, seed } => {
                return self.choose(request, (*kind, *count, *seed), now_ms, answer);
            }
            Operation::Pop { kind, count, which } => {
                return self.pop(request, (*kind, *count, *which), now_ms, answer);
            }
            Operation::SortedRange(range) => {
                return self.sorted_range(request, range, now_ms, answer);
            }
            Operation::Length => self.length(request, now_ms)?,
            Operation::Append { value, front, create } => {
                self.append(request, value, *front, *create, now_ms)?
            }
            Operation::SetRange { offset, value } => {
                self.set_range(request, *offset, value, now_ms)?
            }
            Operation::Increment { delta } => self.increment(request, *delta, now_ms)?,
            Operation::Count(change) => self.count(request, *change, now_ms)?,
            Operation::Delete { version } => self.delete(request, *version, now_ms),
            Operation::Inspect => self.inspect(request, now_ms),
            Operation::Watch => {
                let version = self.watched_version(request.key, request.hash, now_ms);
                Answer::Number(version as i64)
            }
            Operation::Expire { expiry, condition } => {
                self.expire(request, *expiry, *condition, now_ms)?
            }
            Operation::HashSet { fields } => self.hash_set(request, fields, now_ms)?,
            Operation::HashDelete { fields } => self.hash_delete(request, fields, now_ms)?,
            Operation::HashAdd { field, value } => self.hash_add(request, field, value, now_ms)?,
            Operation::HashIncrement { field, delta } => {
                self.hash_increment(request, field, *delta, now_ms)?
            }
            Operation::SetAdd { members } => self.set_add(request, members, now_ms)?,
            Operation::SetRemove { members } => {
                self.remove_members(request, ValueKind::Set, members, now_ms)?
            }
            Operation::SortedAdd { members, options } => {
                self.sorted_add(request, ValueKind::SortedSet, members, *options, now_ms)?
            }
            Operation::SortedRemove { members } => {
                self.remove_members(request, ValueKind::SortedSet, members, now_ms)?
            }
            Operation::SortedRank { member, reverse } => {
                self.sorted_number(request, now_ms, |set| {
                    let rank = set.rank(member)?;
                    Some(if *reverse { set.len() - 1 - rank } else { rank })
                })?
            }
            Operation::SortedCount(range) => {
                self.sorted_number(request, now_ms, |set| Some(set.ranks(range).len()))?
            }
            Operation::SortedRemoveRange(range) => {
                self.sorted_remove_range(request, range, now_ms)?
            }
        };
        answer(done);
        Ok(())
    }

    /// Reads a value. A key with another kind of value is refused, which is not an error here.
    #[inline(always)]
    fn get(
        &mut self,
        request: &Request<'_>,
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let slot = self.read_slot(request, now_ms);
        answer(slot.map_or(Answer::Missing, |slot| value_answer(self.item_in(slot))));
        Ok(())
    }

    fn inspect(&mut self, request: &Request<'_>, now_ms: u64) -> Answer<'static> {
        let slot = self.read_slot(request, now_ms);
        slot.map_or(Answer::Missing, |slot| Answer::Metadata(self.metadata(self.item_in(slot))))
    }

    fn dump(
        &mut self,
        request: &Request<'_>,
        now_ms: u64,
        answer: &mut dyn FnMut(Answer<'_>),
    ) -> Result<(), Refusal> {
        let slot = self.read_slot(request, now_ms);
        let mut list = ListBuilder::default();
        if let Some(slot) = slot {
            let item = self.item_in(slot);
            let collection = item.collection().map(|number| self.collections.get(number));
            let mut encoded = Vec::new();
            requests_of(item, collection, &mut |operation| {
                encoded.clear();
                codec::encode_operation(item.key(), &operation, &mut encoded);
                list.push(Element::Bytes(&encoded));
            });
        }
        if list.is_too_long() {
            return Err(Refusal::TooLarge);
        }
        answer(Answer::List(list.list()));
        Ok(())
    }

    /// Another number after each change of the key.
    fn watched_version(&mut self, key: &[u8], hash: u64, now_ms: u64) -> u64 {
        match self.lookup(key, hash, now_ms) {
            Some(slot) => self.item_in(slot).version(),
            None => self.creations.of(hash),
        }
    }

    fn delete(
        &mut self,
        request: &Request<'_>,
        version: Option<u64>,
        now_ms: u64,
    ) -> Answer<'static> {
        let Some(slot) = self.lookup(request.key, request.hash, now_ms) else {
            return Answer::Missing;
        };
        if version.is_some_and(|version| version != self.item_in(slot).version()) {
            return Answer::VersionDiffers;
        }
        self.remove(request.hash, slot);
        Answer::Done
    }
}

/// The string of an item and its metadata, or the refusal.
#[inline(always)]
pub(super) fn value_answer(item: Item<'_>) -> Answer<'_> {
    match item.kind() {
        ValueKind::String => Answer::Value(value_of(item, item.value())),
        _ => Answer::Refused(Refusal::WrongKind),
    }
}

/// Part of the string of an item.
#[inline(always)]
pub(super) fn value_of<'a>(item: Item<'a>, data: &'a [u8]) -> Value<'a> {
    Value {
        data,
        flags: item.flags(),
        version: item.version(),
        expires_at_ms: item.expires_at_ms(),
    }
}
