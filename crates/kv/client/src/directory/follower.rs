//! View of a directory that is kept up to date.
//!
//! A thread waits for changes and then reads everything again, so that a view is always whole and of one
//! time. It also reads when nothing has changed for a while, so that a change that was missed is found.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use overside_base::lock;

use super::cluster::Membership;
use super::entry::endpoints_prefix;
use super::{DirectoryError, Endpoint, Etcd, Location};

/// Longest time to wait for a change before everything is read again.
const WAIT: Duration = Duration::from_secs(10);
/// Shortest time between two reads.
const PAUSE: Duration = Duration::from_millis(50);
/// Time until the next attempt after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// Content of a directory at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Endpoints sorted by key.
    pub endpoints: Vec<Endpoint>,
    /// Keys of entries that are none of a server.
    pub unknown: Vec<String>,
    /// `None`: there is no cluster.
    pub membership: Option<Membership>,
}

/// Follows a directory until it is dropped.
#[derive(Debug)]
pub struct Follower(Arc<Watch>);

#[derive(Debug)]
struct Watch {
    etcd: Etcd,
    state: Mutex<LatestView>,
    is_stopped: AtomicBool,
}

#[derive(Debug)]
struct LatestView {
    view: Arc<View>,
    revision: i64,
    error: Option<DirectoryError>,
}

impl View {
    /// Reads a directory. Returns its content and its revision.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn read(etcd: &Etcd) -> Result<(Self, i64), DirectoryError> {
        let location = etcd.location();
        let found = etcd.range(&format!("{}/", location.prefix()))?;
        let mut view = Self { endpoints: Vec::new(), unknown: Vec::new(), membership: None };
        let (cluster, endpoints) = (Membership::key(location), endpoints_prefix(location));
        for entry in found.entries {
            if entry.key == cluster.as_bytes() {
                view.membership = Some(Membership::parse(location, &entry.value)?);
            } else if entry.key.starts_with(endpoints.as_bytes()) {
                match Endpoint::parse(location, &entry.key, &entry.value) {
                    Ok(endpoint) => view.endpoints.push(endpoint),
                    Err(_) => {
                        let key = String::from_utf8_lossy(&entry.key);
                        view.unknown.push(key.escape_debug().to_string());
                    }
                }
            }
        }
        Ok((view, found.revision))
    }

    /// Returns the address of a server for a protocol.
    ///
    /// # Errors
    /// The reason if there is none.
    pub fn address(&self, server: &str, protocol: &str) -> Result<&str, String> {
        let of_server = self.endpoints.iter().filter(|one| one.server == server);
        let endpoints: Vec<&Endpoint> = of_server.collect();
        let Some(first) = endpoints.first() else {
            return Err("it is not registered in the directory".into());
        };
        if endpoints.iter().any(|one| one.instance != first.instance) {
            return Err("two servers are registered by this name".into());
        }
        match endpoints.iter().find(|one| one.protocol == protocol) {
            Some(found) => Ok(&found.address),
            None => {
                let others: Vec<&str> = endpoints.iter().map(|one| &*one.protocol).collect();
                let others = others.join(", ");
                Err(format!("it has no endpoint of protocol {protocol}, only of {others}"))
            }
        }
    }
}

impl Follower {
    /// Reads a directory, and follows it from there.
    ///
    /// # Errors
    /// [`DirectoryError`]: it cannot be read now.
    pub fn start(location: Location) -> Result<Self, DirectoryError> {
        let etcd = Etcd::new(location);
        let (view, revision) = View::read(&etcd)?;
        let state = LatestView { view: Arc::new(view), revision, error: None };
        let shared =
            Arc::new(Watch { etcd, state: Mutex::new(state), is_stopped: AtomicBool::new(false) });
        let followed = Arc::clone(&shared);
        // It ends by itself, after it has waited.
        let spawned =
            thread::Builder::new().name("kv-follower".into()).spawn(move || followed.follow());
        spawned.map_err(|error| DirectoryError::Unreachable {
            member: shared.etcd.location().to_string(),
            reason: format!("starting a thread: {error}"),
        })?;
        Ok(Self(shared))
    }

    /// Returns the last view that was read.
    #[must_use]
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&lock(&self.0.state).view)
    }

    /// Returns the reason why the view may be outdated; `None` if it is up to date.
    #[must_use]
    pub fn error(&self) -> Option<DirectoryError> {
        lock(&self.0.state).error.clone()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.is_stopped.store(true, Ordering::Relaxed);
    }
}

impl Watch {
    fn follow(&self) {
        let prefix = format!("{}/", self.etcd.location().prefix());
        while !self.is_stopped.load(Ordering::Relaxed) {
            let revision = lock(&self.state).revision;
            let waited = self.etcd.wait_for_change(&prefix, revision, WAIT);
            let read = waited.and_then(|_| View::read(&self.etcd));
            let pause = if read.is_ok() { PAUSE } else { RETRY };
            self.note(read);
            thread::sleep(pause);
        }
    }

    fn note(&self, read: Result<(View, i64), DirectoryError>) {
        let mut state = lock(&self.state);
        match read {
            Ok((view, revision)) => {
                // Who holds the view sees by its address whether it is another one.
                if view != *state.view {
                    state.view = Arc::new(view);
                }
                state.revision = revision;
                state.error = None;
            }
            Err(error) => state.error = Some(error),
        }
    }
}
