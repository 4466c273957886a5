//! The state of one client.

use crate::replica::SyncRequest;

use super::resp::{self, CommandQueue, Progress, WatchedKeys};

/// One client: what it has said of itself. Holds no bytes of its connection; everything in it is
/// bounded.
#[derive(Debug)]
pub struct Session {
    id: u64,
    needs_password: bool,
    is_closing: bool,
    pub(super) is_resp3: bool,
    pub(super) is_authenticated: bool,
    pub(super) name: Box<[u8]>,
    /// How far the command at the front of the input has been parsed.
    pub(super) progress: Progress,
    /// Bytes of a refused value that are still to come (memcached).
    pub(super) discard_bytes: usize,
    /// What `MULTI` has queued.
    pub(super) transaction: Option<Box<CommandQueue>>,
    pub(super) watched: WatchedKeys,
    /// It is a replica, and its connection belongs to the stream from now on.
    pub(super) sync_request: Option<Box<SyncRequest>>,
    pub(super) replica_wait: Option<ReplicaWait>,
}

/// What a client waits for (`WAIT`): replicas that have executed what is before an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaWait {
    /// The end of each partition's history when it began to wait.
    pub ends: Box<[u64]>,
    /// How many.
    pub replicas: usize,
    /// When it does not wait any longer, in milliseconds since 1970.
    pub end_ms: u64,
    /// How many there were when it began.
    pub(super) have: usize,
}

impl Session {
    /// A client that has just connected. `is_authenticated`: no password is needed. Ids grow and are
    /// never used again.
    #[must_use]
    pub fn new(id: u64, is_authenticated: bool) -> Self {
        Self {
            id,
            needs_password: !is_authenticated,
            is_closing: false,
            is_resp3: false,
            is_authenticated,
            name: Box::default(),
            progress: Progress::default(),
            discard_bytes: 0,
            transaction: None,
            watched: WatchedKeys::default(),
            sync_request: None,
            replica_wait: None,
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The name that it gave itself, empty if none.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Whether it may do anything. Those that may not send small commands only.
    #[must_use]
    pub fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// Whether it speaks RESP3 instead of RESP2.
    #[must_use]
    pub fn is_resp3(&self) -> bool {
        self.is_resp3
    }

    /// Whether the connection is to be closed once its output has been sent: after `QUIT`, a violation
    /// of the protocol, or a reply that is too long. Its further input is ignored.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// How many bytes more than it has the command at the front of the input needs, at least; 0:
    /// unknown. At most [`COMMAND_MAX_BYTES`](crate::protocol::COMMAND_MAX_BYTES). Until that many have
    /// come, processing the connection changes nothing.
    #[must_use]
    pub fn missing_bytes(&self) -> usize {
        self.progress.missing_bytes
    }

    /// Memory that it holds beside itself.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let queue = self.transaction.as_ref();
        self.name.len() + queue.map_or(0, |queue| queue.bytes()) + self.watched.bytes()
    }

    /// What a replica asked for, once: its connection then belongs to the stream, and says nothing in
    /// this protocol any more.
    pub fn take_sync_request(&mut self) -> Option<SyncRequest> {
        self.sync_request.take().map(|request| *request)
    }

    /// What it waits for. Nothing of its input is executed until [`Session::end_wait`].
    #[must_use]
    #[inline]
    pub fn replica_wait(&self) -> Option<&ReplicaWait> {
        self.replica_wait.as_ref()
    }

    /// Writes the reply to `WAIT`: how many replicas have what it waited for; none: this server became a
    /// replica itself.
    pub fn end_wait(&mut self, have: Option<usize>, out: &mut Vec<u8>) {
        if self.replica_wait.take().is_some() {
            resp::reply_to_wait(have, self.is_resp3, out);
        }
    }

    pub(super) fn close(&mut self) {
        self.is_closing = true;
    }

    /// Whether commands are simply executed: neither refused nor queued.
    #[inline]
    pub(super) fn executes_at_once(&self) -> bool {
        self.is_authenticated && self.transaction.is_none()
    }

    /// As it was when it connected.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.id, !self.needs_password);
    }
}
