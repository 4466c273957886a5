//! The contract of a processing engine, by that of each partition.

use super::{OtherPartitions, Partitioned};
use crate::RemoteEngine;
use crate::{
    Answer, Answers, Metadata, ProcessingEngine, Refusal, Request, ScanPosition, Statistics,
    Transaction, partition_of,
};
use overside_kv_backend::StorageBackend;

/// Bits of a scan's position that are a partition's own.
const POSITION_BITS: u32 = 48;

impl ProcessingEngine for Partitioned {
    /// Each partition executes its requests in order. The order of requests on different partitions
    /// is undefined.
    fn execute(&mut self, batch: &[Request<'_>], now_ms: u64, answers: Answers<'_>) {
        self.now_ms = now_ms;
        let Some(first) = batch.first() else {
            return;
        };
        let count = self.peers.len();
        // At most PARTITIONS_MAX.
        let owner = |request: &Request<'_>| partition_of(request.key, count) as u8;
        self.owners.clear();
        self.owners.extend(batch.iter().map(owner));
        let first = owner(first);
        match self.owners.iter().all(|owner| *owner == first) {
            true if usize::from(first) == self.number => {
                self.work.own += batch.len() as u64;
                self.inside.own.execute(batch, now_ms, answers);
            }
            true => self.execute_elsewhere(usize::from(first), batch, now_ms, answers),
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
        if owner == self.number {
            self.work.own += count as u64;
            return (self.inside.own).execute_transaction(transaction, now_ms, answers);
        }
        self.work.forwarded += count as u64;
        let executed = self.ask(
            owner,
            now_ms,
            |remote| remote.begin_transaction(transaction, now_ms),
            |remote| remote.poll_transaction(transaction, answers),
        );
        executed.unwrap_or(true)
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
        let next = match partition == self.number {
            true => self.inside.own.scan(inner, count, now_ms, keys)?,
            false => {
                let next = self.ask(
                    partition,
                    now_ms,
                    |remote| remote.begin_scan(inner, count, now_ms),
                    |remote| remote.poll_scan(keys),
                );
                next.unwrap_or(Err(Refusal::Unreachable))?
            }
        };
        let begin = |partition: usize| (partition as u64) << POSITION_BITS;
        match next.0 {
            0 if partition + 1 == self.peers.len() => Ok(ScanPosition(0)),
            0 => Ok(ScanPosition(begin(partition + 1))),
            inner => Ok(ScanPosition(begin(partition) | inner)),
        }
    }

    fn expire_some(&mut self, now_ms: u64, buckets: usize) -> usize {
        self.inside.own.expire_some(now_ms, buckets)
    }

    /// One partition after the other: a concurrent reader may find some empty and others not. If
    /// one refuses, those before it are empty.
    fn flush(&mut self) -> Result<(), Refusal> {
        let now_ms = self.now_ms;
        for partition in 0..self.peers.len() {
            if partition == self.number {
                self.inside.own.flush()?;
                continue;
            }
            let flushed =
                self.ask(partition, now_ms, RemoteEngine::begin_flush, RemoteEngine::poll_flush);
            flushed.unwrap_or(Err(Refusal::Unreachable))?;
        }
        Ok(())
    }

    fn statistics(&self) -> Statistics {
        let mut all = self.inside.own.statistics();
        all.add(&self.elsewhere.statistics);
        all
    }

    fn refresh(&mut self) {
        let own = self.number;
        let told = self.ask_all(|backing| {
            let replication = backing.replication().map(|own| own.report());
            (backing.statistics(), backing.info(), backing.last_save_s(), replication)
        });
        self.elsewhere = OtherPartitions::default();
        for (number, (statistics, info, last_save_s, replication)) in told {
            if number != own {
                self.elsewhere.statistics.add(&statistics);
                self.elsewhere.info.push(info);
                self.elsewhere.last_saves_s.push(last_save_s);
                let replication = replication.map(|report| (number, report));
                self.elsewhere.replication.extend(replication);
            }
        }
        for number in 0..self.peers.len() {
            if self.is_over_link(number) {
                let told =
                    self.ask(number, self.now_ms, RemoteEngine::begin_statistics, |remote| {
                        let told = |remote: &RemoteEngine| {
                            (remote.statistics(), remote.told_info(), remote.last_save_s())
                        };
                        remote.poll_statistics().then(|| told(remote))
                    });
                if let Some((statistics, info, last_save_s)) = told {
                    self.elsewhere.statistics.add(&statistics);
                    self.elsewhere.info.push(info);
                    self.elsewhere.last_saves_s.push(last_save_s);
                }
            }
        }
    }

    fn partitions(&self) -> usize {
        self.peers.len()
    }
}
