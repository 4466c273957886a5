//! The table of clients.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use slab::Slab;

use super::connection::{Connection, Protocol};
use super::shared::{ClientEntry, Shared};

/// Data of a client that connects.
pub(super) struct NewClient {
    pub id: u64,
    pub address: Box<str>,
    pub local_address: Arc<str>,
    pub protocol: Protocol,
    pub now_ms: u64,
    pub memory_bytes: usize,
    pub is_authenticated: bool,
}

/// A client of this worker. The connection itself is elsewhere while it is being served.
pub(super) struct Client {
    pub entry: Arc<ClientEntry>,
    pub is_authenticated: bool,
    pub connection: Option<Box<Connection>>,
}

/// All clients of a worker, and their memory together.
pub(super) struct Clients {
    pub table: Slab<Client>,
    pub unauthenticated: usize,
    pub memcached: usize,
    /// Clients to be closed at the request of another client.
    pub killed: Vec<Arc<ClientEntry>>,
    memory_bytes: usize,
    worker: usize,
    shared: Arc<Shared>,
}

impl Clients {
    pub(super) fn new(worker: usize, shared: Arc<Shared>) -> Self {
        Self {
            table: Slab::new(),
            unauthenticated: 0,
            memcached: 0,
            killed: Vec::new(),
            memory_bytes: 0,
            worker,
            shared,
        }
    }

    /// Memory of the connections of this worker.
    pub(super) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    fn set_memory(&mut self, bytes: usize) {
        self.memory_bytes = bytes;
        self.shared.set_memory(self.worker, bytes);
    }

    /// Brings the sums up to date after a connection was served.
    pub(super) fn update(&mut self, key: usize, connection: &Connection) {
        let client = &mut self.table[key];
        let entry = &*client.entry;
        let (before, now) = (entry.memory_bytes(), connection.memory_bytes());
        entry.memory_bytes.store(now, Ordering::Relaxed);
        let input_bytes = connection.input.len();
        entry.input_bytes.store(input_bytes, Ordering::Relaxed);
        let free_bytes = connection.input.capacity() - input_bytes;
        (entry.input_free_bytes).store(free_bytes, Ordering::Relaxed);
        let output_bytes = connection.unsent();
        entry.output_bytes.store(output_bytes, Ordering::Relaxed);
        let is_authenticated =
            connection.session.is_authenticated() && !connection.transport.is_handshaking();
        if is_authenticated != client.is_authenticated {
            client.is_authenticated = is_authenticated;
            match is_authenticated {
                true => self.unauthenticated -= 1,
                false => self.unauthenticated += 1,
            }
        }
        self.set_memory(self.memory_bytes - before + now);
    }

    /// Adds one that was admitted; where it is.
    pub(super) fn insert(&mut self, new: NewClient) -> usize {
        let key = self.table.vacant_key();
        let entry = Arc::new(ClientEntry {
            id: new.id,
            worker: self.worker,
            key,
            address: new.address,
            local_address: new.local_address,
            protocol: new.protocol,
            opened_ms: new.now_ms,
            name: Mutex::default(),
            active_ms: AtomicU64::new(new.now_ms),
            input_bytes: AtomicUsize::new(0),
            input_free_bytes: AtomicUsize::new(0),
            output_bytes: AtomicUsize::new(0),
            memory_bytes: AtomicUsize::new(new.memory_bytes),
            is_condemned: AtomicBool::new(false),
        });
        self.set_memory(self.memory_bytes + new.memory_bytes);
        self.unauthenticated += usize::from(!new.is_authenticated);
        self.memcached += usize::from(new.protocol == Protocol::Memcached);
        self.shared.add_client(Arc::clone(&entry));
        self.table.insert(Client {
            entry,
            is_authenticated: new.is_authenticated,
            connection: None,
        })
    }

    pub(super) fn remove(&mut self, key: usize) {
        let client = self.table.remove(key);
        self.set_memory(self.memory_bytes - client.entry.memory_bytes());
        self.unauthenticated -= usize::from(!client.is_authenticated);
        self.memcached -= usize::from(client.entry.protocol == Protocol::Memcached);
        self.shared.remove_client(client.entry.id);
        self.shared.dismiss();
    }

    /// Returns `true` if the client is still connected. Its place in the table may have another
    /// client by now.
    pub(super) fn has(&self, entry: &ClientEntry) -> bool {
        let client = self.table.get(entry.key);
        client.is_some_and(|client| client.entry.id == entry.id)
    }

    /// Returns the key of the client that has been connected longest without authenticating; `None`
    /// if there is none.
    pub(super) fn oldest_unauthenticated(&self) -> Option<usize> {
        let clients = self.table.iter();
        let unauthenticated = clients.filter(|(_, client)| !client.is_authenticated);
        let oldest = unauthenticated.min_by_key(|(_, client)| client.entry.id);
        oldest.map(|(key, _)| key)
    }
}
