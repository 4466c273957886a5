//! Memory that goes round: aligned for SIMD and DMA, and given back when the last array in it is
//! dropped, so that messages after the first few touch no new pages.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use arrow_buffer::Buffer;
use bytes::Bytes;
use overside_base::lock;
use overside_device::{MemoryError, Region};

/// Alignment of buffers that Arrow recommends, in bytes.
const ALIGN_BYTES: usize = 64;
/// The most that is kept while nobody uses it, unless more is allowed.
const FREE_BYTES_MAX: usize = 256 << 20;
const FREE_MAX: usize = 4096;

/// Memory for buffers, which returns to the pool when they are dropped. A caller that keeps whole tables
/// would touch new pages all the time; a pool shared with earlier callers avoids this.
pub struct BufferPool {
    free: Mutex<Free>,
    free_bytes_max: usize,
}

#[derive(Default)]
struct Free {
    /// The one that was used last at the end.
    regions: Vec<Region>,
    bytes: usize,
}

impl Default for BufferPool {
    /// 256 MiB may be free.
    fn default() -> Self {
        Self::new(FREE_BYTES_MAX)
    }
}

impl BufferPool {
    /// Makes a pool that keeps up to `free_bytes_max` free bytes; further ones are returned to the system.
    pub fn new(free_bytes_max: usize) -> Self {
        Self { free: Mutex::default(), free_bytes_max }
    }

    /// At least `len` bytes, whatever they are, at most four times as many.
    pub fn take(&self, len: usize) -> Result<Region, MemoryError> {
        let size = size_class(len);
        let mut free = lock(&self.free);
        let fits = |region: &Region| (size..=size.saturating_mul(2)).contains(&region.len());
        if let Some(at) = free.regions.iter().rposition(fits) {
            let region = free.regions.remove(at);
            free.bytes -= region.len();
            return Ok(region);
        }
        drop(free);
        Region::allocate(size, ALIGN_BYTES, None)
    }

    fn put(&self, region: Region) {
        let mut free = lock(&self.free);
        if free.bytes + region.len() <= self.free_bytes_max && free.regions.len() < FREE_MAX {
            free.bytes += region.len();
            free.regions.push(region);
        }
    }

    /// The first `len` bytes of a region as a buffer; the region comes back with its last slice.
    pub fn lend(self: &Arc<Self>, region: Region, len: usize) -> Buffer {
        let lent = Lent { region: Some(region), home: Arc::clone(self) };
        Buffer::from(Bytes::from_owner(lent)).slice_with_length(0, len)
    }
}

/// Sizes grow in steps of an eighth, so that messages of about one size share their memory.
fn size_class(len: usize) -> usize {
    let step = (len.max(1).next_power_of_two() / 8).max(ALIGN_BYTES);
    len.max(1).checked_next_multiple_of(step).unwrap_or(len)
}

struct Lent {
    region: Option<Region>,
    home: Arc<BufferPool>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.region.as_deref().unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(region) = self.region.take() {
            self.home.put(region);
        }
    }
}

/// One holder's part of bytes that several count together.
pub(crate) struct HeldBytes {
    all: Arc<AtomicUsize>,
    own: usize,
}

impl HeldBytes {
    pub(crate) fn new(all: &Arc<AtomicUsize>) -> Self {
        Self { all: Arc::clone(all), own: 0 }
    }

    /// Adds some, and returns the bytes of all holders.
    pub(crate) fn add(&mut self, bytes: usize) -> usize {
        self.own += bytes;
        self.all.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    pub(crate) fn own(&self) -> usize {
        self.own
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.own, Ordering::Relaxed);
    }
}

/// Memory for the row groups of Parquet that are not written yet, of all files that share it.
///
/// Beyond half of it a file closes its row group if that has its share or more, so those of all files together stay
/// within all of it, and one batch each.
pub struct RowGroupMemory {
    pub(crate) bytes: Arc<AtomicUsize>,
    pub(crate) bytes_max: usize,
}

impl RowGroupMemory {
    /// Row groups may have so many bytes together, as Arrow has them in memory.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes: Arc::default(), bytes_max })
    }

    /// `true` if the row groups have more than half of the memory, and this one of `own` bytes a file's share of that.
    pub(crate) fn is_short(self: &Arc<Self>, own: usize) -> bool {
        let half = self.bytes_max / 2;
        self.bytes.load(Ordering::Relaxed) > half && own >= half / self.files()
    }

    /// The number of files that share the memory: each holds a reference.
    pub(crate) fn files(self: &Arc<Self>) -> usize {
        Arc::strong_count(self).saturating_sub(1).max(1)
    }

    /// `true` if the row groups have all of the memory.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) >= self.bytes_max
    }
}

/// Bytes that are appended, in memory that goes round.
pub struct Growing {
    memory: Arc<BufferPool>,
    region: Option<Region>,
    len: usize,
}

impl Growing {
    /// Without any.
    pub fn new(memory: &Arc<BufferPool>) -> Self {
        Self { memory: Arc::clone(memory), region: None, len: 0 }
    }

    /// Returns the number of bytes appended so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns `true` if no bytes are appended yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Makes room for `more` bytes behind those that are there; for twice as many in all where the
    /// room has to grow.
    pub fn reserve(&mut self, more: usize) -> Result<(), MemoryError> {
        let room = self.region.as_ref().map_or(0, |region| region.len());
        let needed = self.len.checked_add(more);
        let needed = needed.ok_or(MemoryError::Exhausted { len: more })?;
        if needed > room || self.region.is_none() {
            let mut region = self.memory.take(needed.max(2 * room))?;
            if let Some(old) = self.region.take() {
                region[..self.len].copy_from_slice(&old[..self.len]);
                self.memory.put(old);
            }
            self.region = Some(region);
        }
        Ok(())
    }

    /// The room behind the bytes: at least what was reserved.
    pub fn room(&mut self) -> &mut [u8] {
        let len = self.len;
        (self.region.as_mut()).map_or(&mut [], |region| &mut region[len..])
    }

    /// Counts the first `more` bytes of the room among those that are there.
    pub fn advance(&mut self, more: usize) {
        self.len += more;
        debug_assert!(self.len <= self.region.as_ref().map_or(0, |region| region.len()));
    }

    /// All of them; there are none then. Memory of which they take less than half is not kept.
    pub fn finish(&mut self) -> Result<Buffer, MemoryError> {
        let len = mem::take(&mut self.len);
        let Some(region) = self.region.take() else {
            return Ok(Buffer::default());
        };
        if size_class(len) > region.len() / 2 {
            return Ok(self.memory.lend(region, len));
        }
        let mut shorter = self.memory.take(len)?;
        shorter[..len].copy_from_slice(&region[..len]);
        self.memory.put(region);
        Ok(self.memory.lend(shorter, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_with_its_last_slice_and_not_before() {
        let home = Arc::new(BufferPool::default());
        let mut region = home.take(1000).unwrap();
        region[..4].copy_from_slice(b"warm");
        let buffer = home.lend(region, 4);
        assert_eq!(&*buffer, b"warm");
        assert_eq!(buffer.as_ptr() as usize % ALIGN_BYTES, 0);
        let (address, slice) = (buffer.as_ptr(), buffer.slice(1));
        drop(buffer);
        assert_ne!(home.take(1000).unwrap().as_ptr(), address);
        assert_eq!(&*slice, b"arm");
        drop(slice);
        // Far too long for so little.
        assert_ne!(home.take(100).unwrap().as_ptr(), address);
        assert_eq!(home.take(990).unwrap().as_ptr(), address);
    }

    #[test]
    fn bytes_grow_and_are_what_was_appended() {
        let memory = Arc::new(BufferPool::default());
        let mut growing = Growing::new(&memory);
        assert!(growing.finish().unwrap().is_empty());
        let mut expected = Vec::new();
        for number in 0..300_usize {
            let more = number * 7;
            growing.reserve(more).unwrap();
            growing.room()[..more].fill(number as u8);
            growing.advance(more);
            expected.resize(expected.len() + more, number as u8);
        }
        assert_eq!(growing.len(), expected.len());
        assert_eq!(&*growing.finish().unwrap(), &expected);
        // Little in much room.
        growing.reserve(1 << 20).unwrap();
        growing.room()[..3].copy_from_slice(b"abc");
        growing.advance(3);
        let little = growing.finish().unwrap();
        assert_eq!(&*little, b"abc");
    }

    #[test]
    fn classes_hold_what_they_are_for() {
        for len in [0, 1, 63, 64, 65, 1000, 4096, 5000, 1 << 20, (1 << 20) + 1] {
            let class = size_class(len);
            assert!(class >= len && class <= len + len / 4 + 64, "{len}: {class}");
        }
    }
}
