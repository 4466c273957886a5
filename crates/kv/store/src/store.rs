//! The store: one partition in memory, touched by one core. It is the processing engine of this process.
//!
//! 1. The index finds an item by the hash of its key: cache lines of eight tags.
//! 2. Items are stored in memory that is reserved at the start. Its *semantics* define what happens when
//!    it is full: a *store* refuses writes and drops nothing; a *cache* drops the items that were written
//!    longest ago. The limit covers items, index, hashes and sorted sets.
//! 3. A batch is executed in stages, each some requests ahead of the next: fetch the bucket of the key,
//!    compare tags and fetch the item, execute in order. Several cache misses are in flight at a time
//!    (MICA, Lim et al., NSDI 2014; Memcached with prefetching: MemC3 and CuckooSwitch before it).
//! 4. Expired items are removed when they are accessed, and by
//!    [`ProcessingEngine::expire_some`](crate::ProcessingEngine::expire_some).
//!
//! Versions come from one counter, which starts at the time in milliseconds times 2^20; so a version
//! from before a restart never comes again.

mod bucket;
mod collection;
mod collections;
#[cfg(test)]
mod collisions;
mod creations;
mod decimal;
mod execute;
mod index;
mod item;
mod log;
mod mapping;
mod memory;
mod scan;
mod size_classes;
mod snapshot;
mod sorted_set;
mod strings;
mod write;

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;

use self::collection::Collections;
use self::creations::Creations;
use self::index::{BUCKET_BYTES, Index};
use self::item::{Item, UNIT};
use self::memory::Memory;
use self::snapshot::Snapshot;
use crate::{KeyHasher, ListBuilder, Metadata, Statistics};

/// Least memory of a partition.
pub const MEMORY_MIN_BYTES: usize = 1 << 20;
/// Maximum memory of a partition: the reach of offsets of 32 bits in units of 16 bytes.
pub const MEMORY_MAX_BYTES: usize = UNIT << 32;

/// Behavior of a partition when its memory is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Semantics {
    /// Drops the items that were written longest ago.
    Cache,
    /// Refuses writes; nothing is ever dropped.
    #[default]
    Store,
}

/// Options for creating a partition.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Maximum memory, from [`MEMORY_MIN_BYTES`] to [`MEMORY_MAX_BYTES`]. Address space for it is
    /// reserved at once, memory is taken as it is needed.
    pub memory_bytes: usize,
    /// Behavior when the memory is full.
    pub semantics: Semantics,
    /// Hash function for keys.
    pub hasher: KeyHasher,
    /// `true` to request huge pages, which make random access faster. They are not required.
    pub huge_pages: bool,
}

impl StoreOptions {
    /// A store that refuses writes when it is full, without huge pages.
    #[must_use]
    pub fn new(memory_bytes: usize, hasher: &KeyHasher) -> Self {
        Self {
            memory_bytes,
            semantics: Semantics::Store,
            hasher: hasher.clone(),
            huge_pages: false,
        }
    }
}

/// Reason why a partition could not be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The limit is out of range.
    #[error(
        "a partition of {0} bytes is not possible: from {MEMORY_MIN_BYTES} to {MEMORY_MAX_BYTES}"
    )]
    MemoryOutOfRange(usize),
    /// The system reserves no such range.
    #[error("cannot reserve {bytes} bytes of address space: {source}")]
    Reserve {
        /// Size of the range in bytes.
        bytes: usize,
        /// The system's error.
        source: Errno,
    },
}

/// A partition in memory.
#[derive(Debug)]
pub struct Store {
    options: StoreOptions,
    index: Index,
    memory: Memory,
    collections: Collections,
    version: u64,
    creations: Creations,
    counts: Statistics,
    snapshot: Snapshot,
    list: ListBuilder,
    scratch: Vec<u8>,
    /// The next bucket that is searched for expired items.
    expire_position: usize,
    /// `true` if expired items are hidden when they are met instead of being removed. Then only
    /// reads are executed.
    keeps_expired: bool,
}

impl Store {
    /// An empty partition.
    ///
    /// # Errors
    /// If the limit is out of range, or the system does not reserve the address space.
    pub fn new(options: StoreOptions) -> Result<Self, StoreError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = now.map_or(0, |now| now.as_millis() as u64);
        Self::starting_at(options, now_ms)
    }

    /// Creates a partition like [`Store::new`], as if the time were `now_ms` milliseconds since
    /// 1970. Versions of written values begin there, so that no version comes again after a
    /// restart.
    ///
    /// # Errors
    /// As [`Store::new`].
    pub fn starting_at(options: StoreOptions, now_ms: u64) -> Result<Self, StoreError> {
        let bytes = options.memory_bytes;
        if !(MEMORY_MIN_BYTES..=MEMORY_MAX_BYTES).contains(&bytes) {
            return Err(StoreError::MemoryOutOfRange(bytes));
        }
        let error = |source| StoreError::Reserve { bytes, source };
        Ok(Self {
            index: Index::new(bytes / 2, options.huge_pages).map_err(error)?,
            memory: Memory::new(bytes, options.semantics, options.huge_pages).map_err(error)?,
            collections: Collections::default(),
            version: now_ms << 20 | 1,
            creations: Creations::default(),
            counts: Statistics { memory_limit_bytes: bytes as u64, ..Statistics::default() },
            snapshot: Snapshot::default(),
            list: ListBuilder::default(),
            scratch: Vec::new(),
            expire_position: 0,
            keeps_expired: false,
            options,
        })
    }

    /// Returns the hasher that must be used for the hashes in requests.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        &self.options.hasher
    }

    fn is_cache(&self) -> bool {
        self.options.semantics == Semantics::Cache
    }

    fn item(&self, offset: u32) -> Item<'_> {
        Item::at(self.memory.bytes(), offset)
    }

    /// Memory that items may take, without index and collections.
    fn room(&self) -> usize {
        let other = self.index.bytes() + self.collections.bytes();
        self.options.memory_bytes.saturating_sub(other)
    }

    fn metadata(&self, item: Item<'_>) -> Metadata {
        let slot_bytes = BUCKET_BYTES / bucket::SLOTS;
        let mut metadata = Metadata {
            kind: item.kind(),
            flags: item.flags(),
            version: item.version(),
            expires_at_ms: item.expires_at_ms(),
            len: item.value().len() as u64,
            memory_bytes: (self.memory.taken(item.size()) + slot_bytes) as u64,
        };
        if let Some(number) = item.collection() {
            let collection = self.collections.get(number);
            metadata.len = collection.len() as u64;
            metadata.memory_bytes += collection.memory_bytes as u64;
        }
        metadata
    }
}
