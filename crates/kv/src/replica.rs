//! Copies of a server: asynchronous replicas that a person promotes.
//!
//! 1. [`ReplicationLayer`] is a layer around a processing engine, with or without a log. While there are
//!    replicas it writes what changed into frames, as the log does, and these into a bounded *backlog*.
//!    Offsets count its bytes.
//! 2. A replica connects as a client does and says `OVERSIDE.SYNC version id offset port`. If the backlog still
//!    has what follows its offset, and the id is that of this history, the stream goes on there
//!    (`+CONTINUE`). Otherwise it gets a copy (`+FULL id offset number`): the frames of a snapshot, among
//!    them the frames of what changes meanwhile, each behind the part of the snapshot that it changes.
//! 3. A thread of the primary sends, so that clients wait for no replica. A replica that lags behind more
//!    than the backlog holds is dropped, and begins with a copy.
//! 4. A thread of the replica receives and checks frames; the thread that serves executes them, at the
//!    times that they say. A replica hides what has expired by its own clock and removes it by its primary's.
//! 5. A replica with a log keeps its position in the history with what it executes, so that a restart
//!    goes on from there. It acknowledges what it has executed and written to its log.
//! 6. Promotion executes everything that was received and begins a history with another id.
//! 7. Where several cores have a part of the keys each, each part ([`GroupMember`]) has its own layer, offsets and
//!    connection, and follows the same part of the primary, which has as many. `WAIT` and `INFO` speak of all
//!    of them together.

mod backlog;
mod control;
mod following;
mod group;
mod handshake;
mod layer;
mod links;
mod primary;
mod receiver;
mod report;
mod source;
mod stream;

pub use group::GroupMember;
pub use layer::ReplicationLayer;
pub use links::ReplicaConnection;
pub use primary::Introduction;
pub use report::ReplicationReport;
pub use stream::{FRAME_MAX_BYTES, ReceivedFrame, StreamError, StreamParser};

/// Version of the stream.
pub const STREAM_VERSION: u64 = 2;

/// What a replica asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncRequest {
    /// Of the history that it has, 40 hexadecimal digits; `?` if it has none.
    pub id: String,
    /// How much of that history it has.
    pub offset: u64,
    /// Where its clients connect.
    pub port: u16,
    /// Which part of the keys it wants, and into how many it divides them.
    pub partition: usize,
    /// See `partition`.
    pub partitions: usize,
    /// The same for all connections of a replica, and for no other.
    pub replica: String,
}

/// How far a replica is; the least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkState {
    /// Its primary is not reached.
    #[default]
    Connect,
    /// It receives a copy, or waits for one.
    Sync,
    /// It follows.
    Connected,
}

impl LinkState {
    /// As `ROLE` says it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Sync => "sync",
            Self::Connected => "connected",
        }
    }
}

/// A replica, as its primary knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// Its address.
    pub host: String,
    /// Where its clients connect.
    pub port: u16,
    /// What it has executed.
    pub offset: u64,
    /// It has a complete copy.
    pub is_online: bool,
    /// Seconds since it was heard of.
    pub lag_s: u64,
    /// Which one it is.
    pub id: String,
    /// How many parts of the keys it follows.
    pub partitions: usize,
}

/// What a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It takes writes.
    Primary {
        /// Bytes of its history.
        offset: u64,
        /// Its copies.
        replicas: Vec<ReplicaStatus>,
    },
    /// It is a copy.
    Replica {
        /// Its primary.
        host: String,
        /// Its primary's port.
        port: u16,
        /// How far it is.
        state: LinkState,
        /// How much of its primary's history it has executed.
        offset: u64,
    },
}

impl Role {
    /// A server that has no copies.
    #[must_use]
    pub fn alone() -> Self {
        Self::Primary {
            offset: 0,
            replicas: Vec::new(),
        }
    }
}

/// What clients ask of a server's copies, or of what it is a copy of.
pub trait Replication {
    /// Whether it takes no writes.
    fn is_replica(&self) -> bool;

    /// Whether it has no complete copy yet.
    fn is_loading(&self) -> bool;

    /// What is known; of what other threads have, as of the last [`Replication::refresh`].
    fn report(&self) -> ReplicationReport;

    /// Asks other threads for what they know.
    fn refresh(&mut self) {}

    /// What the next [`Replication::follow`] says to the primary, and wants of it; `None`: clients write to
    /// this server, so that it is refused.
    fn introduce(&mut self, introduction: Option<Introduction>);

    /// Makes it a replica, until it is promoted. It goes on from a position that it has kept, if the
    /// primary does; otherwise what it holds stays until it receives a copy.
    ///
    /// # Errors
    /// Why not.
    fn follow(&mut self, host: &str, port: u16) -> Result<(), String>;

    /// Whether it can be made a primary.
    ///
    /// # Errors
    /// Why not.
    fn check_promotion(&mut self) -> Result<(), String>;

    /// Makes it a primary, with everything that it has received. Its history has this id from now on.
    ///
    /// # Errors
    /// Why not.
    fn promote(&mut self, id: &str) -> Result<(), String>;

    /// Whether such a replica can be served.
    ///
    /// # Errors
    /// Why not.
    fn check(&self, request: &SyncRequest) -> Result<(), String>;

    /// Takes the connection of a replica.
    fn accept(&mut self, request: SyncRequest, connection: ReplicaConnection);

    /// Offset behind everything that was executed, for each partition.
    fn history_ends(&mut self) -> Box<[u64]>;

    /// How many replicas have executed everything before `ends`, and have it in their logs. If those
    /// are fewer than `wanted`, the worker is woken when there may be more.
    fn acknowledgments(&self, ends: &[u64], wanted: usize) -> usize;
}
