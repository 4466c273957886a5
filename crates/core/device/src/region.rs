//! Memory that jobs read and write.
//!
//! A [`Region`] is the only handle to its range and can be written. [`Region::share`] turns it
//! into a [`Slice`], of which there may be many and which can only be read. Both keep the memory
//! alive, and with it the owner that it came from and the device's registration.
//!
//! Memory that only a device can address (a GPU's, a card's) has handles like any other, but no
//! bytes: [`Region::bytes`] and [`Slice::bytes`] are errors, dereferencing panics, and
//! [`Device::write`](crate::Device::write) and [`Device::read`](crate::Device::read) move bytes in
//! and out.

// Hands out `&mut [u8]` into ranges of shared memory that no other handle covers.
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::MemoryError;

/// A device, as memory remembers it; unique in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceId(u64);

impl DeviceId {
    /// Returns an id that is unique in this process.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A device's registration of memory: its keys or handles, undone when the memory is freed.
#[derive(Clone)]
pub struct Registration {
    /// The device it is registered with.
    pub device: DeviceId,
    /// The device's own record; dropped after the last handle to the memory.
    pub handle: Arc<dyn Any + Send + Sync>,
}

/// Alignment in bytes that allocators give every allocation.
const ALIGN_ANY: usize = 16;

enum Owner {
    /// Allocation of this process. The memory begins within it, at an aligned address.
    Heap { base: NonNull<u8>, layout: Layout },
    /// A device's own allocation; kept for being dropped last.
    Device { _allocation: Box<dyn Any + Send + Sync> },
    /// Kept for being dropped last.
    External { _bytes: Arc<dyn AsRef<[u8]> + Send + Sync> },
}

struct Memory {
    start: NonNull<u8>,
    len: usize,
    owner: Owner,
    registration: Option<Registration>,
    /// The CPU can read it, and write it through a `Region`.
    is_addressable: bool,
}

// SAFETY: `Memory` is a range of bytes and its owner, which is Send and Sync. Writes go only
// through `Region`, whose ranges are disjoint from those of every other handle.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Drop for Memory {
    fn drop(&mut self) {
        // The device lets go before the bytes do.
        self.registration = None;
        match &self.owner {
            // SAFETY: allocated by `Region::allocate` with this layout, and this is the last handle.
            Owner::Heap { base, layout } => unsafe { dealloc(base.as_ptr(), *layout) },
            Owner::Device { .. } | Owner::External { .. } => {}
        }
    }
}

/// Memory of the caller's, to be read by a device: a `Vec`, a mapped file, an Arrow buffer. Its bytes must
/// not move while the owner lives, which holds for everything that does not change under a shared reference.
#[derive(Clone)]
pub struct ExternalBytes(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl ExternalBytes {
    /// Wraps an owner of bytes.
    pub fn new(owner: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(owner))
    }

    /// Returns the owner's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

impl Memory {
    fn check_addressable(&self) -> Result<(), MemoryError> {
        if self.is_addressable { Ok(()) } else { Err(MemoryError::NotAddressable) }
    }

    /// Panics if the CPU cannot address the memory; dereferencing has no other error.
    fn assert_addressable(&self) {
        assert!(self.is_addressable, "memory that only a device can address is used by the CPU");
    }
}

/// A range of memory with exactly one handle.
pub struct Region {
    memory: Arc<Memory>,
    start: usize,
    len: usize,
}

impl Region {
    /// Zeroed memory of this process; for backends and for tests. An empty region is possible.
    ///
    /// # Errors
    /// [`MemoryError::Alignment`], [`MemoryError::Exhausted`].
    pub fn allocate(
        len: usize,
        align: usize,
        registration: Option<Registration>,
    ) -> Result<Self, MemoryError> {
        if !align.is_power_of_two() {
            return Err(MemoryError::Alignment(align));
        }
        // Zeroed memory comes from the system untouched where every allocation is so aligned, and
        // is written from end to end where not. So there is room for more.
        let room = if align > ALIGN_ANY { align } else { 0 };
        let layout = (len.max(1).checked_add(room))
            .and_then(|size| Layout::from_size_align(size, align.min(ALIGN_ANY)).ok())
            .ok_or(MemoryError::Exhausted { len })?;
        // SAFETY: the layout's size is not zero.
        let base =
            NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(MemoryError::Exhausted { len })?;
        let skipped = base.align_offset(align);
        // SAFETY: less than `align`, and so much was added.
        let start = unsafe { base.add(skipped) };
        Ok(Self::whole(Memory {
            start,
            len,
            owner: Owner::Heap { base, layout },
            registration,
            is_addressable: true,
        }))
    }

    /// Memory that a backend has from its device or its driver. It is given back by dropping
    /// `owner`, after the last handle to it.
    ///
    /// # Safety
    /// From `start` on, `len` initialised bytes can be read and written until `owner` is dropped,
    /// by any thread, and no other code does so. `start` is not null even if `len` is 0.
    pub unsafe fn from_owner(
        start: NonNull<u8>,
        len: usize,
        owner: Box<dyn Any + Send + Sync>,
        registration: Option<Registration>,
    ) -> Self {
        Self::whole(Memory {
            start,
            len,
            owner: Owner::Device { _allocation: owner },
            registration,
            is_addressable: true,
        })
    }

    /// Memory of a device that the CPU cannot address: `len` bytes that the device finds by the
    /// registration and [`Region::offset`]. It is given back by dropping the registration's handle,
    /// after the last handle to the memory.
    pub fn of_device(len: usize, registration: Registration) -> Self {
        Self::whole(Memory {
            start: NonNull::dangling(),
            len,
            owner: Owner::Device { _allocation: Box::new(()) },
            registration: Some(registration),
            is_addressable: false,
        })
    }

    /// Returns the region's bytes for writing.
    ///
    /// # Errors
    /// [`MemoryError::NotAddressable`].
    pub fn bytes_mut(&mut self) -> Result<&mut [u8], MemoryError> {
        self.memory.check_addressable()?;
        Ok(&mut **self)
    }

    /// Splits it at `mid`: `[0, mid)` and `[mid, len)`.
    ///
    /// # Panics
    /// If `mid` is greater than the length.
    pub fn split_at(self, mid: usize) -> (Self, Self) {
        assert!(mid <= self.len, "split at {mid} of {}", self.len);
        let rest =
            Self { memory: Arc::clone(&self.memory), start: self.start + mid, len: self.len - mid };
        (Self { len: mid, ..self }, rest)
    }

    /// Converts it to shared memory that can no longer be written.
    pub fn share(self) -> Slice {
        Slice { memory: self.memory, start: self.start, len: self.len }
    }
}

impl DerefMut for Region {
    /// Panics if the CPU cannot address it.
    fn deref_mut(&mut self) -> &mut [u8] {
        self.memory.assert_addressable();
        // SAFETY: as in `deref`; regions are made by `allocate` and `from_owner`, whose memory is
        // writable, and by splitting, which keeps them disjoint.
        unsafe {
            std::slice::from_raw_parts_mut(self.memory.start.as_ptr().add(self.start), self.len)
        }
    }
}

/// A range of memory that can be read by many and written by none.
#[derive(Clone)]
pub struct Slice {
    memory: Arc<Memory>,
    start: usize,
    len: usize,
}

impl Slice {
    /// The caller's memory, for backends' `register` and, without a registration, for tests.
    pub fn from_external(foreign: ExternalBytes, registration: Option<Registration>) -> Self {
        let bytes = foreign.as_bytes();
        let (start, len) = (NonNull::from(bytes).cast(), bytes.len());
        Self::whole(Memory {
            start,
            len,
            owner: Owner::External { _bytes: foreign.0 },
            registration,
            is_addressable: true,
        })
    }

    /// A part of it, sharing the memory.
    ///
    /// # Panics
    /// If the range does not lie within it.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "{range:?} of {}", self.len);
        Self {
            memory: Arc::clone(&self.memory),
            start: self.start + range.start,
            len: range.end - range.start,
        }
    }

    /// The memory back for writing, if this is the only handle to all of it and a device or
    /// [`Region::allocate`] gave it out.
    ///
    /// # Errors
    /// The slice itself, if other handles exist or if the memory has an external owner.
    pub fn reclaim(mut self) -> Result<Region, Self> {
        let foreign = matches!(self.memory.owner, Owner::External { .. });
        if !foreign && Arc::get_mut(&mut self.memory).is_some() {
            let len = self.memory.len;
            return Ok(Region { memory: self.memory, start: 0, len });
        }
        Err(self)
    }
}

/// Methods that `Region` and `Slice` share.
macro_rules! handle {
    ($handle:ident) => {
        impl $handle {
            /// Returns the length in bytes, whether or not the CPU can address the memory.
            #[allow(clippy::len_without_is_empty)]
            pub fn len(&self) -> usize {
                self.len
            }

            /// Returns the offset in bytes of this range in its allocation.
            pub fn offset(&self) -> usize {
                self.start
            }

            /// Returns `true` if the CPU can address the memory.
            pub fn is_addressable(&self) -> bool {
                self.memory.is_addressable
            }

            /// Returns the registration of the memory with a device.
            pub fn registration(&self) -> Option<&Registration> {
                self.memory.registration.as_ref()
            }

            /// Returns the bytes for reading.
            ///
            /// # Errors
            /// [`MemoryError::NotAddressable`].
            pub fn bytes(&self) -> Result<&[u8], MemoryError> {
                self.memory.check_addressable().map(|()| &**self)
            }

            /// All of a memory.
            fn whole(memory: Memory) -> Self {
                Self { len: memory.len, memory: Arc::new(memory), start: 0 }
            }
        }

        impl Deref for $handle {
            type Target = [u8];

            /// Panics if the CPU cannot address it.
            fn deref(&self) -> &[u8] {
                self.memory.assert_addressable();
                // SAFETY: the range lies within the memory and is initialised. No other handle
                // covers a region's, and no region covers a slice's.
                unsafe {
                    let start = self.memory.start.as_ptr().add(self.start);
                    std::slice::from_raw_parts(start, self.len)
                }
            }
        }

        impl std::fmt::Debug for $handle {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($handle), "({} bytes)"), self.len)
            }
        }
    };
}
handle!(Region);
handle!(Slice);
