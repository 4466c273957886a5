//! Inputs that text is read from.

use std::fs::File;
use std::io::Read;

/// Source of text.
pub trait Input: Read {
    /// Returns `true` if a read would have to wait for the input's writer. The search hands out the
    /// records found so far before it waits.
    fn waits(&self) -> bool {
        false
    }

    /// Returns the number of bytes to read; `None` if it is not known.
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
