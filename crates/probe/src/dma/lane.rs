//! One thread's way to move bytes between the two sides, whatever it is made of.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use overside_device::Applied;
use overside_link::verbs::QueuePair;
use rustix::event::{PollFd, PollFlags};

use super::failure::{Failure, Kind};

/// An operation that is over: its bytes are where they were to go, and the initiator knows.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Its place.
    pub slot: usize,
    /// The engine that stands for another was slower than it.
    pub late: bool,
}

/// Operations of one length in numbered places, driven by one thread. Each place has memory of its
/// own where bytes arrive, and memory of its own or of all where they come from.
///
/// A lane has the initiator's memory, and the peer's as well if it has no other side.
pub trait Lane: Send {
    /// Makes the next operation of a free place.
    ///
    /// # Errors
    /// [`Failure`], as of all that follow.
    fn offer(&mut self, slot: usize) -> Result<(), Failure>;

    /// Hands over what was offered, from the first on, at one doorbell. Returns how much was taken.
    ///
    /// # Errors
    /// [`Failure`].
    fn ring(&mut self) -> Result<usize, Failure>;

    /// Appends what is over.
    ///
    /// # Errors
    /// [`Failure`].
    fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), Failure>;

    /// Sleeps until there may be something to poll for.
    ///
    /// # Errors
    /// [`Failure`].
    fn wait(&mut self, timeout: Duration) -> Result<(), Failure>;

    /// Makes new payloads for all places, another for each `epoch`, and spoils. Nothing is in
    /// flight.
    ///
    /// # Errors
    /// [`Failure`].
    fn fill(&mut self, epoch: u64) -> Result<(), Failure>;

    /// Overwrites the memory where bytes arrive. Nothing is in flight.
    ///
    /// # Errors
    /// [`Failure`].
    fn spoil(&mut self) -> Result<(), Failure>;

    /// Whether `slot` is as it has to be on this side: the payload has arrived if this is where the
    /// operation's name says, and is still there if this is where it came from.
    ///
    /// # Errors
    /// [`Failure`].
    fn check(&mut self, slot: usize) -> Result<(), Failure>;

    /// What really moves the bytes.
    fn applied(&self) -> Applied;
}

/// Waits for a queue pair as its documentation says.
pub(super) fn wait(pair: &mut dyn QueuePair, timeout: Duration) -> Result<(), Failure> {
    // A lost link is something to poll for: polling says what was lost.
    if pair.arm().unwrap_or(true) {
        return Ok(());
    }
    pair.event_fd()
        .map_or(Ok(()), |descriptor| readable(descriptor, timeout))
}

fn readable(descriptor: BorrowedFd<'_>, timeout: Duration) -> Result<(), Failure> {
    let cannot = |error: String| Failure::new(Kind::Lost, format!("waiting for an event: {error}"));
    let timeout = timeout
        .try_into()
        .map_err(|_| cannot("too long a time".into()))?;
    let mut set = [PollFd::new(&descriptor, PollFlags::IN)];
    match rustix::event::poll(&mut set, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(cannot(error.to_string())),
    }
}
