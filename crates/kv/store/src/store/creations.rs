//! Counts of how often keys were created, for transactions that watch a missing key: a key that was created and
//! removed again must not count as unchanged.

/// Counters that keys share by their hash. Two keys rarely have the same one; then a transaction that could
/// have been executed is not, and is tried again.
#[derive(Debug)]
pub(super) struct Creations(Box<[u32; COUNTERS]>);

const COUNTERS: usize = 1024;

impl Default for Creations {
    fn default() -> Self {
        Self(Box::new([0; COUNTERS]))
    }
}

impl Creations {
    fn index(hash: u64) -> usize {
        // The index of keys takes the low bits and the high ones.
        (hash >> 20) as usize % COUNTERS
    }

    /// A key with this hash was created.
    #[inline]
    pub(super) fn one(&mut self, hash: u64) {
        let counter = &mut self.0[Self::index(hash)];
        *counter = counter.wrapping_add(1);
    }

    /// Returns a number that is not 0 and less than any version: versions begin at the time in milliseconds
    /// times 2^20.
    pub(super) fn of(&self, hash: u64) -> u64 {
        1 + u64::from(self.0[Self::index(hash)])
    }
}
