//! Memory of this process that another process maps as well.

// Maps files.
#![allow(unsafe_code)]

use std::io::{Error, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::doorbell::Armed;
use crate::ring::Cursors;
use crate::shared::Shared;
use crate::volatile_slice::VolatileSlice;

/// `statfs`'s name for the file system that memory files live on.
const TMPFS: i64 = 0x0102_1994;
/// Seals with which the memory under a mapping cannot disappear.
const NEEDED: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// The longest mapping in bytes whose pages are made at once.
const POPULATED: usize = 64 << 20;

/// A new memory file of `len` zeroed bytes, sealed so that its length cannot change.
pub(super) fn create(len: u64) -> Result<OwnedFd> {
    let file =
        rustix::fs::memfd_create("overside-link", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&file, len)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// Forbids further seals, and with `read_only` further writable mappings. Existing mappings stay as they are.
pub(super) fn seal(file: impl AsFd, read_only: bool) -> Result<()> {
    let write = if read_only { SealFlags::FUTURE_WRITE } else { SealFlags::empty() };
    Ok(rustix::fs::fcntl_add_seals(file, write | SealFlags::SEAL)?)
}

/// Checks that a file that the peer sent is safe to map: it must be memory, of at least `len`
/// bytes, and can never shrink. (Touching a mapping of a file that has shrunk kills the process.)
///
/// # Errors
/// The mistake in words.
pub(super) fn check(file: impl AsFd, len: u64) -> std::result::Result<(), String> {
    let seals = rustix::fs::fcntl_get_seals(&file)
        .map_err(|error| format!("it is no memory file ({error})"))?;
    if !seals.contains(NEEDED) {
        return Err("its length is not sealed".into());
    }
    // Huge pages can be missing when they are touched, which kills the process as well.
    let kind = rustix::fs::fstatfs(&file).map_err(|error| error.to_string())?;
    if kind.f_type as i64 != TMPFS {
        return Err("it does not consist of ordinary pages".into());
    }
    let stat = rustix::fs::fstat(&file).map_err(|error| error.to_string())?;
    match u64::try_from(stat.st_size) {
        Ok(size) if size >= len => Ok(()),
        _ => Err(format!("it has {} bytes, not {len}", stat.st_size)),
    }
}

/// A mapped memory file. Its bytes are reached through windows and shared structures only.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it owns a mapping, which belongs to no thread.
unsafe impl Send for Mapping {}
// SAFETY: it only tells where the mapping is.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of a file that [`create`] made or [`check`] passed. Pages of
    /// short mappings are resident afterwards, so that the first use takes no longer than any
    /// other; long mappings take memory when they are touched.
    pub(super) fn new(file: impl AsFd, len: usize, writable: bool) -> Result<Self> {
        let protection =
            if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        let flags =
            if len <= POPULATED { MapFlags::SHARED | MapFlags::POPULATE } else { MapFlags::SHARED };
        // SAFETY: a new mapping at an address of the system's choice.
        let start = unsafe { mmap(std::ptr::null_mut(), len, protection, flags, file, 0) }?;
        let start =
            NonNull::new(start.cast()).ok_or_else(|| Error::other("mapped at address 0"))?;
        Ok(Self { start, len })
    }

    /// The whole mapping. The owner of the window must keep the mapping as well.
    pub(super) fn window(&self) -> VolatileSlice {
        // SAFETY: mapped, and unmapped only when this is dropped; bytes of it are reached through
        // windows, and through `Shared` where `direction` says so.
        unsafe { VolatileSlice::new(self.start, self.len) }
    }

    fn shared<T: Send + Sync + 'static>(self: &Arc<Self>, at: usize) -> Shared<T> {
        assert!(at.is_multiple_of(align_of::<T>()) && at + size_of::<T>() <= self.len);
        // SAFETY: within the mapping, which begins at a page, and kept by it. Only called by
        // `direction` for structures that consist of atomics.
        unsafe { Shared::within(self.start.add(at).cast(), Arc::clone(self) as Arc<_>) }
    }

    /// Returns the control structures of one direction of a queue pair, which are at offset `at`.
    pub(super) fn direction(self: &Arc<Self>, at: usize) -> Direction {
        let data = at + size_of::<Cursors>();
        Direction {
            cursors: self.shared(at),
            data: self.shared(data),
            room: self.shared(data + size_of::<Armed>()),
        }
    }
}

/// Control structures of one direction of a queue pair. Their initial state is all zeroes.
pub(super) struct Direction {
    pub(super) cursors: Shared<Cursors>,
    /// Request of the receiver to be woken by messages.
    pub(super) data: Shared<Armed>,
    /// Request of the sender to be woken by room.
    pub(super) room: Shared<Armed>,
}

impl Direction {
    pub(super) const BYTES: usize = size_of::<Cursors>() + 2 * size_of::<Armed>();
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length, and no window is left.
        let unmapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok());
    }
}
