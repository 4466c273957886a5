//! Counts of the traffic over the links of a side.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Traffic;
use crate::ticks::TickClock;

/// Counts of the traffic over the links of the threads of a side. All these threads can read them;
/// each writes only its own place.
#[derive(Clone, Debug)]
pub struct LinkCounts {
    places: Arc<[OneLink]>,
    own: usize,
    /// Clock for the time from a message to its answer.
    pub(super) clock: TickClock,
}

/// Creates counts without links, which no thread reads.
impl Default for LinkCounts {
    fn default() -> Self {
        Self { places: Arc::default(), own: 0, clock: TickClock::start() }
    }
}

/// Messages that were answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answered {
    pub messages: u64,
    /// Total time from the write of each message until its answer arrived.
    pub ticks: u64,
}

/// Counts of one link.
#[derive(Debug, Default)]
struct OneLink {
    requests: AtomicU64,
    answers: AtomicU64,
    answer_ticks: AtomicU64,
    /// In the order of [`Traffic`]'s fields.
    traffic: [AtomicU64; TRAFFIC],
}

/// Number of fields of [`Traffic`].
const TRAFFIC: usize = 6;

impl LinkCounts {
    /// Counters for each of `links` links.
    #[must_use]
    pub fn new(links: usize) -> Vec<Self> {
        let places: Arc<[OneLink]> = (0..links).map(|_| OneLink::default()).collect();
        let clock = TickClock::start();
        let of = |own| Self { places: Arc::clone(&places), own, clock };
        (0..links).map(of).collect()
    }

    /// Publishes the counts of this link's requests since it was opened.
    pub(super) fn show(&self, requests: u64, traffic: &Traffic, answered: Answered) {
        if let Some(place) = self.places.get(self.own) {
            place.requests.store(requests, Ordering::Relaxed);
            place.answers.store(answered.messages, Ordering::Relaxed);
            (place.answer_ticks).store(answered.ticks, Ordering::Relaxed);
            for (place, (_, _, count)) in place.traffic.iter().zip(traffic.fields()) {
                place.store(count, Ordering::Relaxed);
            }
        }
    }

    /// Names and values for `INFO`, of all links; none where there is no link.
    pub(crate) fn info(&self) -> Vec<(String, String)> {
        if self.places.is_empty() {
            return Vec::new();
        }
        let sum = |of: &dyn Fn(&OneLink) -> &AtomicU64| -> u64 {
            let places = self.places.iter();
            places.map(|place| of(place).load(Ordering::Relaxed)).sum()
        };
        let answer_ns = sum(&|place| &place.answer_ticks) as f64 * self.clock.tick_ns();
        let mut all = vec![
            ("offload_requests".to_owned(), sum(&|place| &place.requests)),
            ("offload_link_answers".to_owned(), sum(&|place| &place.answers)),
            ("offload_link_answer_ns".to_owned(), answer_ns as u64),
        ];
        for (number, (name, ..)) in Traffic::default().fields().enumerate() {
            all.push((format!("offload_link_{name}"), sum(&|place| &place.traffic[number])));
        }
        all.into_iter().map(|(name, value)| (name, value.to_string())).collect()
    }
}
