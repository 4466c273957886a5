//! One thread's way to move bytes between the two sides, whatever it is made of.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use overside_device::Applied;
use overside_link::verbs::{ConnectError, ExportError, ImportError, Lost, PostError, QueuePair};
use rustix::event::{PollFd, PollFlags};

use crate::sample::{Failure, Kind};

/// An operation that is over: its bytes are where they were to go, and the initiator knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// Its place.
    pub slot: usize,
    /// The engine that stands for another was slower than it.
    pub late: bool,
}

/// Operations of one length in numbered places, driven by one thread. Each place has memory of its
/// own where bytes arrive, and memory of its own or of all where they come from.
pub(crate) trait Lane: Send {
    /// Makes the next operation of a free place.
    fn offer(&mut self, slot: usize) -> Result<(), Failure>;

    /// Hands over what was offered, from the first on, at one doorbell. Returns how much was taken.
    fn ring(&mut self) -> Result<usize, Failure>;

    /// Appends what is over.
    fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), Failure>;

    /// Sleeps until there may be something to poll for.
    fn wait(&mut self, timeout: Duration) -> Result<(), Failure>;

    /// Makes new payloads for all places, another for each `epoch`. Nothing is in flight.
    fn fill(&mut self, epoch: u64) -> Result<(), Failure>;

    /// Overwrites the memory where bytes arrive. Nothing is in flight.
    fn spoil(&mut self) -> Result<(), Failure>;

    /// Whether bytes that arrive are kept to be looked at, which costs time; for lanes whose
    /// memory where bytes arrive is used again at once.
    fn keep(&mut self, keep: bool) {
        let _ = keep;
    }

    /// Whether what arrived last is still there to be looked at, though nobody kept it.
    fn remembers(&self) -> bool {
        true
    }

    /// Whether the payload of `slot` has arrived where the operation's name says, and is still
    /// where it came from.
    fn check(&mut self, slot: usize) -> Result<(), Failure>;

    /// What really moves the bytes.
    fn applied(&self) -> Applied;
}

/// Waits for a queue pair as its documentation says.
pub(crate) fn wait(pair: &mut dyn QueuePair, timeout: Duration) -> Result<(), Failure> {
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

/// The bytes did not arrive, or not only where they were to.
pub(crate) fn misplaced(slot: usize, what: &str) -> Failure {
    Failure::new(Kind::Verification, format!("operation {slot}: {what}"))
}

impl From<Lost> for Failure {
    fn from(lost: Lost) -> Self {
        Self::new(Kind::Lost, lost.to_string())
    }
}

impl From<PostError> for Failure {
    fn from(error: PostError) -> Self {
        match error {
            PostError::Lost(lost) => lost.into(),
            refused @ PostError::Refused { .. } => Self::new(Kind::Job, refused.to_string()),
        }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Lost(lost) => lost.into(),
            other => Self::new(Kind::Job, other.to_string()),
        }
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Lost(lost) => lost.into(),
            other => Self::new(Kind::Job, other.to_string()),
        }
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        Self::new(Kind::Job, error.to_string())
    }
}
