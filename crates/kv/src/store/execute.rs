//! Batches in stages, and the contract of a processing engine.

use super::Store;
use super::item::Item;
use crate::{
    Answer, KEY_MAX_BYTES, Metadata, Operation, ProcessingEngine, Refusal, Request, ScanPosition,
    Statistics, Transaction, Value, ValueKind,
};

/// Requests whose memory is fetched at a time.
const STAGE: usize = 64;

impl ProcessingEngine for Store {
    fn execute(
        &mut self,
        batch: &[Request<'_>],
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) {
        let mut index = 0;
        for stage in batch.chunks(STAGE) {
            self.fetch(stage);
            for request in stage {
                self.execute_one(index, request, now_ms, answers);
                index += 1;
            }
        }
    }

    fn execute_transaction(
        &mut self,
        transaction: &Transaction<'_>,
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) -> bool {
        let mut watched = transaction.watched.iter();
        let is_unchanged = watched.all(|(key, hash, expected)| {
            let slot = self.lookup(key, *hash, now_ms);
            slot.map_or(0, |slot| self.item_in(slot).version()) == *expected
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
    ) -> ScanPosition {
        self.scan_keys(position, count, now_ms, keys)
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

    fn remove_expired(&mut self, now_ms: u64) {
        /// Buckets looked at a call.
        const BUCKETS: usize = 1024;
        self.expire_some(now_ms, BUCKETS);
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
    /// Fetches what the requests of a stage will need, in three steps with many misses in flight.
    fn fetch(&self, stage: &[Request<'_>]) {
        if stage.len() < 2 {
            return;
        }
        stage
            .iter()
            .for_each(|request| self.index.prefetch(request.hash));
        let mut chained = [0; STAGE];
        let mut chained_len = 0;
        for request in stage {
            chained[chained_len] = request.hash;
            let fetch = |offset| self.memory.prefetch(offset);
            chained_len += usize::from(self.index.candidates(request.hash, fetch));
        }
        for hash in &chained[..chained_len] {
            let fetch = |offset| self.memory.prefetch(offset);
            self.index.candidates_in_chain(*hash, fetch);
        }
    }

    #[inline(always)]
    fn execute_one(
        &mut self,
        index: usize,
        request: &Request<'_>,
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) {
        if request.key.len() > KEY_MAX_BYTES {
            answers(index, Answer::Refused(Refusal::TooLarge));
        } else if let Operation::Get = request.operation {
            let slot = self.lookup(request.key, request.hash, now_ms);
            self.count_read(slot.is_some());
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
        match &request.operation {
            Operation::Set { .. } => self.set(request, now_ms, answer),
            Operation::HashSet { .. }
            | Operation::HashGet { .. }
            | Operation::HashGetAll
            | Operation::HashDelete { .. } => self.perform_on_hash(request, now_ms, answer),
            Operation::SortedAdd { .. }
            | Operation::SortedRemove { .. }
            | Operation::SortedRange(_)
            | Operation::SortedLength => self.perform_on_sorted_set(request, now_ms, answer),
            Operation::Delete { version } => {
                answer(self.delete(request, *version, now_ms));
                Ok(())
            }
            Operation::Inspect => {
                let slot = self.lookup(request.key, request.hash, now_ms);
                self.count_read(slot.is_some());
                answer(slot.map_or(Answer::Missing, |slot| {
                    Answer::Metadata(self.metadata(self.item_in(slot)))
                }));
                Ok(())
            }
            Operation::Expire { expiry, condition } => {
                answer(self.expire(request, *expiry, *condition, now_ms)?);
                Ok(())
            }
            _ => self.perform_on_string(request, now_ms, answer),
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

/// The string of an item and what is kept with it, or why not.
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
