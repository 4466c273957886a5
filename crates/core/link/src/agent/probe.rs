//! Interfaces of tests in which an agent plays one end for a host.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use overside_base::MemoryBudget;

/// A kind of test of which an agent can play one end.
pub trait Probe: Send + Sync {
    /// Name of the kind in hosts' requests.
    fn kind(&self) -> &str;

    /// Begins with a test for a host.
    ///
    /// # Errors
    /// The reason of a refusal, which the host gets.
    fn begin(&self, host: Host) -> Result<Box<dyn ProbePeer>, String>;
}

/// One end of one test. It runs on a thread of its own, from the host's first request until the
/// host disconnects.
pub trait ProbePeer: Send {
    /// Answers a request. It may take as long as the test does, if it checks [`Host::cancelled`]
    /// periodically. Answers longer than [`super::MAX_PROBE_BYTES`] end the connection.
    fn answer(&mut self, request: &[u8]) -> Vec<u8>;

    /// Returns `true` if the host has begun an exchange that it must continue. It may then be
    /// silent no longer than in the middle of a message.
    fn waits_for_more(&self) -> bool {
        false
    }
}

/// Host for which an end is played.
#[derive(Clone, Debug)]
pub struct Host {
    /// The address that the host has reached this machine at.
    pub here: SocketAddr,
    /// The host's own.
    pub there: SocketAddr,
    /// Token that is cancelled when the host has disconnected.
    pub cancelled: CancellationToken,
    /// Budget that memory must be reserved from before it is allocated.
    pub memory: Arc<MemoryBudget>,
}

/// Flag that cancels a test whose requester has disconnected.
#[derive(Clone, Debug, Default)]
pub struct CancellationToken(Arc<AtomicBool>);

impl CancellationToken {
    /// Returns `true` if no host waits for an answer any more.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Cancels the token: no host waits for an answer any more.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }
}
