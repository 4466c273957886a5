//! The table of clients.

use std::sync::Arc;

use slab::Slab;

use super::connection::{Connection, Protocol};

/// A connected client: what others may ask of it. The connection itself is elsewhere while it is
/// being served.
pub struct Client {
    pub id: u64,
    pub address: Box<str>,
    pub local_address: Arc<str>,
    pub name: Box<[u8]>,
    pub protocol: Protocol,
    pub opened_ms: u64,
    /// When something came last.
    pub active_ms: u64,
    pub input_bytes: usize,
    pub output_bytes: usize,
    pub memory_bytes: usize,
    pub is_authenticated: bool,
    /// Another client wants it closed.
    pub is_killed: bool,
    pub connection: Option<Box<Connection>>,
}

/// All clients, and what they take together.
#[derive(Default)]
pub struct Clients {
    pub table: Slab<Client>,
    pub memory_bytes: usize,
    pub unauthenticated: usize,
    /// Keys of those that are to be closed.
    pub killed: Vec<usize>,
}

impl Clients {
    /// Brings the sums up to date after a connection was served.
    pub fn update(&mut self, key: usize, connection: &Connection) {
        let client = &mut self.table[key];
        let memory = connection.memory_bytes();
        self.memory_bytes = self.memory_bytes - client.memory_bytes + memory;
        client.memory_bytes = memory;
        client.input_bytes = connection.input.len();
        client.output_bytes = connection.unsent();
        let is_authenticated =
            connection.session.is_authenticated() && !connection.transport.is_handshaking();
        if is_authenticated != client.is_authenticated {
            client.is_authenticated = is_authenticated;
            match is_authenticated {
                true => self.unauthenticated -= 1,
                false => self.unauthenticated += 1,
            }
        }
    }

    /// Adds one; where it is.
    pub fn insert(&mut self, client: Client) -> usize {
        self.memory_bytes += client.memory_bytes;
        self.unauthenticated += usize::from(!client.is_authenticated);
        self.table.insert(client)
    }

    pub fn remove(&mut self, key: usize) {
        let client = self.table.remove(key);
        self.memory_bytes -= client.memory_bytes;
        self.unauthenticated -= usize::from(!client.is_authenticated);
    }

    /// How many speak memcached's protocol.
    pub fn memcached(&self) -> usize {
        let clients = self.table.iter();
        let memcached = clients.filter(|(_, client)| client.protocol == Protocol::Memcached);
        memcached.count()
    }

    /// Who holds most.
    pub fn largest(&self) -> Option<usize> {
        let clients = self.table.iter();
        let largest = clients.max_by_key(|(_, client)| client.memory_bytes);
        largest.map(|(key, _)| key)
    }

    /// Who has been here longest without authenticating.
    pub fn oldest_unauthenticated(&self) -> Option<usize> {
        let clients = self.table.iter();
        let unauthenticated = clients.filter(|(_, client)| !client.is_authenticated);
        let oldest = unauthenticated.min_by_key(|(_, client)| client.id);
        oldest.map(|(key, _)| key)
    }

    /// In the order of their ids.
    pub fn sorted(&self) -> Vec<&Client> {
        let mut sorted: Vec<_> = self.table.iter().map(|(_, client)| client).collect();
        sorted.sort_unstable_by_key(|client| client.id);
        sorted
    }
}
