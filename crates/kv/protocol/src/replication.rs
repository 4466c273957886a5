//! Interface of replication: the state of a server's replicas, or of its primary, that client commands use.

mod report;

pub use report::{BacklogReport, LinkReport, ReplicationReport, SyncCounts};

/// Version of the replication stream.
pub const STREAM_VERSION: u64 = 2;

/// Request of a replica for the stream of one partition (`OVERSIDE.SYNC`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncRequest {
    /// Identifier of the history that the replica has, 40 hexadecimal digits; `?` if it has none.
    pub id: String,
    /// Number of bytes of that history that the replica has executed.
    pub offset: u64,
    /// Port for the replica's clients.
    pub port: u16,
    /// Index of the requested partition.
    pub partition: usize,
    /// Number of partitions of the replica.
    pub partitions: usize,
    /// Name of the replica, which all its connections share and no other replica has.
    pub replica: String,
}

/// Progress of a replica with its primary, in ascending order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LinkState {
    /// The replica is not connected with its primary.
    #[default]
    Connect,
    /// The replica receives a copy or waits for it.
    Sync,
    /// The replica follows the stream.
    Connected,
}

// As in the reply to `ROLE`.
overside_base::words! { LinkState; Connect "connect", Sync "sync", Connected "connected" }

/// State of a replica on its primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// Address of the replica, without a port.
    pub host: String,
    /// Port for the replica's clients.
    pub port: u16,
    /// Number of bytes of the history that the replica has executed, the sum of its partitions.
    pub offset: u64,
    /// `true` if it has a complete copy.
    pub is_online: bool,
    /// Time since its last message, in seconds.
    pub lag_s: u64,
    /// Id of the history.
    pub id: String,
    /// Number of partitions that the replica follows.
    pub partitions: usize,
}

/// Role of a server in replication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The server accepts writes.
    Primary {
        /// Number of bytes of its history.
        offset: u64,
        /// Connected replicas.
        replicas: Vec<ReplicaStatus>,
    },
    /// The server is a replica.
    Replica {
        /// Host name or address of the primary.
        host: String,
        /// Port of the primary.
        port: u16,
        /// Progress of the replica.
        state: LinkState,
        /// Number of bytes of the primary's history that the replica has executed.
        offset: u64,
    },
}

impl Role {
    /// Returns the role of a server without replicas.
    #[must_use]
    pub fn alone() -> Self {
        Self::Primary { offset: 0, replicas: Vec::new() }
    }
}

/// Replication of a server, as client commands use it: state of its replicas or of its primary, and
/// changes of its role.
pub trait Replication {
    /// Returns `true` if the server is a replica, which takes no writes from clients.
    fn is_replica(&self) -> bool;

    /// Returns `true` if the server is a replica and any of its partitions has no complete copy
    /// yet.
    fn is_loading(&self) -> bool;

    /// Returns the state of replication. Data of other threads is as of the last
    /// [`Replication::refresh`].
    fn report(&self) -> ReplicationReport;

    /// Requests the state of other threads.
    fn refresh(&mut self) {}

    /// Makes the server a replica, until it is promoted. It continues from its stored position if the
    /// primary still has the history from there on; otherwise its keys stay until it receives a copy.
    ///
    /// # Errors
    /// The reason of a refusal.
    fn follow(&mut self, host: &str, port: u16) -> Result<(), String>;

    /// Checks that the replica can be promoted to primary.
    ///
    /// # Errors
    /// The reason of a refusal.
    fn check_promotion(&mut self) -> Result<(), String>;

    /// Makes the server a primary with everything that it has received. Its history has this id from now on.
    ///
    /// # Errors
    /// The reason of a refusal.
    fn promote(&mut self, id: &str) -> Result<(), String>;

    /// Checks that this server can serve the replica that sent `request`.
    ///
    /// # Errors
    /// The reason of a refusal.
    fn check(&self, request: &SyncRequest) -> Result<(), String>;

    /// Returns, for each partition, the offset behind all executed changes.
    fn history_ends(&mut self) -> Box<[u64]>;

    /// Returns the number of replicas that have executed everything before `ends` and have it in
    /// their logs. If that is less than `wanted`, the worker is woken when the number may have
    /// grown.
    fn acknowledgments(&self, ends: &[u64], wanted: usize) -> usize;
}
