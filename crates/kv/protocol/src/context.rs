//! Interface of a communication engine to the server that owns the connections.

use std::fmt::Display;
use std::sync::Arc;

use super::TURN_OUTPUT_MAX_BYTES;
use crate::cluster::ClusterView;
use crate::replication::Replication;
use crate::stages::StageClock;
use overside_kv_store::{ProcessingEngine, Statistics};

/// Error text of a server without persistence.
const NOTHING_KEPT: &str = "nothing is kept on disk";

/// State and actions that only the server has. A server must define which clients may use it;
/// methods with a default are optional.
pub trait ServerContext {
    /// Returns the engine that executes the requests.
    fn engine(&mut self) -> &mut dyn ProcessingEngine;

    /// Returns the number of parts into which clients should divide their datagrams: one for each
    /// core that serves them.
    fn datagram_parts(&mut self) -> usize {
        self.engine().partitions()
    }

    /// Returns the time in milliseconds since 1970. It never goes back.
    fn now_ms(&mut self) -> u64;

    /// Checks a password (`AUTH`, `HELLO`) and returns `true` if it is right. `user` is `default`
    /// if the client gave none. Takes the same time whether the user or the password is wrong.
    fn authenticate(&mut self, user: &[u8], password: &[u8]) -> bool;

    /// Returns `true` if clients must authenticate. Otherwise `AUTH` with one argument is an error,
    /// as in Redis.
    fn has_password(&self) -> bool;

    /// Passes the fields of `INFO` to `_field`: section (`Server`), field (`uptime_in_seconds`) and
    /// value. Fields of a section are adjacent. The caller adds the section `Keyspace`.
    fn info(&mut self, _: &Statistics, _field: &mut dyn FnMut(&str, &str, &dyn Display)) {}

    /// Passes each parameter of `CONFIG GET` with its value, by Redis's names (`maxmemory`).
    fn config(&mut self, _parameter: &mut dyn FnMut(&str, &str)) {}

    /// Passes each connected client (`CLIENT LIST`) by ascending id.
    fn clients(&mut self, _client: &mut dyn FnMut(&ClientInfo<'_>)) {}

    /// Stores the name of a client for [`ServerContext::clients`]. An empty name removes it.
    fn set_client_name(&mut self, _id: u64, _name: &[u8]) {}

    /// Closes the connection of a client (`CLIENT KILL`). For the calling client it does nothing:
    /// its session is marked as closing. Returns `true` if there is such a client.
    fn kill_client(&mut self, _id: u64) -> bool {
        false
    }

    /// Writes a snapshot before it returns (`SAVE`).
    ///
    /// # Errors
    /// The reason, as the client reads it after `ERR `.
    fn save(&mut self) -> Result<(), String> {
        Err(NOTHING_KEPT.into())
    }

    /// Starts writing a snapshot (`BGSAVE`).
    ///
    /// # Errors
    /// The reason, as the client reads it after `ERR `.
    fn save_in_background(&mut self) -> Result<(), String> {
        Err(NOTHING_KEPT.into())
    }

    /// Starts rewriting the log (`BGREWRITEAOF`).
    ///
    /// # Errors
    /// The reason, as the client reads it after `ERR `.
    fn rewrite_log_in_background(&mut self) -> Result<(), String> {
        Err(NOTHING_KEPT.into())
    }

    /// Returns the time at which the last snapshot was completed, in seconds since 1970
    /// (`LASTSAVE`).
    fn last_save_s(&mut self) -> u64 {
        0
    }

    /// Ends the server after this batch (`SHUTDOWN`): with a snapshot, without one, or as configured.
    ///
    /// # Errors
    /// The reason, as the client reads it after `ERR `.
    fn shutdown(&mut self, _save: Option<bool>) -> Result<(), String> {
        Err("this server is not ended by its clients".into())
    }

    /// Returns `true` if replies must be sent before the next batch is parsed. Then one call
    /// executes only the commands of one batch, and the caller calls again.
    fn sends_early(&self) -> bool {
        false
    }

    /// Returns the approximate number of bytes of replies that one call may produce. Further
    /// commands wait until these have been sent.
    fn output_room_bytes(&self) -> usize {
        TURN_OUTPUT_MAX_BYTES
    }

    /// Returns the clock that counts the time of each stage; `None` if the stages are not timed.
    fn stages(&self) -> Option<&StageClock> {
        None
    }

    /// Returns the reason why the store takes no writes. It is used only while writes are refused.
    fn read_only_reason(&self) -> ReadOnlyReason {
        ReadOnlyReason::Replica
    }

    /// Returns the server's replication; `None` if it can neither have replicas nor be a replica.
    fn replication(&mut self) -> Option<&mut dyn Replication> {
        None
    }

    /// Returns the cluster that the server belongs to; `None` if it serves all keys by itself.
    fn cluster(&self) -> Option<&Arc<ClusterView>> {
        None
    }

    /// Returns `true` if every worker of the server executes by the view of [`ServerContext::cluster`].
    fn is_cluster_settled(&self) -> bool {
        true
    }

    /// Returns `true` if the server is a replica without a complete copy. Then it only executes
    /// commands that do not need the data.
    fn is_loading(&self) -> bool {
        false
    }
}

/// Client in the format of `CLIENT LIST`.
#[derive(Clone, Copy, Debug)]
pub struct ClientInfo<'a> {
    /// Id of the client.
    pub id: u64,
    /// Address and port of the client.
    pub address: &'a str,
    /// The server's address and port.
    pub local_address: &'a str,
    /// Name that the client gave itself; empty without one.
    pub name: &'a [u8],
    /// Seconds since it connected.
    pub age_s: u64,
    /// Seconds since its last command.
    pub idle_s: u64,
    /// Number of bytes of input that are not yet executed.
    pub input_bytes: usize,
    /// Number of free bytes in the input buffer.
    pub input_free_bytes: usize,
    /// Number of bytes of output that are not yet sent.
    pub output_bytes: usize,
    /// Memory of the connection in bytes.
    pub memory_bytes: usize,
}

/// Reason why the store takes no writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOnlyReason {
    /// The server is a replica.
    Replica,
    /// The server cannot write its log or a snapshot.
    PersistenceFailed,
}
