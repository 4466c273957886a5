//! State of a server's registration, for `INFO` and metrics.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use overside_base::lock;

use super::DirectoryError;

/// State of a server's registration in a directory.
#[derive(Debug, Default)]
pub struct RegistrationStatus {
    endpoints: AtomicUsize,
    registered: AtomicUsize,
    failures: AtomicU64,
    lost_leases: AtomicU64,
    error: Mutex<Option<String>>,
}

impl RegistrationStatus {
    /// Returns the number of endpoints to be registered.
    pub fn endpoints(&self) -> usize {
        self.endpoints.load(Ordering::Relaxed)
    }

    /// Returns how many of them were registered when the directory was last reached.
    pub fn registered(&self) -> usize {
        self.registered.load(Ordering::Relaxed)
    }

    /// Rounds in which a request to the directory failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Leases that ended although the server was there.
    pub fn lost_leases(&self) -> u64 {
        self.lost_leases.load(Ordering::Relaxed)
    }

    /// Returns the error of the last round; `None` if it succeeded.
    pub fn error(&self) -> Option<String> {
        lock(&self.error).clone()
    }

    pub(super) fn set_endpoints(&self, count: usize) {
        self.endpoints.store(count, Ordering::Relaxed);
    }

    pub(super) fn set_registered(&self, count: usize) {
        self.registered.store(count, Ordering::Relaxed);
    }

    pub(super) fn count_lost_lease(&self) {
        self.lost_leases.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes the result of a round. Logs changes.
    pub(super) fn note(&self, result: Result<(), &DirectoryError>) {
        let mut error = lock(&self.error);
        let now = result.err().map(ToString::to_string);
        self.failures.fetch_add(u64::from(now.is_some()), Ordering::Relaxed);
        if *error == now {
            return;
        }
        match &now {
            Some(text) => tracing::warn!("not registered, and serving on: {text}; trying again"),
            None => tracing::info!("registered in the directory again"),
        }
        *error = now;
    }
}
