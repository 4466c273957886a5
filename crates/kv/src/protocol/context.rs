//! What a communication engine asks of the server that owns the connections.

use std::fmt::Display;

use super::TURN_OUTPUT_MAX_BYTES;
use crate::replica::Replication;
use crate::stages::StageClock;
use crate::{ProcessingEngine, Statistics};

/// Where a server has no snapshots.
const NOTHING_KEPT: &str = "nothing is kept on disk";

/// What only the server knows or can do. Who can let clients in must be said; a server that has nothing else
/// to tell or to do needs no more than the first four.
pub trait ServerContext {
    /// What executes the requests.
    fn engine(&mut self) -> &mut dyn ProcessingEngine;

    /// Into how many parts clients should divide their datagrams: one for each core that serves them.
    fn datagram_parts(&mut self) -> usize {
        self.engine().partitions()
    }

    /// Now, in milliseconds since 1970. Never goes back.
    fn now_ms(&mut self) -> u64;

    /// Whether the password is right (`AUTH`, `HELLO`). `user` is `default` unless the client named
    /// one. Takes the same time whatever is wrong.
    fn authenticate(&mut self, user: &[u8], password: &[u8]) -> bool;

    /// Whether clients must authenticate at all. Where not, `AUTH` with one argument is an error, as in
    /// Redis.
    fn has_password(&self) -> bool;

    /// Hands over what `INFO` shows: section (`Server`), field (`uptime_in_seconds`) and value, fields
    /// of a section in a row. The section `Keyspace` is added by the caller.
    fn info(&mut self, _: &Statistics, _field: &mut dyn FnMut(&str, &str, &dyn Display)) {}

    /// Hands over every parameter of `CONFIG GET` with its value, by Redis's names (`maxmemory`).
    fn config(&mut self, _parameter: &mut dyn FnMut(&str, &str)) {}

    /// Hands over every client that is connected (`CLIENT LIST`), in order of their ids.
    fn clients(&mut self, _client: &mut dyn FnMut(&ClientInfo<'_>)) {}

    /// Remembers the name of a client, for [`ServerContext::clients`]; empty: none.
    fn set_client_name(&mut self, _id: u64, _name: &[u8]) {}

    /// Closes the connection of a client (`CLIENT KILL`), unless it is the caller's own, whose session
    /// says that it is closing. Whether there is one.
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

    /// Begins to write the log anew (`BGREWRITEAOF`).
    ///
    /// # Errors
    /// Why not, as the client reads it after `ERR `.
    fn rewrite_log_in_background(&mut self) -> Result<(), String> {
        Err(NOTHING_KEPT.into())
    }

    /// When the last snapshot was completed, in seconds since 1970 (`LASTSAVE`).
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

    /// Whether replies leave before the next batch is parsed: then the commands of one batch are executed,
    /// and the caller calls again.
    fn sends_early(&self) -> bool {
        false
    }

    /// How many bytes of replies may be made at once, about: commands beyond them wait until those have
    /// been sent.
    fn output_room_bytes(&self) -> usize {
        TURN_OUTPUT_MAX_BYTES
    }

    /// Counts the time of each stage, if somebody wants to know.
    fn stages(&self) -> Option<&StageClock> {
        None
    }

    /// Why the store takes no writes, when it takes none.
    fn read_only_reason(&self) -> ReadOnlyReason {
        ReadOnlyReason::Replica
    }

    /// Its copies, or what it is a copy of; `None`: it has none and can have none.
    fn replication(&mut self) -> Option<&mut dyn Replication> {
        None
    }

    /// Whether it is a replica without a complete copy: it says little more than who it is.
    fn is_loading(&self) -> bool {
        false
    }
}

/// A client as `CLIENT LIST` shows it.
#[derive(Clone, Copy, Debug)]
pub struct ClientInfo<'a> {
    /// Its id.
    pub id: u64,
    /// Its address and port.
    pub address: &'a str,
    /// The server's address and port.
    pub local_address: &'a str,
    /// Its name, empty if none.
    pub name: &'a [u8],
    /// Seconds since it connected.
    pub age_s: u64,
    /// Seconds since its last command.
    pub idle_s: u64,
    /// Bytes of input that wait.
    pub input_bytes: usize,
    /// Bytes of output that wait.
    pub output_bytes: usize,
}

/// Why the store takes no writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOnlyReason {
    /// It is a replica.
    Replica,
    /// Its log or snapshot cannot be written.
    PersistenceFailed,
}
