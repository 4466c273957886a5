//! Keeps a server's endpoints in a directory, on a thread of its own.
//!
//! 1. Each endpoint has a lease. A server that is killed disappears when its leases end.
//! 2. Once a round the leases are kept alive, and the entries are checked. A lease that has
//!    ended, or an entry that was removed, is created again.
//! 3. While another server of the same name is registered, or another one with the same address was
//!    registered later, nothing is written: names and addresses belong to one server.
//! 4. At the end the server ends its leases, and so removes only its own entries.
//!
//! The server never waits for the directory: without it the server continues to serve.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::entry::{Endpoint, server_prefix};
use super::etcd::{Etcd, KeyRange};
use super::{DirectoryError, Location, RegistrationStatus};

/// Time that an entry stays after its server was killed.
pub const LEASE: Duration = Duration::from_secs(10);
/// Time between two rounds; `RETRY` is the time after a failed one.
const ROUND: Duration = Duration::from_secs(3);
const RETRY: Duration = Duration::from_secs(1);

/// A server's endpoints in a directory. They are removed from it when this is dropped, which takes a few
/// seconds at most if the directory does not answer.
#[derive(Debug)]
pub struct Registration {
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Registration {
    /// Registers endpoints, which all belong to one server, and reports to `status`.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn start(
        location: Location,
        endpoints: Vec<Endpoint>,
        status: Arc<RegistrationStatus>,
    ) -> io::Result<Self> {
        status.set_endpoints(endpoints.len());
        let (stop, stopped) = channel();
        let leased = |endpoint| Leased { endpoint, lease: None, was_registered: false };
        let registrar = Registrar {
            etcd: Etcd::new(location),
            endpoints: endpoints.into_iter().map(leased).collect(),
            status,
        };
        let thread = thread::Builder::new()
            .name("kv-directory".into())
            .spawn(move || registrar.run(&stopped))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Begins to remove the endpoints.
    pub fn withdraw(&self) {
        // It may have ended.
        let _ = self.stop.send(());
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.withdraw();
        // There is nothing to do if it panicked.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Leased {
    endpoint: Endpoint,
    lease: Option<i64>,
    was_registered: bool,
}

struct Registrar {
    etcd: Etcd,
    endpoints: Vec<Leased>,
    status: Arc<RegistrationStatus>,
}

impl Registrar {
    fn run(mut self, stopped: &Receiver<()>) {
        loop {
            let done = self.round();
            self.status.note(done.as_ref().copied());
            let pause = if done.is_ok() { ROUND } else { RETRY };
            match stopped.recv_timeout(pause) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let leases = self.endpoints.iter().filter_map(|one| one.lease);
        for lease in leases {
            if let Err(error) = self.etcd.revoke(lease) {
                tracing::warn!(
                    "the entries of this server are removed in {} s only: {error}",
                    LEASE.as_secs()
                );
                // Another one would wait as long.
                return;
            }
        }
    }

    /// Does the due work for each endpoint. Stops at the first failure.
    fn round(&mut self) -> Result<(), DirectoryError> {
        let Some(first) = self.endpoints.first() else {
            return Ok(());
        };
        let prefix = server_prefix(self.etcd.location(), &first.endpoint.server);
        for leased in &mut self.endpoints {
            if let Some(lease) = leased.lease
                && !self.etcd.keep_alive(lease)?
            {
                let address = &leased.endpoint.address;
                tracing::warn!("the lease of {address} in the directory has ended");
                self.status.count_lost_lease();
                leased.lease = None;
            }
        }
        let found = self.etcd.range(&prefix)?;
        let mut result = self.check_name(&found);
        for leased in &mut self.endpoints {
            result = result.and_then(|()| leased.register(&self.etcd, &found));
        }
        match &result {
            Ok(()) => self.status.set_registered(self.endpoints.len()),
            Err(DirectoryError::Taken { .. }) => self.status.set_registered(0),
            // What was registered is so until its lease ends.
            Err(_) => {}
        }
        result
    }

    /// Refuses to share a name with a server at other addresses.
    fn check_name(&self, found: &KeyRange) -> Result<(), DirectoryError> {
        let location = self.etcd.location();
        let own: Vec<String> =
            (self.endpoints.iter()).map(|leased| leased.endpoint.key(location)).collect();
        for entry in &found.entries {
            let is_own = own.iter().any(|key| key.as_bytes() == entry.key);
            if let Ok(other) = Endpoint::parse(location, &entry.key, &entry.value)
                && !is_own
                && self.endpoints[0].endpoint.instance != other.instance
            {
                return Err(DirectoryError::Taken { server: other.server, address: other.address });
            }
        }
        Ok(())
    }
}

impl Leased {
    /// Writes the entry if it is not among those that were found.
    fn register(&mut self, etcd: &Etcd, found: &KeyRange) -> Result<(), DirectoryError> {
        let key = self.endpoint.key(etcd.location());
        let entry = (found.entries.iter()).find(|entry| entry.key == key.as_bytes());
        if entry.is_some_and(|entry| Some(entry.lease) == self.lease) {
            self.was_registered = true;
            return Ok(());
        }
        // At the start the address is this server's, since it listens there: who left the entry is dead.
        if let Some(entry) = entry.filter(|_| self.was_registered)
            && let Ok(other) = Endpoint::parse(etcd.location(), &entry.key, &entry.value)
            && other.instance != self.endpoint.instance
        {
            return Err(DirectoryError::Taken { server: other.server, address: other.address });
        }
        let lease = match self.lease {
            Some(lease) => lease,
            None => *self.lease.insert(etcd.grant(LEASE)?),
        };
        etcd.put(&key, &self.endpoint.value(), lease)?;
        self.was_registered = true;
        Ok(())
    }
}
