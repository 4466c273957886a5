//! What crosses the links of a side.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Traffic;

/// What crossed the links over which the threads of a side ask, for all of them to see. Each writes its
/// own place alone.
#[derive(Clone, Debug, Default)]
pub struct LinkCounts {
    places: Arc<[Place]>,
    own: usize,
}

#[derive(Debug, Default)]
struct Place {
    requests: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    read_bytes: AtomicU64,
}

impl LinkCounts {
    /// For so many links: each one's.
    #[must_use]
    pub fn new(links: usize) -> Vec<Self> {
        let places: Arc<[Place]> = (0..links).map(|_| Place::default()).collect();
        let of = |own| Self {
            places: Arc::clone(&places),
            own,
        };
        (0..links).map(of).collect()
    }

    /// What this link has had since it began.
    pub(super) fn show(&self, requests: u64, traffic: Traffic) {
        if let Some(place) = self.places.get(self.own) {
            place.requests.store(requests, Ordering::Relaxed);
            place.writes.store(traffic.writes, Ordering::Relaxed);
            (place.written_bytes).store(traffic.written_bytes, Ordering::Relaxed);
            place
                .read_bytes
                .store(traffic.read_bytes, Ordering::Relaxed);
        }
    }

    /// Names and values for `INFO`, of all links; none where there is no link.
    pub(crate) fn info(&self) -> Vec<(String, String)> {
        if self.places.is_empty() {
            return Vec::new();
        }
        let sum = |of: fn(&Place) -> &AtomicU64| -> u64 {
            let places = self.places.iter();
            places.map(|place| of(place).load(Ordering::Relaxed)).sum()
        };
        let fields = [
            ("offload_requests", sum(|place| &place.requests)),
            ("offload_link_writes", sum(|place| &place.writes)),
            (
                "offload_link_written_bytes",
                sum(|place| &place.written_bytes),
            ),
            ("offload_link_read_bytes", sum(|place| &place.read_bytes)),
        ];
        fields
            .map(|(name, value)| (name.to_owned(), value.to_string()))
            .into()
    }
}
