//! What crosses the links of a side.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Traffic;
use crate::ticks::TickClock;

/// What crossed the links over which the threads of a side ask, for all of them to see. Each writes its
/// own place alone.
#[derive(Clone, Debug)]
pub struct LinkCounts {
    places: Arc<[Place]>,
    own: usize,
    /// That times are told by.
    pub(super) clock: TickClock,
}

/// Of nothing: nobody looks at it.
impl Default for LinkCounts {
    fn default() -> Self {
        Self {
            places: Arc::default(),
            own: 0,
            clock: TickClock::start(),
        }
    }
}

/// Messages that were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answered {
    pub messages: u64,
    /// From each one's write until its answer was there, in all.
    pub ticks: u64,
}

#[derive(Debug, Default)]
struct Place {
    requests: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    read_bytes: AtomicU64,
    answers: AtomicU64,
    answer_ticks: AtomicU64,
}

impl LinkCounts {
    /// For so many links: each one's.
    #[must_use]
    pub fn new(links: usize) -> Vec<Self> {
        let places: Arc<[Place]> = (0..links).map(|_| Place::default()).collect();
        let clock = TickClock::start();
        let of = |own| Self {
            places: Arc::clone(&places),
            own,
            clock,
        };
        (0..links).map(of).collect()
    }

    /// What this link has had for requests since it began.
    pub(super) fn show(&self, requests: u64, traffic: Traffic, answered: Answered) {
        if let Some(place) = self.places.get(self.own) {
            place.requests.store(requests, Ordering::Relaxed);
            place.writes.store(traffic.writes, Ordering::Relaxed);
            (place.written_bytes).store(traffic.written_bytes, Ordering::Relaxed);
            place
                .read_bytes
                .store(traffic.read_bytes, Ordering::Relaxed);
            place.answers.store(answered.messages, Ordering::Relaxed);
            (place.answer_ticks).store(answered.ticks, Ordering::Relaxed);
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
        let answer_ns = sum(|place| &place.answer_ticks) as f64 * self.clock.tick_ns();
        let fields = [
            ("offload_requests", sum(|place| &place.requests)),
            ("offload_link_writes", sum(|place| &place.writes)),
            (
                "offload_link_written_bytes",
                sum(|place| &place.written_bytes),
            ),
            ("offload_link_read_bytes", sum(|place| &place.read_bytes)),
            ("offload_link_answers", sum(|place| &place.answers)),
            ("offload_link_answer_ns", answer_ns as u64),
        ];
        fields
            .map(|(name, value)| (name.to_owned(), value.to_string()))
            .into()
    }
}
