//! State of one client.

use crate::replication::SyncRequest;

use super::resp::{self, CommandQueue, Progress, WatchedKeys};

/// State of one client, such as its name. It contains no bytes of its connection, and its size is bounded.
#[derive(Debug)]
pub struct Session {
    id: u64,
    needs_password: bool,
    is_closing: bool,
    pub(super) is_resp3: bool,
    pub(super) is_authenticated: bool,
    pub(super) name: Box<[u8]>,
    /// Progress in parsing the command at the front of the input.
    pub(super) progress: Progress,
    /// Number of bytes of a refused value that are still to come (memcached).
    pub(super) discard_bytes: usize,
    /// Commands that were queued since `MULTI`; `None` outside of a transaction.
    pub(super) transaction: Option<Box<CommandQueue>>,
    pub(super) watched: WatchedKeys,
    /// Request of a replica, whose connection belongs to the stream from now on.
    pub(super) sync_request: Option<Box<SyncRequest>>,
    pub(super) replica_wait: Option<ReplicaWait>,
    /// The client reached the server by TLS.
    pub(super) is_tls: bool,
    /// The next command may use a slot that is moving here (`ASKING`).
    pub(super) is_asking: bool,
    /// A server that moves slots: its commands are executed whoever owns their keys.
    pub(super) is_mover: bool,
    /// The next command waits until a slot has moved.
    is_held: bool,
    /// Time at which that began.
    held_since_ms: Option<u64>,
}

/// Longest time for which a command waits until a slot has moved, in milliseconds.
const HOLD_MAX_MS: u64 = 5_000;

/// Wait of a client (`WAIT`) until replicas have executed everything before an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaWait {
    /// End of each partition's history when the wait began.
    pub ends: Box<[u64]>,
    /// Number of replicas to wait for.
    pub replicas: usize,
    /// Time at which the wait ends in any case, in milliseconds since 1970.
    pub end_ms: u64,
    /// Number of replicas that had everything when the wait began.
    pub(super) have: usize,
}

impl Session {
    /// Returns the state of a client that has just connected. `is_authenticated` is `true` if no
    /// password is needed. Ids grow and are never reused.
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
            is_tls: false,
            is_asking: false,
            is_mover: false,
            is_held: false,
            held_since_ms: None,
        }
    }

    /// Sets whether the client reached the server by TLS: it learns of the ports for that.
    #[must_use]
    pub fn over_tls(self, is_tls: bool) -> Self {
        Self { is_tls, ..self }
    }

    /// Returns `true` if the next command waits until a slot has moved. Call [`Session::retry_held`] within a
    /// millisecond.
    #[must_use]
    #[inline]
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Makes the server look again whether the command that waits can be executed.
    pub fn retry_held(&mut self) {
        self.is_held = false;
    }

    /// Holds the command at the front of the input. Returns `false` if it was held for too long.
    pub(super) fn hold(&mut self, now_ms: u64) -> bool {
        let since_ms = *self.held_since_ms.get_or_insert(now_ms);
        self.is_held = now_ms.saturating_sub(since_ms) < HOLD_MAX_MS;
        self.is_held
    }

    /// The command at the front of the input is executed now.
    pub(super) fn end_hold(&mut self) {
        self.held_since_ms = None;
    }

    /// Returns the id of the client, which no other client ever has.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Returns the name that the client gave itself; empty without one.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Returns `true` if the client may execute all commands. Otherwise it may only send short ones.
    #[must_use]
    pub fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// Returns `true` if the client speaks RESP3 instead of RESP2.
    #[must_use]
    pub fn is_resp3(&self) -> bool {
        self.is_resp3
    }

    /// Returns `true` if the connection must be closed once its output has been sent: after `QUIT`,
    /// a violation of the protocol, or a reply that is too long. Further input is ignored.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Returns a lower bound on the missing bytes of the command at the front of the input; 0 if it
    /// is unknown. At most [`COMMAND_MAX_BYTES`](crate::COMMAND_MAX_BYTES). Until these have
    /// arrived, processing the connection changes nothing.
    #[must_use]
    pub fn missing_bytes(&self) -> usize {
        self.progress.missing_bytes
    }

    /// Returns the number of bytes of memory that it points to.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let queue = self.transaction.as_ref();
        self.name.len() + queue.map_or(0, |queue| queue.bytes()) + self.watched.bytes()
    }

    /// Returns a replica's request for the stream, only once. Its connection then belongs to the
    /// stream and no longer uses this protocol.
    pub fn take_sync_request(&mut self) -> Option<SyncRequest> {
        self.sync_request.take().map(|request| *request)
    }

    /// Returns the wait of the client, if it waits. None of its input is executed until
    /// [`Session::end_wait`].
    #[must_use]
    #[inline]
    pub fn replica_wait(&self) -> Option<&ReplicaWait> {
        self.replica_wait.as_ref()
    }

    /// Writes the reply to `WAIT`: the number of replicas that have the writes; `None` if this
    /// server became a replica itself.
    pub fn end_wait(&mut self, have: Option<usize>, out: &mut Vec<u8>) {
        if self.replica_wait.take().is_some() {
            resp::reply_to_wait(have, self.is_resp3, out);
        }
    }

    /// Ends a transaction that has not been executed, and removes the watched keys.
    pub(super) fn forget_transaction(&mut self) {
        self.transaction = None;
        self.watched = WatchedKeys::default();
    }

    pub(super) fn close(&mut self) {
        self.is_closing = true;
    }

    /// Returns `true` if commands are executed at once, neither refused nor queued.
    #[inline]
    pub(super) fn executes_at_once(&self) -> bool {
        self.is_authenticated && self.transaction.is_none() && !self.is_asking
    }

    /// Restores the state of a client that has just connected.
    pub(super) fn reset(&mut self) {
        *self = Self::new(self.id, !self.needs_password).over_tls(self.is_tls);
    }
}
