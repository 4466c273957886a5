//! Parameters of a test that both sides know.

use overside_link::verbs::{Endpoint, LinkConfig, Side};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The longest operation in bytes.
pub const SIZE_MAX: u64 = 1 << 30;
/// Maximum number of operations in flight, and the most at one doorbell.
pub const DEPTH_MAX: u64 = 1024;
/// About the most bytes of the places of all threads.
const PLACES_BYTES: usize = 256 << 20;
/// Number of bytes of a confirmation: the number of messages received so far.
pub(super) const ANSWER_BYTES: usize = 8;
/// Places begin at multiples of this, so that no two share a cache line.
pub(super) const LINE: usize = 64;

/// Kind of operation, as seen from its initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Copies bytes from the peer to the initiator.
    Read,
    /// Copies bytes from the initiator to the peer.
    Write,
    /// Sends a message, which the peer's program receives and confirms.
    Send,
}

impl Operation {
    /// Returns the name that boxes use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Send => "send",
        }
    }
}

/// Parameters of the operations that move the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Kind of the operations: reads, writes or sends.
    pub operation: Operation,
    /// `true` if both sides sleep until something happens; otherwise they poll.
    pub event: bool,
    /// `true` if the initiator submits operations until all slots are in use, and only then polls their
    /// completions.
    #[serde(default)]
    pub deferred: bool,
    /// Each operation is timed; else only all of them together.
    pub each: bool,
    /// Bytes of one operation.
    pub size: usize,
    /// Operations in flight on each thread: its places.
    pub depth: usize,
    /// Operations at one doorbell.
    pub batch: usize,
    /// Threads of the initiator, each with a queue pair.
    pub threads: usize,
    /// Each place has a payload of its own; else all have one.
    pub distinct: bool,
    /// Payloads are posted inline.
    pub inline: bool,
    /// The processor's events are counted on the initiator's threads.
    #[serde(default)]
    pub events: bool,
    /// Seed of the payloads.
    pub seed: u64,
}

impl Plan {
    /// Checks that every number is within its bounds.
    ///
    /// # Errors
    /// [`FailureKind::Unsupported`], with the name and the allowed values.
    pub fn check(&self) -> Result<(), Failure> {
        let bounds = [
            ("size", self.size as u64, SIZE_MAX),
            ("depth", self.depth as u64, DEPTH_MAX),
            ("batch", self.batch as u64, self.depth as u64),
            ("threads", self.threads as u64, LinkConfig::MAX_QUEUE_PAIRS as u64),
        ];
        for (name, value, most) in bounds {
            if !(1..=most).contains(&value) {
                return Err(Failure::unsupported(format!(
                    "{name} is {value}, where 1 to {most} is allowed"
                )));
            }
        }
        Ok(())
    }

    /// Bytes from one place to the next in memory that several share.
    pub(super) fn stride(&self) -> usize {
        self.size.next_multiple_of(LINE)
    }

    /// Returns the number of different payloads and peer locations of one thread. If one for each
    /// operation would take more than [`PLACES_BYTES`], they are used in turn: operations that
    /// share a location have the same payload.
    pub fn places(&self) -> usize {
        let most = PLACES_BYTES / self.threads.max(1) / self.stride().max(1);
        match self.operation {
            Operation::Send => self.depth,
            Operation::Read | Operation::Write => most.clamp(1, self.depth.max(1)),
        }
    }

    /// More operations are in flight than there are places: some of them have the same.
    pub fn shares_places(&self) -> bool {
        self.places() < self.depth
    }

    /// The place of an operation.
    pub fn place(&self, slot: usize) -> usize {
        slot % self.places()
    }

    /// Bytes of memory that is exported for one thread.
    pub fn exported_bytes(&self) -> usize {
        self.stride() * self.places()
    }

    /// Returns the maximum number of bytes of all threads over a link, on both sides together: sources,
    /// destinations, and copies for verification.
    pub fn memory_bytes(&self) -> u64 {
        let buffers = match self.operation {
            Operation::Send => 4 * self.depth,
            Operation::Read | Operation::Write => 2 * self.places() + 2,
        };
        self.bytes_of(buffers)
    }

    /// Bytes of memory on a device that copies within this machine's memory in real time: each copy
    /// has a destination of its own.
    pub fn copying_bytes(&self) -> u64 {
        self.bytes_of(self.places() + self.depth + 2)
    }

    fn bytes_of(&self, buffers: usize) -> u64 {
        (buffers as u64 * self.threads as u64).saturating_mul(self.stride() as u64)
    }

    /// Returns the configuration of a link for this plan, at the end of `side`.
    pub fn link_config(&self, side: Side) -> LinkConfig {
        LinkConfig {
            queue_pairs: self.threads,
            depth: self.depth,
            max_message_bytes: match self.operation {
                Operation::Send => self.size.max(ANSWER_BYTES),
                Operation::Read | Operation::Write => ANSWER_BYTES,
            },
            event: self.event,
            ..LinkConfig::new(side)
        }
    }

    /// Checks that the initiator's end of a link supports the operation. `name` is the name of the
    /// link.
    pub(super) fn can(&self, endpoint: &dyn Endpoint, name: &str) -> Result<(), Failure> {
        let capabilities = endpoint.capabilities();
        let limits = match self.operation {
            Operation::Read => &capabilities.read,
            Operation::Write => &capabilities.write,
            Operation::Send => &capabilities.send,
        };
        let operation = self.operation.name();
        if self.size as u64 > limits.max_bytes {
            let max = limits.max_bytes;
            return Err(Failure::unsupported(format!(
                "{name} takes at most {max} bytes for one {operation}"
            )));
        }
        let inline = capabilities.max_inline_bytes;
        if self.inline && self.size as u64 > inline {
            return Err(Failure::unsupported(format!(
                "{name} takes payloads of at most {inline} bytes inline"
            )));
        }
        self.keeps_up(endpoint, name)
    }

    /// Checks that an end of a link supports the depth, and signals completions if the plan sleeps
    /// until they come.
    pub(super) fn keeps_up(&self, endpoint: &dyn Endpoint, name: &str) -> Result<(), Failure> {
        let capabilities = endpoint.capabilities();
        if self.depth > capabilities.max_depth {
            let max = capabilities.max_depth;
            return Err(Failure::unsupported(format!(
                "{name} takes at most {max} operations in flight"
            )));
        }
        if self.event && !capabilities.event {
            return Err(Failure::unsupported(format!(
                "{name} signals no completions; use completion=poll"
            )));
        }
        Ok(())
    }
}
