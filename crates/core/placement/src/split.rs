//! A fixed split: each device gets its percentage of the bytes.
//!
//! Error diffusion in one dimension (Floyd and Steinberg, 1976): a chunk goes to the target that is
//! furthest behind its share of all bytes so far, this chunk's included. So the shares hold at
//! every point of the stream, and which chunks these are depends only on their lengths.

use crate::policy::TARGETS_MAX;
use crate::{Shares, Target};

/// Weighted split. After each chunk, the share of a single device is off by at most half of the longest
/// chunk; with several devices each share is off by less than the longest chunk.
#[derive(Clone, Copy, Debug)]
pub struct WeightedSplit {
    count: usize,
    /// The wanted shares, 0 to 1.
    fractions: [f64; TARGETS_MAX],
    /// Bytes that each is behind its share.
    behind: [f64; TARGETS_MAX],
}

impl WeightedSplit {
    /// These shares for the devices, and the rest for the CPU.
    pub fn new(shares: &Shares) -> Self {
        let mut fractions = [0.0; TARGETS_MAX];
        fractions[0] = 1.0 - shares.total() / 100.0;
        for (fraction, percent) in fractions[1..].iter_mut().zip(shares.percent()) {
            *fraction = percent / 100.0;
        }
        Self { count: 1 + shares.percent().len(), fractions, behind: [0.0; TARGETS_MAX] }
    }

    /// Returns the target of the next chunk, which has `bytes` bytes.
    pub fn next(&mut self, bytes: usize) -> Target {
        // An empty chunk counts as one byte, or it would be everybody's.
        let bytes = bytes.max(1) as f64;
        for (behind, fraction) in self.behind.iter_mut().zip(self.fractions) {
            *behind += fraction * bytes;
        }
        // Of equals the last: a device rather than the CPU. Never a target without a share.
        let next = (0..self.count)
            .filter(|target| self.fractions[*target] > 0.0)
            .max_by(|one, other| self.behind[*one].total_cmp(&self.behind[*other]))
            .unwrap_or(0);
        self.behind[next] -= bytes;
        Target::at(next)
    }
}
