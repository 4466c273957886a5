//! Memory that crosses a link: exported here, imported there.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::error::ImportError;
use crate::volatile_slice::{OutOfBounds, VolatileSlice};

/// An endpoint, as its imports remember it; unique in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndpointId(u64);

impl EndpointId {
    /// Returns an id that is unique in this process.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// Ways in which the peer may access exported memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// The peer may read the memory.
    Read,
    /// The peer may write the memory.
    Write,
    /// Both.
    ReadWrite,
}

impl Access {
    /// Returns `true` if the peer may read it.
    pub fn reads(self) -> bool {
        self != Self::Write
    }

    /// Returns `true` if the peer may write it.
    pub fn writes(self) -> bool {
        self != Self::Read
    }
}

/// Name by which the peer imports exported memory. It is opaque: only the transport that made it
/// can interpret it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Token(Box<[u8]>);

impl Token {
    /// The longest token in bytes.
    pub const MAX_BYTES: usize = 1024;

    /// A token as it came from the peer.
    ///
    /// # Errors
    /// [`ImportError::Malformed`] if it is empty or longer than [`Token::MAX_BYTES`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ImportError> {
        if bytes.is_empty() || bytes.len() > Self::MAX_BYTES {
            return Err(ImportError::Malformed { len: bytes.len() });
        }
        Ok(Self(bytes.into()))
    }

    /// Returns the bytes that the caller has to pass to the peer.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Memory of this process that the peer may read or write at any time.
///
/// There is never a reference to its bytes: they are copied in and out, so a peer that writes while
/// this end looks can make the *values* strange (torn, old, or different the next time) and nothing
/// else. Check values on the copy. They are the peer's once this end has learned of the write by a
/// message or a completion that came after it.
pub struct Exported {
    window: VolatileSlice,
    access: Access,
    token: Token,
    /// Withdraws the token and frees the memory when both are due.
    _owner: Arc<dyn Any + Send + Sync>,
}

impl Exported {
    /// Wraps exported memory; for transports. `owner` keeps `window`'s memory, and is dropped when the token
    /// must be withdrawn.
    pub fn new(
        window: VolatileSlice,
        access: Access,
        token: Token,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self { window, access, token, _owner: owner }
    }

    /// Returns the token that the caller has to pass to the peer.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Returns the ways in which the peer may access the memory.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Returns the length of the memory in bytes.
    pub fn len(&self) -> usize {
        self.window.len()
    }

    /// Never: empty regions are not exported.
    pub fn is_empty(&self) -> bool {
        self.window.len() == 0
    }

    /// A range of it.
    ///
    /// # Errors
    /// [`OutOfBounds`].
    pub fn slice(self: &Arc<Self>, range: Range<usize>) -> Result<ExportedSlice, OutOfBounds> {
        let len = range.end.saturating_sub(range.start);
        let window = self.window.part(range.start, len)?;
        Ok(ExportedSlice { window, _exported: Arc::clone(self) })
    }

    /// Copies `into.len()` bytes out, from `at` on.
    ///
    /// # Errors
    /// [`OutOfBounds`]; then nothing is copied.
    pub fn read(&self, at: usize, into: &mut [u8]) -> Result<(), OutOfBounds> {
        self.window.copy_out(at, into)
    }

    /// Copies `from` in, from `at` on.
    ///
    /// # Errors
    /// [`OutOfBounds`]; then nothing is copied.
    pub fn write(&self, at: usize, from: &[u8]) -> Result<(), OutOfBounds> {
        self.window.copy_in(at, from)
    }

    /// Reads the eight bytes at `at`, a multiple of 8, in this machine's byte order, atomically. Bytes
    /// stored or written before them are visible afterwards if the transport writes in order.
    ///
    /// # Errors
    /// [`OutOfBounds`], also if `at` is not a multiple of 8.
    pub fn load(&self, at: usize) -> Result<u64, OutOfBounds> {
        self.window.load(at)
    }

    /// Writes eight bytes at `at`, a multiple of 8, at once.
    ///
    /// # Errors
    /// [`OutOfBounds`], also if `at` is not a multiple of 8.
    pub fn store(&self, at: usize, value: u64) -> Result<(), OutOfBounds> {
        self.window.store(at, value)
    }
}

impl std::fmt::Debug for Exported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Exported({} bytes, {:?})", self.len(), self.access)
    }
}

/// A range of memory that this end exported; within it, checked when it was made. Clones share the
/// memory, and so may overlapping slices: its bytes have no owner, as with all of [`Exported`].
#[derive(Clone)]
pub struct ExportedSlice {
    window: VolatileSlice,
    _exported: Arc<Exported>,
}

impl ExportedSlice {
    /// Returns the memory; for transports. It must not be used once this is dropped.
    pub fn window(&self) -> VolatileSlice {
        self.window
    }

    /// Returns the length of the memory in bytes.
    pub fn len(&self) -> usize {
        self.window.len()
    }

    /// No byte at all.
    pub fn is_empty(&self) -> bool {
        self.window.len() == 0
    }
}

impl std::fmt::Debug for ExportedSlice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ExportedSlice({} bytes)", self.len())
    }
}

/// Imported memory of the peer. Clones are the same memory; it is released with the last of them.
#[derive(Clone)]
pub struct RemoteMemory {
    endpoint: EndpointId,
    len: u64,
    access: Access,
    handle: Arc<dyn Any + Send + Sync>,
}

impl RemoteMemory {
    /// Wraps imported memory; for transports. `handle` is the transport's own record of it.
    pub fn new(
        endpoint: EndpointId,
        len: u64,
        access: Access,
        handle: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        Self { endpoint, len, access, handle }
    }

    /// Returns the length of the memory in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Never: empty regions are not exported.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the ways in which this end may access the memory.
    pub fn access(&self) -> Access {
        self.access
    }

    /// A range of it.
    ///
    /// # Errors
    /// [`OutOfBounds`].
    pub fn slice(&self, range: Range<u64>) -> Result<RemoteSlice, OutOfBounds> {
        if range.start > range.end || range.end > self.len {
            return Err(OutOfBounds {
                start: range.start,
                len: range.end.saturating_sub(range.start),
                of: self.len,
            });
        }
        Ok(RemoteSlice { remote: self.clone(), start: range.start, len: range.end - range.start })
    }

    /// All of the remote memory.
    pub fn all(&self) -> RemoteSlice {
        RemoteSlice { remote: self.clone(), start: 0, len: self.len }
    }

    /// The endpoint that imported it.
    pub fn endpoint(&self) -> EndpointId {
        self.endpoint
    }

    /// Returns the transport's record of the memory.
    pub fn handle(&self) -> &Arc<dyn Any + Send + Sync> {
        &self.handle
    }
}

impl std::fmt::Debug for RemoteMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RemoteMemory({} bytes, {:?})", self.len, self.access)
    }
}

/// A range of the peer's memory; within it, checked when it was made.
#[derive(Clone, Debug)]
pub struct RemoteSlice {
    remote: RemoteMemory,
    start: u64,
    len: u64,
}

impl RemoteSlice {
    /// The region that it is part of.
    pub fn remote(&self) -> &RemoteMemory {
        &self.remote
    }

    /// Returns the offset of the range in its region, in bytes.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the length of the memory in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// No byte at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
