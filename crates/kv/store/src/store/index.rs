//! Index from the hash of a key to the location of its item.
//!
//! A hash table of buckets of one cache line, which grows by linear hashing (Litwin, VLDB 1980):
//!
//! 1. There are `2^level + next` buckets. The low bits of a hash name a bucket; the first `next`
//!    buckets of the level have been split already, so one more bit counts there.
//! 2. Whenever the load is above [`LOAD`], bucket `next` is split: its entries are divided between it
//!    and a new bucket at the end. So the table grows by single buckets, without stalls and without a
//!    directory, and the memory per item is the same at any size.
//! 3. A bucket has eight slots: a tag of 16 other bits of the hash, and the location of the item. Further
//!    entries go to a chain of overflow buckets.
//!
//! It never shrinks, except when everything is removed. The caller compares keys to distinguish those
//! with equal hashes.

use overside_base::prefetch_read;
use rustix::io::Errno;

use super::bucket::{Bucket, SLOTS, Tags};
use super::mapping::Mapping;

/// Mean number of entries a bucket, times 100. 5 of 8 slots in use make 12.8 bytes an entry, less
/// than 14.5 with overflow buckets.
const LOAD: usize = 500;
const FIRST_LEVEL: u32 = 4;
/// Bits of a hash that may name a bucket.
pub(super) const HASH_BITS: u32 = 48;
const OVERFLOW: usize = 1 << 63;
pub(super) const BUCKET_BYTES: usize = size_of::<Bucket>();

/// One slot of one bucket. Valid until the index changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    bucket: usize,
    lane: usize,
}

/// See the module's comment.
#[derive(Debug)]
pub(super) struct Index {
    buckets: Mapping<Bucket>,
    overflow: Mapping<Bucket>,
    /// Buckets in use.
    len: usize,
    /// Largest power of two that is not above `len`.
    level_len: usize,
    entries: usize,
    /// Overflow buckets that have ever been used.
    overflow_len: usize,
    /// First of the free ones among them, counted from 1.
    overflow_free: u32,
    moving: Vec<(u16, u32)>,
    changes: u32,
}

fn tag_of(hash: u64) -> u16 {
    ((hash >> 48) as u16).max(1)
}

impl Index {
    pub(super) fn new(max_bytes: usize, huge_pages: bool) -> Result<Self, Errno> {
        let max = (max_bytes / BUCKET_BYTES).clamp(1 << FIRST_LEVEL, u32::MAX as usize);
        Ok(Self {
            buckets: Mapping::reserve(max, huge_pages)?,
            overflow: Mapping::reserve(max, huge_pages)?,
            len: 1 << FIRST_LEVEL,
            level_len: 1 << FIRST_LEVEL,
            entries: 0,
            overflow_len: 0,
            overflow_free: 0,
            moving: Vec::new(),
            changes: 1,
        })
    }

    /// Memory it takes.
    pub(super) fn bytes(&self) -> usize {
        (self.len + self.overflow_len) * BUCKET_BYTES
    }

    /// Another number after each change of the index; slots found before are valid while this
    /// number is the same.
    #[inline(always)]
    pub(super) fn changes(&self) -> u32 {
        self.changes
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Length of the level, see the module's comment.
    pub(super) fn level_len(&self) -> usize {
        self.level_len
    }

    /// The first bucket of the chain that has this hash.
    #[inline(always)]
    pub(super) fn home(&self, hash: u64) -> usize {
        let home = hash as usize & (2 * self.level_len - 1);
        match home < self.len {
            true => home,
            false => home & (self.level_len - 1),
        }
    }

    #[inline(always)]
    fn bucket(&self, id: usize) -> &Bucket {
        match id & OVERFLOW {
            0 => &self.buckets[id],
            _ => &self.overflow[id & !OVERFLOW],
        }
    }

    #[inline(always)]
    fn bucket_mut(&mut self, id: usize) -> &mut Bucket {
        match id & OVERFLOW {
            0 => &mut self.buckets[id],
            _ => &mut self.overflow[id & !OVERFLOW],
        }
    }

    #[inline(always)]
    fn next(&self, id: usize) -> Option<usize> {
        let next = self.bucket(id).next as usize;
        (next != 0).then(|| (next - 1) | OVERFLOW)
    }

    /// First step of a lookup in advance: fetches the bucket.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        prefetch_read(self.buckets.as_ptr().wrapping_add(self.home(hash)));
    }

    /// Second step: hands over where the item may be. If it can only be in the chain, fetches that
    /// and returns true: `candidates_in_chain` is the third step then.
    #[inline(always)]
    pub(super) fn candidates(&self, hash: u64, mut candidate: impl FnMut(u32)) -> bool {
        let bucket = &self.buckets[self.home(hash)];
        let mut equal = bucket.tags.equal(tag_of(hash));
        if equal == 0 {
            let Some(next) = (bucket.next as usize).checked_sub(1) else {
                return false;
            };
            prefetch_read(self.overflow.as_ptr().wrapping_add(next));
            return true;
        }
        while equal != 0 {
            candidate(bucket.offsets[equal.trailing_zeros() as usize]);
            equal &= equal - 1;
        }
        false
    }

    /// See [`Self::candidates`].
    pub(super) fn candidates_in_chain(&self, hash: u64, mut candidate: impl FnMut(u32)) {
        let Some(next) = self.next(self.home(hash)) else {
            return;
        };
        let bucket = self.bucket(next);
        let mut equal = bucket.tags.equal(tag_of(hash));
        while equal != 0 {
            candidate(bucket.offsets[equal.trailing_zeros() as usize]);
            equal &= equal - 1;
        }
    }

    /// The slot of an item with this hash that `is_wanted`.
    #[inline(always)]
    pub(super) fn find(&self, hash: u64, mut is_wanted: impl FnMut(u32) -> bool) -> Option<Slot> {
        let tag = tag_of(hash);
        let mut id = self.home(hash);
        loop {
            let bucket = self.bucket(id);
            let mut equal = bucket.tags.equal(tag);
            while equal != 0 {
                let lane = equal.trailing_zeros() as usize;
                if is_wanted(bucket.offsets[lane]) {
                    return Some(Slot { bucket: id, lane });
                }
                equal &= equal - 1;
            }
            id = self.next(id)?;
        }
    }

    #[inline(always)]
    pub(super) fn offset(&self, slot: Slot) -> u32 {
        self.bucket(slot.bucket).offsets[slot.lane]
    }

    pub(super) fn set_offset(&mut self, slot: Slot, offset: u32) {
        self.changes = self.changes.wrapping_add(1);
        self.bucket_mut(slot.bucket).offsets[slot.lane] = offset;
    }

    /// Adds an entry. Returns `false`, and changes nothing, if that needs another overflow bucket and
    /// `may_grow` is `false` or none is free.
    pub(super) fn insert(&mut self, hash: u64, offset: u32, may_grow: bool) -> bool {
        self.changes = self.changes.wrapping_add(1);
        let home = self.home(hash);
        let is_done = self.insert_into(home, tag_of(hash), offset, may_grow);
        self.entries += usize::from(is_done);
        is_done
    }

    fn insert_into(&mut self, home: usize, tag: u16, offset: u32, may_grow: bool) -> bool {
        let mut id = home;
        loop {
            let free = self.bucket(id).tags.equal(0);
            if free != 0 {
                let lane = free.trailing_zeros() as usize;
                let bucket = self.bucket_mut(id);
                bucket.tags.0[lane] = tag;
                bucket.offsets[lane] = offset;
                return true;
            }
            match self.next(id) {
                Some(next) => id = next,
                None => break,
            }
        }
        let Some(added) = self.add_overflow(may_grow) else {
            return false;
        };
        self.bucket_mut(id).next = added;
        let bucket = &mut self.overflow[added as usize - 1];
        bucket.tags.0[0] = tag;
        bucket.offsets[0] = offset;
        true
    }

    fn add_overflow(&mut self, may_grow: bool) -> Option<u32> {
        let free = self.overflow_free;
        if free != 0 {
            let bucket = &mut self.overflow[free as usize - 1];
            self.overflow_free = bucket.next;
            bucket.next = 0;
            return Some(free);
        }
        (may_grow && self.overflow_len < self.overflow.len()).then(|| {
            self.overflow_len += 1;
            self.overflow_len as u32
        })
    }

    /// Removes an entry. The last of its chain takes its place, so chains stay short.
    pub(super) fn remove(&mut self, hash: u64, slot: Slot) {
        self.entries -= 1;
        self.changes = self.changes.wrapping_add(1);
        let (mut before, mut last) = (None, self.home(hash));
        while let Some(next) = self.next(last) {
            (before, last) = (Some(last), next);
        }
        // Chains have no holes but in the last bucket, and in the first if it is the only one.
        let taken = !self.bucket(last).tags.equal(0) & 0xff;
        let lane = 31 - taken.leading_zeros() as usize;
        let bucket = self.bucket_mut(last);
        let (tag, offset) = (bucket.tags.0[lane], bucket.offsets[lane]);
        bucket.tags.0[lane] = 0;
        let is_empty = taken.count_ones() == 1;
        if last != slot.bucket || lane != slot.lane {
            let bucket = self.bucket_mut(slot.bucket);
            bucket.tags.0[slot.lane] = tag;
            bucket.offsets[slot.lane] = offset;
        }
        if let (true, Some(before)) = (is_empty, before) {
            self.bucket_mut(before).next = 0;
            self.free_overflow(last);
        }
    }

    fn free_overflow(&mut self, id: usize) {
        let free = self.overflow_free;
        let bucket = self.bucket_mut(id);
        bucket.tags = Tags([0; SLOTS]);
        bucket.next = free;
        self.overflow_free = (id & !OVERFLOW) as u32 + 1;
    }

    /// Returns `true` if a bucket should be split before another entry is added.
    #[inline(always)]
    pub(super) fn is_loaded(&self) -> bool {
        (self.entries + 1) * 100 > self.len * LOAD && self.len < self.buckets.len()
    }

    /// Splits the next bucket; `hash_of` returns the hash of an item. Returns the bucket that comes
    /// after it, whose items will be needed then.
    pub(super) fn split(&mut self, hash_of: impl Fn(u32) -> u64) -> usize {
        let (from, to) = (self.len - self.level_len, self.len);
        prefetch_read(self.buckets.as_ptr().wrapping_add(from + 2));
        let mut moving = std::mem::take(&mut self.moving);
        let mut id = from;
        loop {
            let bucket = self.bucket(id);
            let slots = bucket.tags.0.iter().zip(bucket.offsets);
            moving.extend(slots.filter(|(tag, _)| **tag != 0).map(|(t, o)| (*t, o)));
            let next = self.next(id);
            if id != from {
                self.free_overflow(id);
            }
            match next {
                Some(next) => id = next,
                None => break,
            }
        }
        let Bucket { epoch, has_expiry, .. } = self.buckets[from];
        for id in [from, to] {
            self.buckets[id] = Bucket {
                tags: Tags([0; SLOTS]),
                offsets: [0; SLOTS],
                next: 0,
                epoch,
                has_expiry,
                unused: 0,
            };
        }
        self.len += 1;
        let high_bit = self.level_len as u64;
        for (tag, offset) in moving.drain(..) {
            let home = if hash_of(offset) & high_bit == 0 { from } else { to };
            // Two chains never need more overflow buckets than the one that they were.
            let is_done = self.insert_into(home, tag, offset, false);
            assert!(is_done, "a chain that is split needs no more buckets");
        }
        self.moving = moving;
        if self.len == 2 * self.level_len {
            self.level_len = self.len;
        }
        self.len - self.level_len
    }

    /// Returns the offsets of the items in a chain.
    pub(super) fn chain(&self, home: usize) -> impl Iterator<Item = u32> {
        let ids = std::iter::successors(Some(home), |id| self.next(*id));
        ids.flat_map(|id| {
            let bucket = self.bucket(id);
            let slots = bucket.tags.0.into_iter().zip(bucket.offsets);
            slots.filter(|(tag, _)| *tag != 0).map(|(_, offset)| offset)
        })
    }

    pub(super) fn epoch(&self, home: usize) -> u32 {
        self.buckets[home].epoch
    }

    pub(super) fn set_epoch(&mut self, home: usize, epoch: u32) {
        self.buckets[home].epoch = epoch;
    }

    pub(super) fn may_have_expiry(&self, home: usize) -> bool {
        self.buckets[home].has_expiry != 0
    }

    pub(super) fn set_may_have_expiry(&mut self, home: usize, may: bool) {
        self.buckets[home].has_expiry = u32::from(may);
    }

    /// Removes everything, and gives the memory back.
    pub(super) fn clear(&mut self) {
        let round = |len: usize| (len * BUCKET_BYTES).next_multiple_of(4096) / BUCKET_BYTES;
        let (len, overflow_len) = (round(self.len), round(self.overflow_len));
        let (max, overflow_max) = (self.buckets.len(), self.overflow.len());
        self.buckets.release(0..len.min(max));
        self.overflow.release(0..overflow_len.min(overflow_max));
        self.changes = self.changes.wrapping_add(1);
        self.len = 1 << FIRST_LEVEL;
        self.level_len = self.len;
        (self.entries, self.overflow_len, self.overflow_free) = (0, 0, 0);
    }
}
