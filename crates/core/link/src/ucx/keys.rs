//! Keys of the peer's memory, unpacked for one worker.

// Lets go of keys that nothing names any more.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use super::exports::Import;
use super::shim::{RawKey, RawWorker};
use crate::verbs::RemoteMemory;

/// Number of keys from which on keys of dropped regions are freed.
const MANY: usize = 64;

/// The keys that a worker has used.
#[derive(Default)]
pub(crate) struct Keys {
    known: HashMap<u64, PeerKey>,
}

struct PeerKey {
    address: u64,
    key: RawKey,
    user: Weak<dyn std::any::Any + Send + Sync>,
}

impl Keys {
    /// Returns the address of a region at the peer, and its key, unpacked for `worker`.
    pub(crate) fn get(
        &mut self,
        worker: &mut RawWorker,
        import: &Import,
        remote: &RemoteMemory,
    ) -> Result<(u64, RawKey), String> {
        if let Some(known) = self.known.get(&import.key) {
            return Ok((known.address, known.key));
        }
        if self.known.len() >= MANY {
            self.forget_unused(worker);
        }
        let (address, packed) = import
            .description
            .split_first_chunk()
            .ok_or("the peer does not say where the region is")?;
        let (address, key) = (u64::from_le_bytes(*address), worker.key(packed)?);
        let user = Arc::downgrade(remote.handle());
        self.known.insert(import.key, PeerKey { address, key, user });
        Ok((address, key))
    }

    fn forget_unused(&mut self, worker: &mut RawWorker) {
        self.known.retain(|_, known| {
            let used = known.user.strong_count() > 0;
            if !used {
                // SAFETY: work under way holds its region.
                unsafe { worker.key_free(known.key) };
            }
            used
        });
    }

    /// Frees all keys. No operation that uses them may be in flight.
    pub(crate) fn free(&mut self, worker: &mut RawWorker) {
        for (_, known) in self.known.drain() {
            // SAFETY: as the caller says.
            unsafe { worker.key_free(known.key) };
        }
    }
}
