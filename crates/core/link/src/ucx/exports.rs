//! Regions that an end exports, and bytes of the peer's that it has imported.

use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use overside_base::{lock, random_bytes};

use super::buffer::Buffer;
use super::control::frame::RegionInfo;
use crate::verbs::{Access, ExportError, Exported, ImportError, RemoteMemory, Token};
use crate::volatile_slice::VolatileSlice;

/// Maximum number of regions at a time.
pub(crate) const MAX_EXPORTS: usize = 1024;
/// The most withdrawn regions that are kept, where they are.
const MAX_KEPT: usize = 16 * MAX_EXPORTS;
/// The longest region in bytes.
pub(crate) const MAX_EXPORT_BYTES: u64 = 64 << 30;
/// Regions begin at pages.
const ALIGN: usize = 4096;
/// First bytes of a token; its key follows.
const MAGIC: &[u8; 4] = b"OVSR";

/// An exported region.
struct Area {
    window: VolatileSlice,
    access: Access,
    /// Description of the region for the peer's UCX.
    description: Vec<u8>,
    /// UCX's hold on the memory, which ends before the memory does.
    _registration: Box<dyn Any + Send + Sync>,
    _memory: Buffer,
}

/// Result of preparing memory with UCX before it is exported.
pub(crate) struct Prepared {
    pub(crate) description: Vec<u8>,
    pub(crate) registration: Box<dyn Any + Send + Sync>,
}

/// The regions of one endpoint.
pub(crate) struct Exports {
    regions: Mutex<Regions>,
}

#[derive(Default)]
struct Regions {
    known: HashMap<u64, Arc<Area>>,
    /// Withdrawn regions. Hardware may still write to them, so they are kept until the link ends.
    kept: Vec<Arc<Area>>,
}

impl Exports {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { regions: Mutex::default() })
    }

    fn regions(&self) -> MutexGuard<'_, Regions> {
        lock(&self.regions)
    }

    /// Exports new memory that `prepare` has seen.
    pub(crate) fn export(
        self: &Arc<Self>,
        len: usize,
        access: Access,
        prepare: impl FnOnce(&Buffer) -> Result<Prepared, String>,
    ) -> Result<Exported, ExportError> {
        if len == 0 || len as u64 > MAX_EXPORT_BYTES {
            return Err(ExportError::Length { len, max: MAX_EXPORT_BYTES });
        }
        let failed = |reason: String| ExportError::Failed { len, reason };
        let memory = Buffer::zeroed(len, ALIGN).ok_or_else(|| failed("no memory".into()))?;
        let prepared = prepare(&memory).map_err(failed)?;
        let area = Arc::new(Area {
            window: memory.window(),
            access,
            description: prepared.description,
            _registration: prepared.registration,
            _memory: memory,
        });
        let key = self.add(&area).map_err(|full| match full {
            Full::Exported => ExportError::TooMany { max: MAX_EXPORTS },
            Full::Kept => failed(format!(
                "{MAX_KEPT} regions have been exported and withdrawn, and UCX keeps them until the \
                 link ends"
            )),
            Full::System(reason) => failed(reason),
        })?;
        let window = area.window;
        let token = Token::from_bytes(&[MAGIC.as_slice(), &key.to_le_bytes()].concat())
            .expect("shorter than tokens may be");
        let owner = Arc::new(Withdraw { exports: Arc::clone(self), key, _area: area });
        Ok(Exported::new(window, access, token, owner))
    }

    fn add(&self, area: &Arc<Area>) -> Result<u64, Full> {
        let mut regions = self.regions();
        if regions.known.len() >= MAX_EXPORTS {
            return Err(Full::Exported);
        }
        if regions.kept.len() >= MAX_KEPT {
            return Err(Full::Kept);
        }
        loop {
            let key = random().map_err(|error| Full::System(error.to_string()))?;
            if let std::collections::hash_map::Entry::Vacant(entry) = regions.known.entry(key) {
                entry.insert(Arc::clone(area));
                return Ok(key);
            }
        }
    }

    /// Returns `true` if no region is exported or kept.
    pub(crate) fn is_empty(&self) -> bool {
        let regions = self.regions();
        regions.known.is_empty() && regions.kept.is_empty()
    }

    /// Returns the description of the region with this key for the peer; `None` if there is no such
    /// region.
    pub(crate) fn info(&self, key: u64) -> Option<RegionInfo> {
        self.regions().known.get(&key).map(|area| RegionInfo {
            len: area.window.len() as u64,
            access: area.access,
            description: area.description.clone(),
        })
    }
}

enum Full {
    Exported,
    Kept,
    System(String),
}

/// Withdraws a region when its handle goes.
struct Withdraw {
    exports: Arc<Exports>,
    key: u64,
    _area: Arc<Area>,
}

impl Drop for Withdraw {
    fn drop(&mut self) {
        let mut regions = self.exports.regions();
        let area = regions.known.remove(&self.key);
        regions.kept.extend(area);
    }
}

/// The key that a token of the peer's carries.
pub(crate) fn key_of(token: &Token) -> Result<u64, ImportError> {
    let bytes = token.as_bytes().strip_prefix(MAGIC.as_slice());
    let key = bytes.and_then(|bytes| bytes.try_into().ok());
    key.map(u64::from_le_bytes).ok_or_else(|| ImportError::malformed(token))
}

/// A random number.
pub(crate) fn random() -> std::io::Result<u64> {
    random_bytes().map(u64::from_le_bytes)
}

/// Counter of the bytes of the peer's memory that are imported, with their limit.
pub(crate) struct Imports {
    used: AtomicU64,
    max: u64,
}

impl Imports {
    pub(crate) fn new(max: u64) -> Arc<Self> {
        Arc::new(Self { used: AtomicU64::new(0), max })
    }

    /// Counts `len` bytes until the answer is dropped.
    pub(crate) fn take(self: &Arc<Self>, len: u64) -> Result<Imported, ImportError> {
        let (least, max) = (Ordering::Relaxed, self.max);
        let add = |used: u64| used.checked_add(len).filter(|sum| *sum <= max);
        self.used.fetch_update(least, least, add).map_err(|_| ImportError::TooMuch { len, max })?;
        Ok(Imported { imports: Arc::clone(self), len })
    }
}

/// Counts as imported.
pub(crate) struct Imported {
    imports: Arc<Imports>,
    len: u64,
}

impl Drop for Imported {
    fn drop(&mut self) {
        self.imports.used.fetch_sub(self.len, Ordering::Relaxed);
    }
}

/// The record of imported memory.
pub(crate) struct Import {
    /// Key by which the peer identifies the memory.
    pub(crate) key: u64,
    /// Description of the memory that the peer's UCX made.
    pub(crate) description: Vec<u8>,
    /// Share of the bytes that may be imported.
    pub(super) _counted: Imported,
}

/// Returns the record of imported memory, which must belong to this endpoint.
pub(crate) fn import_of(remote: &RemoteMemory) -> &Import {
    let record = remote.handle().downcast_ref();
    record.expect("checked to be of this endpoint")
}
