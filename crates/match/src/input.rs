//! Where text comes from.

use std::fs::File;
use std::io::Read;

/// Something to read text from.
pub trait Input: Read {
    /// Whether a read would have to wait for somebody to write: what was found so far is handed
    /// out before.
    fn waits(&self) -> bool {
        false
    }

    /// How much there is to read in bytes, if that is known.
    fn len_bytes(&self) -> Option<u64> {
        None
    }
}

impl Input for &[u8] {
    fn len_bytes(&self) -> Option<u64> {
        Some(self.len() as u64)
    }
}

impl Input for File {
    fn len_bytes(&self) -> Option<u64> {
        let metadata = self.metadata().ok()?;
        metadata.is_file().then_some(metadata.len())
    }
}
