//! Buffers that go round: a bounded number of equal ones, made when first needed.

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use overside_base::lock;
use overside_device::{Device, ExternalBytes, MemoryError, Region, Slice};

/// A cache line, so that vectors are written into one at a time.
const ALIGN_PLAIN: usize = 64;
/// Alignment of registered memory, in bytes: a page, which engines that read memory themselves
/// handle best.
const ALIGN_REGISTERED: usize = 4096;

/// Equal regions of one device's memory, or of plain memory. There are as many as were ever in use
/// at once; no more than `keep` are kept while they are unused.
pub(crate) struct Pool {
    /// `None`: plain memory.
    device: Option<Arc<dyn Device>>,
    bytes: usize,
    align: usize,
    keep: usize,
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    free: Vec<Region>,
    /// Shared as sources; the pool keeps a handle to each and takes it back when it is the last.
    lent: VecDeque<Slice>,
    spent: Duration,
}

impl Pool {
    /// Regions of `bytes` each.
    pub(crate) fn new(
        device: &Arc<dyn Device>,
        bytes: usize,
        keep: usize,
        registered: bool,
    ) -> Arc<Self> {
        let align = if registered { ALIGN_REGISTERED } else { ALIGN_PLAIN };
        Self::of(Some(Arc::clone(device)), bytes, align, keep)
    }

    /// Regions of plain memory of `bytes` each.
    pub(crate) fn plain(bytes: usize, keep: usize) -> Arc<Self> {
        Self::of(None, bytes, ALIGN_PLAIN, keep)
    }

    /// A pool like this one, with none of its memory.
    pub(crate) fn recreate(&self) -> Arc<Self> {
        Self::of(self.device.clone(), self.bytes, self.align, self.keep)
    }

    fn of(device: Option<Arc<dyn Device>>, bytes: usize, align: usize, keep: usize) -> Arc<Self> {
        Arc::new(Self { device, bytes, align, keep, state: Mutex::default() })
    }

    /// Makes as many regions as are kept.
    pub(crate) fn fill(&self) -> Result<(), MemoryError> {
        let mut state = self.state();
        while state.free.len() < self.keep {
            let region = self.make(&mut state)?;
            state.free.push(region);
        }
        Ok(())
    }

    /// A region, the one that was used last if possible.
    pub(crate) fn take(&self) -> Result<Region, MemoryError> {
        let mut state = self.state();
        match state.free.pop() {
            Some(region) => Ok(region),
            None => match state.reclaim() {
                Some(region) => Ok(region),
                None => self.make(&mut state),
            },
        }
    }

    fn make(&self, state: &mut PoolState) -> Result<Region, MemoryError> {
        self.make_len(self.bytes, state)
    }

    fn make_len(&self, bytes: usize, state: &mut PoolState) -> Result<Region, MemoryError> {
        let begin = Instant::now();
        let region = match &self.device {
            Some(device) => device.alloc(bytes, self.align)?,
            None => Region::allocate(bytes, self.align, None)?,
        };
        state.spent += begin.elapsed();
        Ok(region)
    }

    /// A region of another length, which is not kept.
    pub(crate) fn take_len(&self, bytes: usize) -> Result<Region, MemoryError> {
        self.make_len(bytes, &mut self.state())
    }

    /// Takes a region back.
    pub(crate) fn put(&self, region: Region) {
        let mut state = self.state();
        if region.len() == self.bytes && state.free.len() < self.keep {
            state.free.push(region);
        }
    }

    /// Shares a region; the pool gets it back when its last handle is dropped.
    pub(crate) fn lend(&self, region: Region) -> Slice {
        let is_kept = region.len() == self.bytes;
        let slice = region.share();
        if !is_kept {
            return slice;
        }
        let mut state = self.state();
        if state.lent.len() >= 2 * self.keep.max(1) {
            // Most of these are in use for long: they are freed when they are dropped.
            state.lent.pop_front();
        }
        state.lent.push_back(slice.clone());
        slice
    }

    /// Time spent making regions so far.
    pub(crate) fn spent(&self) -> Duration {
        self.state().spent
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        // Nothing that can panic happens between two changes that belong together.
        lock(&self.state)
    }
}

impl PoolState {
    /// The oldest region that was lent and whose handles are dropped.
    fn reclaim(&mut self) -> Option<Region> {
        for _ in 0..self.lent.len() {
            match self.lent.pop_front()?.reclaim() {
                Ok(region) => return Some(region),
                Err(slice) => self.lent.push_back(slice),
            }
        }
        None
    }
}

/// Memory out of the executor's pool, with a length of its own within the allocation. Goes back
/// when it is dropped. May be sent to another thread, and may outlive the executor.
pub struct Buffer {
    region: Option<Region>,
    len: usize,
    pool: Option<Arc<Pool>>,
}

impl Buffer {
    pub(crate) fn new(region: Region, pool: &Arc<Pool>) -> Self {
        Self { len: region.len(), region: Some(region), pool: Some(Arc::clone(pool)) }
    }

    /// Returns an empty buffer without memory.
    pub(crate) fn none() -> Self {
        Self { region: None, len: 0, pool: None }
    }

    /// Returns the longest length that the buffer can have, in bytes.
    pub fn capacity(&self) -> usize {
        self.region.as_ref().map_or(0, |region| region.len())
    }

    /// Sets its length. Bytes beyond the former length are arbitrary.
    ///
    /// # Panics
    /// If `len` is longer than its capacity.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "{len} of {}", self.capacity());
        self.len = len;
    }

    /// The memory, and where it goes back to.
    pub(crate) fn into_parts(mut self) -> Option<(Region, Arc<Pool>)> {
        self.region.take().zip(self.pool.take())
    }

    /// Converts it, up to its length, to shared memory that can no longer be written. The memory returns to
    /// the pool when the last slice of it is dropped.
    pub fn share(self) -> Option<Slice> {
        let len = self.len;
        let (region, pool) = self.into_parts()?;
        Some(pool.lend(region).slice(0..len))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let (Some(region), Some(pool)) = (self.region.take(), self.pool.take()) {
            pool.put(region);
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        (self.region.as_ref()).map_or(&[], |region| &region[..self.len])
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        (self.region.as_mut()).map_or(&mut [], |region| &mut region[..len])
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} of {} bytes)", self.len, self.capacity())
    }
}

/// The caller's memory as a source, registered with a device if there is one.
pub(crate) fn registered(device: Option<&dyn Device>, foreign: ExternalBytes) -> Slice {
    let registered = device.and_then(|device| device.register(foreign.clone()).ok());
    registered.unwrap_or_else(|| Slice::from_external(foreign, None))
}
