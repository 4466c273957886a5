//! Hash of keys, with a new seed for every store, so that a client cannot choose keys that collide.

use ahash::RandomState;
use overside_base::random_bytes;

/// Hashes keys. Hashes are never stored, and those of a client are never used.
#[derive(Clone, Debug)]
pub struct KeyHasher {
    state: RandomState,
    /// Bits that hashes keep: tests have keys collide.
    #[cfg(test)]
    kept: u64,
}

impl KeyHasher {
    /// A hasher with random seeds.
    ///
    /// # Panics
    /// If the system has no random numbers.
    #[must_use]
    pub fn random() -> Self {
        let seeds = [(); 4]
            .map(|()| u64::from_ne_bytes(random_bytes().expect("the system has random numbers")));
        Self::with_seeds(seeds)
    }

    /// A hasher with these seeds, to repeat an experiment.
    #[must_use]
    pub fn with_seeds([a, b, c, d]: [u64; 4]) -> Self {
        let state = RandomState::with_seeds(a, b, c, d);
        Self {
            state,
            #[cfg(test)]
            kept: u64::MAX,
        }
    }

    /// Keys whose hashes differ in no bit of `kept` have the same hash.
    #[cfg(test)]
    pub fn keeping(self, kept: u64) -> Self {
        Self { kept, ..self }
    }

    /// The hash of a key.
    #[inline]
    #[must_use]
    pub fn hash(&self, key: &[u8]) -> u64 {
        let hash = self.state.hash_one(key);
        #[cfg(test)]
        let hash = hash & self.kept;
        hash
    }
}
