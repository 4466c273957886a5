//! Received frames.

// Memory of frames.
#![allow(unsafe_code)]

use std::ops::Deref;

use super::table::{CHECKSUM_BAD, CHECKSUM_GOOD, EthernetTable, RawFrame, TOO_LONG};

/// Result of the device's check of a received frame's checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksums {
    /// The checksum was not checked.
    #[default]
    Unknown,
    /// The checksums of IPv4 and UDP are correct.
    Good,
    /// A checksum is wrong.
    Bad,
}

/// A frame as it lies in the driver's buffer, which is free when this is dropped.
#[derive(Debug)]
pub struct ReceivedFrame {
    raw: RawFrame,
    table: &'static EthernetTable,
}

// SAFETY: DPDK's buffers may be used and freed by any thread, one at a time.
unsafe impl Send for ReceivedFrame {}

impl ReceivedFrame {
    /// Wraps `raw`, which a queue has returned.
    pub(super) fn new(raw: RawFrame, table: &'static EthernetTable) -> Self {
        Self { raw, table }
    }

    /// Returns the result of the device's checksum check.
    #[must_use]
    pub fn checksums(&self) -> Checksums {
        match self.raw.flags {
            flags if flags & CHECKSUM_BAD != 0 => Checksums::Bad,
            flags if flags & CHECKSUM_GOOD != 0 => Checksums::Good,
            _ => Checksums::Unknown,
        }
    }
}

/// Dereferences to the frame's bytes, which are empty if the frame was longer than one buffer.
impl Deref for ReceivedFrame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        if self.raw.flags & TOO_LONG != 0 || self.raw.data.is_null() {
            return &[];
        }
        // SAFETY: the buffer is ours alone until it is released, and has that many bytes at `data`. Its pool
        // stays for good.
        unsafe { std::slice::from_raw_parts(self.raw.data, self.raw.len as usize) }
    }
}

impl Drop for ReceivedFrame {
    fn drop(&mut self) {
        // SAFETY: the buffer is ours, and nothing else uses it any more.
        unsafe { (self.table.release)(self.raw.buffer) };
    }
}
