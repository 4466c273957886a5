//! Memory that goes round: aligned for SIMD and DMA, and given back when the last array in it is
//! dropped, so that messages after the first few touch no new pages.

use std::sync::{Arc, Mutex};

use arrow_buffer::Buffer;
use bytes::Bytes;
use overside_base::lock;
use overside_device::{Region, Slice};

use crate::Error;

/// What Arrow recommends that buffers be aligned to.
const ALIGN_BYTES: usize = 64;
/// The most that is kept while nobody uses it.
const KEPT_BYTES_MAX: usize = 256 << 20;
const KEPT_MAX: usize = 4096;

/// Regions that are free, the one that was used last at the end.
#[derive(Default)]
pub(super) struct Recycler {
    free: Mutex<Free>,
}

#[derive(Default)]
struct Free {
    regions: Vec<Region>,
    bytes: usize,
}

impl Recycler {
    /// At least `len` bytes, whatever they are, at most four times as many.
    pub(super) fn take(&self, len: usize) -> Result<Region, Error> {
        let size = size_class(len);
        let mut free = lock(&self.free);
        let fits = |region: &Region| (size..=size.saturating_mul(2)).contains(&region.len());
        if let Some(at) = free.regions.iter().rposition(fits) {
            let region = free.regions.remove(at);
            free.bytes -= region.len();
            return Ok(region);
        }
        drop(free);
        Ok(Region::allocate(size, ALIGN_BYTES, None)?)
    }

    fn put(&self, region: Region) {
        let mut free = lock(&self.free);
        if free.bytes + region.len() <= KEPT_BYTES_MAX && free.regions.len() < KEPT_MAX {
            free.bytes += region.len();
            free.regions.push(region);
        }
    }

    /// The first `len` bytes of a region as a buffer; the region comes back with its last slice.
    pub(super) fn lend(self: &Arc<Self>, region: Region, len: usize) -> Buffer {
        let lent = Lent {
            slice: Some(region.share()),
            home: Arc::clone(self),
        };
        Buffer::from(Bytes::from_owner(lent)).slice_with_length(0, len)
    }
}

/// Sizes grow in steps of an eighth, so that messages of about one size share their memory.
fn size_class(len: usize) -> usize {
    let step = (len.max(1).next_power_of_two() / 8).max(ALIGN_BYTES);
    len.max(1).checked_next_multiple_of(step).unwrap_or(len)
}

struct Lent {
    slice: Option<Slice>,
    home: Arc<Recycler>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.slice.as_deref().unwrap_or_default()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(Ok(region)) = self.slice.take().map(Slice::reclaim) {
            self.home.put(region);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_with_its_last_slice_and_not_before() {
        let home = Arc::new(Recycler::default());
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
    fn classes_hold_what_they_are_for() {
        for len in [0, 1, 63, 64, 65, 1000, 4096, 5000, 1 << 20, (1 << 20) + 1] {
            let class = size_class(len);
            assert!(
                class >= len && class <= len + len / 4 + 64,
                "{len}: {class}"
            );
        }
    }
}
