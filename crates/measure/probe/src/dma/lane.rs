//! Path of one thread between the two sides, on any mechanism.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use overside_device::Applied;
use overside_link::verbs::QueuePair;
use rustix::event::{PollFd, PollFlags};

use crate::closed_loop::{LoopParams, Pass, Until};
use crate::failure::{Failure, FailureKind};

/// Operations of one length in numbered places, driven by one thread. Each place has memory of its
/// own where bytes arrive, and memory of its own or of all where they come from.
///
/// A lane has the initiator's memory, and the peer's as well if it has no other side.
pub trait Lane: Send {
    /// Runs operations with [`crate::closed_loop::run`]. Each kind of lane has a loop of its own, without a
    /// call through a table for each operation.
    ///
    /// # Errors
    /// [`Failure`], like those of the other methods.
    fn run(&mut self, params: &LoopParams, until: Until) -> Result<Pass, Failure>;

    /// Makes new payloads for all places, another for each `epoch`, and poisons. Nothing is in
    /// flight.
    ///
    /// # Errors
    /// [`Failure`].
    fn refill(&mut self, epoch: u64) -> Result<(), Failure>;

    /// Overwrites the memory where bytes arrive. Nothing is in flight.
    ///
    /// # Errors
    /// [`Failure`].
    fn poison(&mut self) -> Result<(), Failure>;

    /// Checks this side's memory of `slot`: the payload has arrived if this side is the operation's
    /// destination, and is unchanged if this side is its source.
    ///
    /// # Errors
    /// [`Failure`].
    fn check(&mut self, slot: usize) -> Result<(), Failure>;

    /// Returns the device, driver, variant and library that actually move the bytes.
    fn applied(&self) -> Applied;

    /// CPU time of the calling thread that stood for an engine, in nanoseconds so far.
    fn emulator_ns(&self) -> u64 {
        0
    }
}

/// Free slots of a lane, taken in turn from the first on in each run, so that the first slots have always
/// been used.
pub struct FreeSlots(VecDeque<usize>);

impl FreeSlots {
    /// `depth` places, all of them free.
    pub fn new(depth: usize) -> Self {
        Self((0..depth).collect())
    }

    /// Returns `true` if no place is free.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the next free slot, if there is one.
    pub fn take(&mut self) -> Option<usize> {
        self.0.pop_front()
    }

    /// Returns a free slot.
    pub fn give(&mut self, slot: usize) {
        self.0.push_back(slot);
    }

    /// Returns the last slot taken, as if it had not been.
    pub fn give_back(&mut self, slot: usize) {
        self.0.push_front(slot);
    }
}

/// Waits for a queue pair by its documented protocol.
pub(super) fn wait(pair: &mut dyn QueuePair, timeout: Duration) -> Result<(), Failure> {
    // A lost link is something to poll for: polling says what was lost.
    if pair.arm().unwrap_or(true) {
        return Ok(());
    }
    pair.event_fd().map_or(Ok(()), |descriptor| readable(descriptor, timeout))
}

fn readable(descriptor: BorrowedFd<'_>, timeout: Duration) -> Result<(), Failure> {
    let cannot =
        |error: String| Failure::new(FailureKind::Lost, format!("waiting for an event: {error}"));
    let timeout = timeout.try_into().map_err(|_| cannot("too long a time".into()))?;
    let mut set = [PollFd::new(&descriptor, PollFlags::IN)];
    match rustix::event::poll(&mut set, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(cannot(error.to_string())),
    }
}
