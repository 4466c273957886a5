//! Lookup, writing and removal of items, for all operations.

use super::Store;
use super::index::{BUCKET_BYTES, Slot};
use super::item::{Item, NewItem, patch, write_part};
use crate::{Refusal, ValueKind};

/// Maximum number of bytes by which the index may grow with one item: a bucket, and one that overflows.
const INDEX_GROWTH: usize = 2 * BUCKET_BYTES;

impl Store {
    /// Returns the item of a key. An expired one is removed, except on a replica, and not returned.
    #[inline(always)]
    pub(super) fn lookup(&mut self, key: &[u8], hash: u64, now_ms: u64) -> Option<Slot> {
        let slot = self.find(key, hash)?;
        let item = self.item(self.index.offset(slot));
        if item.expires_at_ms().is_some_and(|at| at <= now_ms) {
            if !self.keeps_expired {
                self.remove(hash, slot);
                self.counts.expirations += 1;
            }
            return None;
        }
        Some(slot)
    }

    #[inline(always)]
    pub(super) fn find(&self, key: &[u8], hash: u64) -> Option<Slot> {
        let bytes = self.memory.bytes();
        let is_wanted = |offset| Item::at(bytes, offset).has_key(key);
        self.index.find(hash, is_wanted)
    }

    #[inline(always)]
    pub(super) fn item_in(&self, slot: Slot) -> Item<'_> {
        self.item(self.index.offset(slot))
    }

    pub(super) fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Makes room for an item of `item_bytes`, and for collections to grow by `collection_bytes`. A
    /// cache drops its oldest items for that, so slots found before may be gone afterwards. A store
    /// only checks that collections may grow: an item is checked when it is written.
    pub(super) fn make_room(
        &mut self,
        item_bytes: usize,
        collection_bytes: usize,
    ) -> Result<(), Refusal> {
        if !self.is_cache() {
            let is_over = collection_bytes > 0
                && self.memory.used() + collection_bytes + INDEX_GROWTH > self.room();
            return if is_over { Err(Refusal::OutOfMemory) } else { Ok(()) };
        }
        let other = collection_bytes + INDEX_GROWTH;
        let most = self.options.memory_bytes.saturating_sub(self.index.bytes());
        if item_bytes + other > most || item_bytes > self.memory.bytes().len() {
            return Err(Refusal::OutOfMemory);
        }
        while self.memory.must_drop(item_bytes, self.room().saturating_sub(other)) {
            self.drop_oldest();
        }
        Ok(())
    }

    fn drop_oldest(&mut self) {
        let oldest = self.memory.oldest();
        // An empty log has room for all that `make_room` lets through.
        let offset = oldest.expect("a log without room is not empty");
        let item = self.item(offset);
        let size = item.size();
        if !item.is_dead() {
            let hash = self.options.hasher.hash(item.key());
            let slot = self.index.find(hash, |other| other == offset);
            self.remove(hash, slot.expect("the index has every item"));
            self.counts.evictions += 1;
        }
        self.memory.drop_oldest(size);
    }

    /// Writes an item in place of the one in `slot`, if there is one, or adds it. Returns its version.
    /// In cache semantics `make_room` came before, and `slot` was found after it.
    #[inline]
    pub(super) fn write(
        &mut self,
        hash: u64,
        slot: Option<Slot>,
        new: &NewItem<'_>,
    ) -> Result<u64, Refusal> {
        let size = new.size();
        if let Some(slot) = slot {
            let offset = self.index.offset(slot);
            if let Some(version) = self.overwrite(hash, offset, new) {
                return Ok(version);
            }
            if self.memory.fits_in_place(offset, self.item(offset).size(), size) {
                self.preserve(hash);
                self.forget(offset, Some(new));
                return Ok(self.write_at(hash, offset, new));
            }
        }
        self.write_elsewhere(hash, slot, new)
    }

    /// Writes over a string of the same lengths: no count changes. `None` if it is another, or has to
    /// move.
    #[inline(always)]
    pub(super) fn overwrite(&mut self, hash: u64, offset: u32, new: &NewItem<'_>) -> Option<u64> {
        let item = self.item(offset);
        let is_same_layout = item.has_layout_of(new) && item.kind() == ValueKind::String;
        if !is_same_layout || !self.memory.fits_in_place(offset, item.size(), item.size()) {
            return None;
        }
        self.preserve(hash);
        let version = self.next_version();
        self.memory.write(offset, version, new);
        Some(version)
    }

    /// Writes part of a string where it is, from `at` on. Returns whether it fits there.
    pub(super) fn write_part(&mut self, hash: u64, slot: Slot, at: usize, part: &[u8]) -> bool {
        let offset = self.index.offset(slot);
        let item = self.item(offset);
        let old_len = item.value().len();
        let len = old_len.max(at + part.len());
        if !(self.memory).fits_in_place(offset, item.size(), item.size_with_value(len)) {
            return false;
        }
        self.preserve(hash);
        self.counts.payload_bytes += (len - old_len) as u64;
        let version = self.next_version();
        write_part(self.memory.bytes_mut(), offset, version, at, part);
        true
    }

    fn write_elsewhere(
        &mut self,
        hash: u64,
        slot: Option<Slot>,
        new: &NewItem<'_>,
    ) -> Result<u64, Refusal> {
        let size = new.size();
        let offset = self.memory.allocate(size, self.room());
        let offset = offset.ok_or(Refusal::OutOfMemory)?;
        match slot {
            Some(slot) => {
                self.preserve(hash);
                let old = self.index.offset(slot);
                self.forget(old, Some(new));
                self.index.set_offset(slot, offset);
                let room = self.room();
                self.memory.free(old, room);
            }
            None => {
                self.preserve(hash);
                self.grow_index();
                let may_grow = self.memory.used() + BUCKET_BYTES <= self.room();
                if !self.index.insert(hash, offset, may_grow) {
                    // Written first, for a log is walked over.
                    self.memory.write(offset, 1, new);
                    let room = self.room();
                    self.memory.free(offset, room);
                    return Err(Refusal::OutOfMemory);
                }
                self.creations.one(hash);
            }
        }
        Ok(self.write_at(hash, offset, new))
    }

    fn grow_index(&mut self) {
        if self.index.is_loaded() && self.memory.used() + BUCKET_BYTES <= self.room() {
            let (bytes, hasher) = (self.memory.bytes(), &self.options.hasher);
            let next = self.index.split(|offset| hasher.hash(Item::at(bytes, offset).key()));
            let chain = self.index.chain(next);
            chain.for_each(|offset| self.memory.prefetch(offset));
        }
    }

    fn write_at(&mut self, hash: u64, offset: u32, new: &NewItem<'_>) -> u64 {
        let version = self.next_version();
        self.memory.write(offset, version, new);
        self.counts.items += 1;
        let item = self.item(offset);
        self.counts.payload_bytes += self.payload_bytes(item);
        if new.expires_at_ms.is_some() {
            self.counts.items_with_expiry += 1;
            self.index.set_may_have_expiry(self.index.home(hash), true);
        }
        version
    }

    fn payload_bytes(&self, item: Item<'_>) -> u64 {
        let value = match item.collection() {
            Some(number) => self.collections.get(number).payload_bytes,
            None => item.value().len(),
        };
        (item.key().len() + value) as u64
    }

    /// Takes an item out of the counts; its collection goes, unless `new` has the same one.
    fn forget(&mut self, offset: u32, new: Option<&NewItem<'_>>) {
        let item = self.item(offset);
        let payload_bytes = self.payload_bytes(item);
        let collection = item
            .collection()
            .filter(|_| new.is_none_or(|new| new.kind != item.kind() || new.value != item.value()));
        let has_expiry = item.expires_at_ms().is_some();
        self.counts.items -= 1;
        self.counts.items_with_expiry -= u64::from(has_expiry);
        self.counts.payload_bytes -= payload_bytes;
        if let Some(number) = collection {
            self.collections.remove(number);
        }
    }

    /// Removes an item.
    pub(super) fn remove(&mut self, hash: u64, slot: Slot) {
        self.preserve(hash);
        let offset = self.index.offset(slot);
        self.forget(offset, None);
        self.index.remove(hash, slot);
        let room = self.room();
        self.memory.free(offset, room);
    }

    /// Gives an item another expiry, and so another version. Returns `None` if it had to be dropped to make
    /// room.
    pub(super) fn set_expiry(
        &mut self,
        key: &[u8],
        hash: u64,
        expires_at_ms: Option<u64>,
    ) -> Result<Option<Slot>, Refusal> {
        let Some(slot) = self.find(key, hash) else {
            return Ok(None);
        };
        let mut value = std::mem::take(&mut self.scratch);
        let item = self.item_in(slot);
        if item.expires_at_ms().is_some() == expires_at_ms.is_some() {
            self.preserve(hash);
            let (offset, version) = (self.index.offset(slot), self.next_version());
            patch(self.memory.bytes_mut(), offset, version, expires_at_ms);
            self.scratch = value;
            return Ok(Some(slot));
        }
        value.clear();
        value.extend_from_slice(item.value());
        let new =
            NewItem { key, value: &value, kind: item.kind(), flags: item.flags(), expires_at_ms };
        let result = self.rewrite(hash, &new);
        self.keep_scratch(value);
        result
    }

    /// Writes an item again, if it is still there after room was made.
    fn rewrite(&mut self, hash: u64, new: &NewItem<'_>) -> Result<Option<Slot>, Refusal> {
        self.make_room(new.size(), 0)?;
        let Some(slot) = self.find(new.key, hash) else {
            return Ok(None);
        };
        self.write(hash, Some(slot), new)?;
        Ok(Some(slot))
    }

    /// A new version of an item whose collection was changed. In cache semantics `make_room` came
    /// before.
    pub(super) fn touch(&mut self, key: &[u8], hash: u64, slot: Slot) -> Result<(), Refusal> {
        let item = self.item_in(slot);
        let Ok(number) = <[u8; 4]>::try_from(item.value()) else {
            return Ok(());
        };
        let new = NewItem {
            key,
            value: &number,
            kind: item.kind(),
            flags: item.flags(),
            expires_at_ms: item.expires_at_ms(),
        };
        self.write(hash, Some(slot), &new).map(|_| ())
    }

    /// Scratch memory is used again unless it is large.
    pub(super) fn keep_scratch(&mut self, scratch: Vec<u8>) {
        if scratch.capacity() <= 1 << 20 {
            self.scratch = scratch;
        }
    }
}
