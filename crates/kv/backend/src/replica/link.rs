//! A primary's replicas, as the thread that sends and the threads that serve see them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use overside_base::{EventFd, lock};

use super::backlog::Backlog;
use crate::transport::Transport;

/// A replica's connection, as the server hands it over.
pub struct ReplicaConnection {
    pub(super) transport: Transport,
    pub(super) unsent: Vec<u8>,
    address: String,
}

impl ReplicaConnection {
    /// A connection on which these bytes are to be sent first.
    pub fn new(transport: Transport, unsent: Vec<u8>, address: String) -> Self {
        Self { transport, unsent, address }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }
}

impl std::fmt::Debug for ReplicaConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ReplicaConnection").field(&self.address).finish()
    }
}

/// Progress of a replica, as its primary sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Waiting,
    Copying,
    Online,
}

/// A replica, as both threads see it.
#[derive(Debug)]
pub(super) struct Link {
    /// Name of the replica.
    pub replica: String,
    pub host: String,
    pub port: u16,
    pub phase: Phase,
    /// Offset in the history from which the replica gets more. At `limit` it must stop until more
    /// of the copy has been sent.
    pub position: u64,
    pub limit: u64,
    /// Bytes that are sent before more of the history: the answer to the replica's request, and
    /// frames of the copy.
    pub copy: Vec<u8>,
    pub acknowledged: u64,
    pub heard: Instant,
}

/// State that the thread that sends and the threads that serve share.
#[derive(Debug)]
pub(super) struct Replicas {
    pub state: Mutex<LinkTable>,
    /// Event of the sending thread.
    pub event: EventFd,
}

impl Replicas {
    /// Replicas that have executed and kept the history before `end`.
    pub(super) fn acknowledged(&self, end: u64) -> Vec<String> {
        let state = lock(&self.state);
        let links = state.links.values();
        let have = links.filter(|link| link.acknowledged >= end.max(1));
        have.map(|link| link.replica.clone()).collect()
    }
}

#[derive(Debug)]
pub(super) struct LinkTable {
    pub backlog: Backlog,
    pub links: HashMap<u64, Link>,
    pub incoming: Vec<(u64, ReplicaConnection)>,
    pub is_ended: bool,
}
