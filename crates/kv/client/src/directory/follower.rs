//! View of a directory that is kept up to date.
//!
//! A thread waits for changes and then reads everything again, so that a view is always whole and of one
//! time. It also reads when nothing has changed for a while, so that a change that was missed is found.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::entry::endpoints_prefix;
use super::{DirectoryError, Endpoint, Etcd, Location, SlotTable};

/// Longest time to wait for a change before everything is read again.
const WAIT: Duration = Duration::from_secs(10);
/// Shortest time between two reads.
const PAUSE: Duration = Duration::from_millis(50);
/// Time until the next attempt after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// Content of a directory at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Endpoints sorted by key.
    pub endpoints: Vec<Endpoint>,
    /// Owners of hash slots; empty if there is no cluster.
    pub slots: SlotTable,
}

/// Follows a directory until it is dropped.
#[derive(Debug)]
pub struct Follower(Arc<AtomicBool>);

impl View {
    /// Reads a directory. Returns its content and its revision.
    ///
    /// # Errors
    /// [`DirectoryError`].
    pub fn read(etcd: &Etcd) -> Result<(Self, i64), DirectoryError> {
        let location = etcd.location();
        let found = etcd.range(&format!("{}/", location.prefix()))?;
        let (mut view, endpoints) = (Self::default(), endpoints_prefix(location));
        for entry in found.entries {
            if entry.key == SlotTable::key(location).as_bytes() {
                view.slots = SlotTable::parse(location, &entry.value)?;
            } else if entry.key.starts_with(endpoints.as_bytes()) {
                // What is none of a server is no member either.
                view.endpoints.extend(Endpoint::parse(location, &entry.key, &entry.value));
            }
        }
        Ok((view, found.revision))
    }
}

impl Follower {
    /// Calls `read` from a thread of its own: now, after each change, and every few seconds at least. It reads the
    /// directory and returns the revision from which on the next change counts.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn start(
        location: Location,
        mut read: impl FnMut(&Etcd) -> Result<i64, DirectoryError> + Send + 'static,
    ) -> io::Result<Self> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (etcd, stopped) = (Etcd::new(location), Arc::clone(&is_stopped));
        let follow = move || {
            let prefix = format!("{}/", etcd.location().prefix());
            let mut known = None;
            // It ends by itself, after it has waited.
            while !stopped.load(Ordering::Relaxed) {
                if let Some(revision) = known {
                    // If that fails, reading does as well.
                    let _ = etcd.wait_for_change(&prefix, revision, WAIT);
                }
                known = read(&etcd).ok();
                thread::sleep(if known.is_some() { PAUSE } else { RETRY });
            }
        };
        thread::Builder::new().name("kv-follower".into()).spawn(follow)?;
        Ok(Self(is_stopped))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
