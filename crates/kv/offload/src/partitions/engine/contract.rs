//! The contract of a processing engine, by that of each partition.

use super::{OtherPartitions, Partitioned};
use crate::{
    Answer, Answers, Metadata, ProcessingEngine, Refusal, Request, ScanPosition, Statistics,
    Transaction, engine, partition_of,
};
use overside_kv_backend::StorageBackend;

/// Bits of a scan's position that are a partition's own.
const POSITION_BITS: u32 = 48;

impl ProcessingEngine for Partitioned {
    /// Each partition executes its requests in order. The order of requests on different partitions
    /// is undefined.
    fn execute(&mut self, batch: &[Request<'_>], now_ms: u64, answers: Answers<'_>) {
        self.now_ms = now_ms;
        let count = self.peers.len();
        let Some(first) = batch.first().filter(|_| count > 1) else {
            self.count(0, batch.len());
            return self.way(0).execute(batch, now_ms, answers);
        };
        // Both sides together have fewer than 256.
        let owner = |request: &Request<'_>| partition_of(request.key, count) as u8;
        self.owners.clear();
        self.owners.extend(batch.iter().map(owner));
        let first = owner(first);
        match self.owners.iter().all(|owner| *owner == first) {
            true => {
                self.count(usize::from(first), batch.len());
                self.way(usize::from(first)).execute(batch, now_ms, answers);
            }
            false => self.execute_divided(batch, now_ms, answers),
        }
    }

    /// All keys must be in one partition: otherwise every request is refused.
    fn execute_transaction(
        &mut self,
        transaction: &Transaction<'_>,
        now_ms: u64,
        answers: Answers<'_>,
    ) -> bool {
        self.now_ms = now_ms;
        let count = transaction.requests.len();
        let Some(owner) = self.owner_of(transaction) else {
            let refused = Answer::Refused(Refusal::Unreachable);
            (0..count).for_each(|index| answers(index, refused));
            return true;
        };
        self.count(owner, count);
        self.way(owner).execute_transaction(transaction, now_ms, answers)
    }

    /// One partition after the other. The upper bits of a position are its number.
    fn scan(
        &mut self,
        position: ScanPosition,
        count: usize,
        now_ms: u64,
        keys: &mut dyn FnMut(&[u8], Metadata),
    ) -> Result<ScanPosition, Refusal> {
        self.now_ms = now_ms;
        let partition = (position.0 >> POSITION_BITS) as usize;
        if partition >= self.peers.len() {
            return Ok(ScanPosition(0));
        }
        let inner = ScanPosition(position.0 & ((1 << POSITION_BITS) - 1));
        let next = self.way(partition).scan(inner, count, now_ms, keys)?;
        let begin = |partition: usize| (partition as u64) << POSITION_BITS;
        match next.0 {
            0 if partition + 1 == self.peers.len() => Ok(ScanPosition(0)),
            0 => Ok(ScanPosition(begin(partition + 1))),
            inner => Ok(ScanPosition(begin(partition) | inner)),
        }
    }

    fn expire_some(&mut self, now_ms: u64, buckets: usize) -> usize {
        self.inside.as_mut().map_or(0, |inside| inside.own.expire_some(now_ms, buckets))
    }

    /// One partition after the other: a concurrent reader may find some empty and others not. If
    /// one refuses, those before it are empty.
    fn flush(&mut self) -> Result<(), Refusal> {
        (0..self.peers.len()).try_for_each(|partition| self.way(partition).flush())
    }

    fn statistics(&self) -> Statistics {
        let own = self.inside.as_ref().map(|inside| inside.own.statistics());
        let mut all = own.unwrap_or_default();
        all.add(&self.elsewhere.statistics);
        all
    }

    fn refresh(&mut self) {
        let told = self.ask_all(|backing| {
            let replication = backing.replication().map(|own| own.report());
            (backing.statistics(), backing.info(), backing.last_save_s(), replication)
        });
        self.elsewhere = OtherPartitions::default();
        for (number, (statistics, info, last_save_s, replication)) in told {
            if !self.is_own(number) {
                self.elsewhere.add(&statistics, info, last_save_s);
                let replication = replication.map(|report| (number, report));
                self.elsewhere.replication.extend(replication);
            }
        }
        for number in self.asked_by_messages() {
            let mut way = self.way(number);
            way.refresh();
            let (statistics, info, last_save_s) = (way.statistics(), way.info(), way.last_save_s());
            self.elsewhere.add(&statistics, info, last_save_s);
        }
    }

    /// A worker without a partition hands over as much as a link takes.
    fn batch_requests(&self) -> usize {
        let links = self.peers.iter().flatten().map(|peer| peer.remote.batch_requests());
        match self.inside {
            Some(_) => engine::BATCH_REQUESTS,
            None => links.max().unwrap_or(engine::BATCH_REQUESTS),
        }
    }

    fn partitions(&self) -> usize {
        self.peers.len()
    }
}
