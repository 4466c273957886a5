//! The memory's limit: independent reads of cache lines at random, fetched a batch ahead.

#![allow(unsafe_code)]

use overside_base::prefetch_read;
use overside_kv::KeyHasher;
use rustix::mm::{Advice, madvise};

/// An array of cache lines on huge pages, where there are some.
pub(crate) struct Lines(Vec<[u64; 8]>);

impl Lines {
    pub(crate) fn new(bytes: usize) -> Self {
        let mut lines = vec![[0; 8]; bytes / 64];
        let at = lines.as_mut_ptr();
        // SAFETY: the range is the vector's own, and the advice changes no contents.
        let _ = unsafe { madvise(at.cast(), lines.len() * 64, Advice::LinuxHugepage) };
        lines.iter_mut().for_each(|line| line[0] = 1);
        Self(lines)
    }

    /// Reads two lines for each key, as many as a lookup needs, `batch` keys at a time.
    pub(crate) fn read(&self, keys: &[[u8; 8]], batch: usize, hasher: &KeyHasher) -> u64 {
        let mut places = vec![(0, 0); batch];
        let mut sum = 0;
        for keys in keys.chunks(batch) {
            for (place, key) in places.iter_mut().zip(keys) {
                let hash = hasher.hash(key);
                *place = (self.place(hash), self.place(hash.rotate_left(32)));
                prefetch_read(&raw const self.0[place.0]);
                prefetch_read(&raw const self.0[place.1]);
            }
            for (first, second) in &places[..keys.len()] {
                sum += self.0[*first][0] + self.0[*second][0];
            }
        }
        sum
    }

    fn place(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.0.len() as u128) >> 64) as usize
    }
}
