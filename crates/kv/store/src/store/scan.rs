//! Walks over the index that continue while it grows.
//!
//! A position is a point in the order of hashes whose low 48 bits are reversed. The bucket of a chain is
//! named by low bits, so each chain covers an interval of that order, and a split divides an interval in two.
//! A walk visits the chain at its position and continues behind its interval. Chains may split meanwhile: all
//! hashes in front of the position have been visited, and those behind it will be. So a key that exists
//! during the whole walk is seen, and only once, unless everything was removed meanwhile.

use super::Store;
use super::index::{HASH_BITS, Index};
use super::item::Item;
use crate::{Metadata, ScanPosition};

/// Number of positions.
const END: u64 = 1 << HASH_BITS;
/// Chains that one call looks at, at least, before it gives up; above that ten for each key that is
/// wanted, as in Redis.
const SCAN_BUCKETS_MIN: usize = 512;

/// The chain at a position, and the position behind it; `None` at the end.
pub(super) fn chain_at(index: &Index, position: u64) -> (usize, Option<u64>) {
    let hash = (position & (END - 1)).reverse_bits() >> (64 - HASH_BITS);
    let home = index.home(hash);
    // A bucket that is not split yet, or not made yet, has one bit less to its name.
    let level_len = index.level_len();
    let is_split = home >= level_len || home + level_len < index.len();
    let names = if is_split { 2 * level_len } else { level_len } as u64;
    let width = END / names;
    let next = (position & (END - 1)) / width * width + width;
    (home, (next < END).then_some(next))
}

impl Store {
    pub(super) fn scan_keys(
        &self,
        position: ScanPosition,
        count: usize,
        now_ms: u64,
        keys: &mut dyn FnMut(&[u8], Metadata),
    ) -> ScanPosition {
        let (mut position, mut seen) = (position.0, 0);
        let mut buckets = count.saturating_mul(10).max(SCAN_BUCKETS_MIN);
        loop {
            let (home, next) = chain_at(&self.index, position);
            for offset in self.index.chain(home) {
                let item = self.item(offset);
                if item.expires_at_ms().is_none_or(|at| at > now_ms) {
                    keys(item.key(), self.metadata(item));
                    seen += 1;
                }
            }
            let Some(next) = next else {
                return ScanPosition(0);
            };
            position = next;
            buckets -= 1;
            if seen >= count || buckets == 0 {
                return ScanPosition(position);
            }
        }
    }

    pub(super) fn sweep(&mut self, now_ms: u64, buckets: usize) -> usize {
        let mut removed = 0;
        if self.keeps_expired {
            return removed;
        }
        for _ in 0..buckets.min(self.index.len()) {
            if self.expire_position >= self.index.len() {
                self.expire_position = 0;
            }
            let home = self.expire_position;
            self.expire_position += 1;
            if self.index.may_have_expiry(home) {
                removed += self.expire_chain(home, now_ms);
            }
        }
        removed
    }

    fn expire_chain(&mut self, home: usize, now_ms: u64) -> usize {
        let mut removed = 0;
        loop {
            let (mut expired, mut is_any) = (None, false);
            for offset in self.index.chain(home) {
                let item = Item::at(self.memory.bytes(), offset);
                is_any |= item.expires_at_ms().is_some();
                if item.expires_at_ms().is_some_and(|at| at <= now_ms) {
                    expired = Some((offset, self.options.hasher.hash(item.key())));
                }
            }
            let Some((offset, hash)) = expired else {
                self.index.set_may_have_expiry(home, is_any);
                return removed;
            };
            if let Some(slot) = self.index.find(hash, |other| other == offset) {
                self.remove(hash, slot);
                self.counts.expirations += 1;
                removed += 1;
            }
        }
    }
}
