//! Interface of a communication engine to the server that owns the connections.

use std::fmt::Display;

use super::TURN_OUTPUT_MAX_BYTES;
use crate::replication::Replication;
use crate::stages::StageClock;
use overside_kv_store::{ProcessingEngine, Statistics};

/// Error text of a server that keeps no snapshots.
const NOTHING_KEPT: &str = "nothing is kept on disk";

/// State and actions that only the server has. A server must define which clients may use it;
/// methods with a default are optional.
pub trait ServerContext {
    /// Returns the engine that executes the requests.
    fn engine(&mut self) -> &mut dyn ProcessingEngine;

    /// Into how many parts clients should divide their datagrams: one for each core that serves them.
    fn datagram_parts(&mut self) -> usize {
        self.engine().partitions()
    }

    /// Now, in milliseconds since 1970. Never goes back.
    fn now_ms(&mut self) -> u64;

    /// Returns `true` if the password is right (`AUTH`, `HELLO`). `user` is `default` unless the
    /// client named one. Takes the same time whatever is wrong.
    fn authenticate(&mut self, user: &[u8], password: &[u8]) -> bool;

    /// Returns `true` if clients must authenticate. Otherwise `AUTH` with one argument is an error,
    /// as in Redis.
    fn has_password(&self) -> bool;

    /// Hands over the fields of `INFO`: section (`Server`), field (`uptime_in_seconds`) and value,
    /// fields of a section in a row. The section `Keyspace` is added by the caller.
    fn info(&mut self, _: &Statistics, _field: &mut dyn FnMut(&str, &str, &dyn Display)) {}

    /// Hands over every parameter of `CONFIG GET` with its value, by Redis's names (`maxmemory`).
    fn config(&mut self, _parameter: &mut dyn FnMut(&str, &str)) {}

    /// Hands over every client that is connected (`CLIENT LIST`), in order of their ids.
    fn clients(&mut self, _client: &mut dyn FnMut(&ClientInfo<'_>)) {}

    /// Remembers the name of a client, for [`ServerContext::clients`]; empty: none.
    fn set_client_name(&mut self, _id: u64, _name: &[u8]) {}

    /// Closes the connection of a client (`CLIENT KILL`), unless it is the caller's own, whose
    /// session is marked as closing. Returns `true` if there is one.
    fn kill_client(&mut self, _id: u64) -> bool {
        false
    }

    /// Writes a snapshot before it returns (`SAVE`).
    ///
    /// # Errors
    /// Why not, as the client reads it after `ERR `.
    fn save(&mut self) -> Result<(), String> {
        Err(NOTHING_KEPT.into())
    }

    /// Begins to write a snapshot (`BGSAVE`).
    ///
    /// # Errors
    /// Why not, as the client reads it after `ERR `.
    fn save_in_background(&mut self) -> Result<(), String> {
        Err(NOTHING_KEPT.into())
    }

    /// Begins to rewrite the log (`BGREWRITEAOF`).
    ///
    /// # Errors
    /// The reason of a refusal, as the client reads it after `ERR `.
    fn rewrite_log_in_background(&mut self) -> Result<(), String> {
        Err(NOTHING_KEPT.into())
    }

    /// Returns the time at which the last snapshot was completed, in seconds since 1970
    /// (`LASTSAVE`).
    fn last_save_s(&mut self) -> u64 {
        0
    }

    /// Ends the server after this batch (`SHUTDOWN`), with a snapshot or without one, or as it is
    /// configured.
    ///
    /// # Errors
    /// Why not, as the client reads it after `ERR `.
    fn shutdown(&mut self, _save: Option<bool>) -> Result<(), String> {
        Err("this server is not ended by its clients".into())
    }

    /// Returns `true` if replies must leave before the next batch is parsed. Then the commands of
    /// only one batch are executed, and the caller calls again.
    fn sends_early(&self) -> bool {
        false
    }

    /// Returns about how many bytes of replies may be produced at once. Commands beyond that wait
    /// until these have been sent.
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

    /// Returns the server's replication; `None` if it can neither have replicas nor be one.
    fn replication(&mut self) -> Option<&mut dyn Replication> {
        None
    }

    /// Returns `true` if the server is a replica without a complete copy. Then it executes only
    /// commands that do not need the data.
    fn is_loading(&self) -> bool {
        false
    }
}

/// A client as `CLIENT LIST` shows it.
#[derive(Clone, Copy, Debug)]
pub struct ClientInfo<'a> {
    /// Number of the client.
    pub id: u64,
    /// Address and port of the client.
    pub address: &'a str,
    /// The server's address and port.
    pub local_address: &'a str,
    /// Name that the client gave itself, empty if none.
    pub name: &'a [u8],
    /// Seconds since it connected.
    pub age_s: u64,
    /// Seconds since its last command.
    pub idle_s: u64,
    /// Bytes of input that wait.
    pub input_bytes: usize,
    /// Room that the buffer of the input has for more, in bytes.
    pub input_free_bytes: usize,
    /// Bytes of output that wait.
    pub output_bytes: usize,
    /// Memory that the connection takes, in bytes.
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
