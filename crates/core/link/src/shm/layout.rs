//! Layout of the memory that two ends share.
//!
//! ```text
//!   queue pair 0                                                            queue pair 1 ...
//!   | control, 4 KiB | bytes, listener to caller | bytes, caller to listener | ...
//! ```
//!
//! Control holds the cursors and wishes of the direction from the listening end at 0, and of the
//! other at 2048.

use std::sync::Arc;

use super::mapping::{Direction, Mapping};
use crate::stream;
use crate::verbs::{ConfigError, LinkConfig};
use crate::volatile_slice::VolatileSlice;

const CONTROL_BYTES: usize = 4096;
const SECOND: usize = CONTROL_BYTES / 2;
const _: () = assert!(Direction::BYTES <= SECOND);

/// The most memory in bytes for the queues of one link.
const MAX_BYTES: u64 = 1 << 30;

/// Sizes that both ends compute from the negotiated limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    ring_bytes: u64,
    queue_pairs: usize,
}

impl Layout {
    /// Computes the layout of a link with this configuration.
    pub(super) fn new(config: &LinkConfig) -> Result<Self, ConfigError> {
        config.check()?;
        let layout = Self {
            ring_bytes: stream::ring_bytes(config.max_message_bytes, config.depth),
            queue_pairs: config.queue_pairs,
        };
        if layout.len() > MAX_BYTES {
            // A ring is at most four times as long as its longest message.
            let most = MAX_BYTES / (config.queue_pairs as u64 * 2 * 4) - CONTROL_BYTES as u64;
            return Err(ConfigError {
                key: "max_message_bytes",
                value: config.max_message_bytes as u64,
                least: 1,
                most,
            });
        }
        Ok(layout)
    }

    fn pair_bytes(&self) -> u64 {
        CONTROL_BYTES as u64 + 2 * self.ring_bytes
    }

    /// Length of the whole region in bytes.
    pub(super) fn len(&self) -> u64 {
        self.queue_pairs as u64 * self.pair_bytes()
    }

    /// Bytes of one direction's ring.
    pub(super) fn ring_bytes(&self) -> u64 {
        self.ring_bytes
    }

    /// The two directions of a queue pair: from the listening end, and to it.
    pub(super) fn directions(
        &self,
        mapping: &Arc<Mapping>,
        index: usize,
    ) -> [(Direction, VolatileSlice); 2] {
        let start = index * self.pair_bytes() as usize;
        let bytes = self.ring_bytes as usize;
        [0, 1].map(|which| {
            let direction = mapping.direction(start + which * SECOND);
            let window = mapping
                .window()
                .part(start + CONTROL_BYTES + which * bytes, bytes)
                .expect("the mapping is as long as the layout");
            (direction, window)
        })
    }
}
