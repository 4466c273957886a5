//! A fixed split: so many percent of the bytes go to the device.
//!
//! Error diffusion in one dimension (Floyd and Steinberg, 1976): a chunk goes to the device if that
//! brings the device's share of all bytes so far nearer to the wanted one. So the share holds at
//! every point of the stream, and which chunks these are depends on their lengths alone.

use crate::Target;

/// After each chunk, the device's share is off by at most half of the longest one.
#[derive(Clone, Copy, Debug)]
pub struct WeightedSplit {
    /// The wanted share, 0 to 1.
    fraction: f64,
    total: f64,
    device: f64,
}

impl WeightedSplit {
    /// So great a share for the device, 0 to 1.
    pub fn new(fraction: f64) -> Self {
        Self {
            fraction,
            total: 0.0,
            device: 0.0,
        }
    }

    /// Whose the next chunk is.
    pub fn next(&mut self, bytes: usize) -> Target {
        // An empty chunk counts as one byte, or it would be everybody's.
        let bytes = bytes.max(1) as f64;
        self.total += bytes;
        if self.fraction * self.total - self.device < bytes / 2.0 {
            return Target::Cpu;
        }
        self.device += bytes;
        Target::Device
    }
}
