//! Copies of a server: asynchronous replicas that an operator promotes.
//!
//! 1. [`ReplicationLayer`] is a layer around a processing engine, with or without a log. While
//!    there are replicas it writes changes into frames, as the log does, and these into a bounded
//!    *backlog*. Offsets count its bytes.
//! 2. A replica connects as a client does and sends `OVERSIDE.SYNC version id offset port`. If the backlog
//!    still has the bytes from its offset on, and the id is that of this history, the stream continues there
//!    (`+CONTINUE`). Otherwise it gets a copy (`+FULL id offset number`): the frames of a snapshot, among them
//!    the frames of changes meanwhile, each behind the part of the snapshot that it changes.
//! 3. A thread of the primary sends, so that clients wait for no replica. A replica that lags behind by
//!    more than the backlog holds is dropped, and starts with a copy.
//! 4. A thread of the replica receives and checks frames; the serving thread executes them, at their
//!    times. A replica hides keys that have expired by its own clock and removes them by its primary's.
//! 5. A replica with a log stores its position in the history with its log, so that it continues there
//!    after a restart. It acknowledges requests after it has executed and logged them.
//! 6. Promotion executes everything that was received and starts a history with another id.
//! 7. If several cores have a part of the keys each, each part ([`GroupMember`]) has its own layer,
//!    offsets and connection, and follows the same part of the primary, which has as many. `WAIT` and
//!    `INFO` combine all of them.

mod backlog;
mod control;
mod group;
mod handshake;
mod layer;
mod link;
mod links;
mod primary;
mod receiver;
mod replica_state;
mod source;
mod stream;

pub use group::GroupMember;
pub use layer::ReplicationLayer;
pub use link::ReplicaConnection;
pub use overside_kv_protocol::replication::{
    LinkState, ReplicaStatus, Replication, ReplicationReport, Role, STREAM_VERSION, SyncRequest,
};
pub use primary::ReplicaHandshake;
pub use stream::{FRAME_MAX_BYTES, ReceivedFrame, StreamError, StreamParser};

/// Replication, and a server's part in it: it names itself to primaries, and hands over the
/// connections of replicas.
pub trait ReplicaHost: Replication {
    /// Sets the handshake that the next [`Replication::follow`] sends to the primary. `None` means
    /// that clients write to this server: then `follow` is refused.
    fn introduce(&mut self, introduction: Option<ReplicaHandshake>);

    /// Takes the connection of a replica.
    fn accept(&mut self, request: SyncRequest, connection: ReplicaConnection);
}
