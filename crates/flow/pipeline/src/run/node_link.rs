//! A stage's connection to its node: whether it is used, what it has, and what it did.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use overside_placement::{CircuitBreaker, Retry};

use crate::definition::node::NodeDefinition;
use crate::run::adaptive::{AdaptivePlacement, Backlog};
use crate::run::node::{Node, NodeStage};

/// A stage that is open on the node.
pub(crate) type Session = Arc<Mutex<Box<dyn NodeStage>>>;

/// See the module's text.
pub(crate) struct NodeLink {
    pub name: String,
    pub node: Arc<dyn Node>,
    pub session: Option<Session>,
    /// Counts the openings.
    pub opening: u64,
    pub is_opening: bool,
    breaker: CircuitBreaker,
    window: usize,
    timeout: Duration,
    in_flight: BTreeMap<u64, Sent>,
    in_flight_bytes: u64,
    adaptive: Option<AdaptivePlacement>,
    last_answer: Instant,
    /// `true` if the node had no other batch when it got the last one.
    is_alone: bool,
}

/// A batch that the node has.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub at: Instant,
    pub bytes: u64,
    /// Time from entering the stage until the batch was handed to the node.
    pub waited: Duration,
}

impl NodeLink {
    pub(crate) fn new(
        name: &str,
        node: Arc<dyn Node>,
        definition: &NodeDefinition,
        is_adaptive: bool,
        now: Instant,
    ) -> Self {
        let delay_max = definition.queue_delay_max().duration();
        Self {
            name: name.into(),
            node,
            session: None,
            opening: 0,
            is_opening: false,
            breaker: CircuitBreaker::new(Retry::default()),
            window: definition.window(),
            timeout: definition.timeout().duration(),
            in_flight: BTreeMap::new(),
            in_flight_bytes: 0,
            adaptive: is_adaptive.then(|| AdaptivePlacement::new(delay_max, now)),
            last_answer: now,
            is_alone: false,
        }
    }

    pub(crate) fn adaptive(&mut self) -> Option<&mut AdaptivePlacement> {
        self.adaptive.as_mut()
    }

    /// Returns `true` if the host takes batches that wait for the node, because the node is lost or
    /// because both share the work. The node has been given what it may have before.
    pub(crate) fn is_for_host_too(&self) -> bool {
        let is_shared = self
            .adaptive
            .as_ref()
            .is_some_and(AdaptivePlacement::is_shared);
        is_shared || !self.breaker.is_closed()
    }

    /// Returns `true` if the node is open, has room in its window, and may take the next batch.
    pub(crate) fn takes_next(&self, backlog: &Backlog, now: Instant) -> bool {
        let adaptive = self.adaptive.as_ref();
        let limit = self.breaker.limit(self.window);
        let has_room = self.session.is_some() && self.in_flight.len() < limit;
        has_room && adaptive.is_none_or(|adaptive| adaptive.node_may_take(backlog, now))
    }

    /// The bytes that wait before the batch that the node should take.
    pub(crate) fn bytes_before(&self, backlog: &Backlog) -> u64 {
        let adaptive = self.adaptive.as_ref();
        adaptive.map_or(0, |adaptive| adaptive.bytes_before(backlog))
    }

    /// Returns `true` if the stage is to be opened on the node now, and notes that this has begun.
    pub(crate) fn wants_to_open(&mut self, now: Instant) -> bool {
        if self.session.is_some() || self.is_opening {
            return false;
        }
        match self.breaker.retry_at() {
            Some(at) if now < at => return false,
            Some(_) => self.breaker.half_open(),
            None => {}
        }
        self.is_opening = true;
        self.opening += 1;
        true
    }

    pub(crate) fn sent(&mut self, number: u64, bytes: u64, entered: Instant, now: Instant) {
        self.is_alone = self.in_flight.is_empty();
        if self.is_alone {
            self.last_answer = now;
        }
        let waited = now.saturating_duration_since(entered);
        let sent = Sent {
            at: now,
            bytes,
            waited,
        };
        self.in_flight.insert(number, sent);
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.node_took(now);
        }
        self.in_flight_bytes += bytes;
    }

    /// Batches and bytes that the node has.
    pub(crate) fn outstanding(&self) -> (usize, u64) {
        (self.in_flight.len(), self.in_flight_bytes)
    }

    /// Until when everything waits behind this batch, if it is the oldest since then; none where only the node may do it.
    pub(crate) fn awaited_until(&self, number: u64, oldest_since: Instant) -> Option<Instant> {
        let adaptive = self.adaptive.as_ref();
        let adaptive = adaptive.filter(|adaptive| adaptive.is_shared())?;
        let sent = self.in_flight.get(&number)?;
        Some(sent.at.max(oldest_since) + adaptive.delay_max())
    }

    /// The node answered: what it had, if it had it.
    pub(crate) fn answered(&mut self, number: u64, now: Instant) -> Option<Sent> {
        let sent = self.in_flight.remove(&number)?;
        self.in_flight_bytes -= sent.bytes;
        let since = now.saturating_duration_since(self.last_answer);
        self.last_answer = now;
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.node_did(sent.bytes, since, self.is_alone);
        }
        Some(sent)
    }

    /// A batch was done there. Whether the node works again.
    pub(crate) fn record_success(&mut self) -> bool {
        self.breaker.record_success(self.window)
    }

    /// A batch failed there. Whether the node is to be given up for a while.
    pub(crate) fn record_failure(&mut self) -> bool {
        self.breaker.record_failure()
    }

    /// Since when the node has not answered although it has something, if that is too long.
    pub(crate) fn is_silent(&self, now: Instant) -> bool {
        let oldest = self.in_flight.values().map(|sent| sent.at).min();
        let since = oldest.map(|at| at.max(self.last_answer));
        since.is_some_and(|since| now.saturating_duration_since(since) > self.timeout)
    }

    /// Longest time without an answer after which the node counts as lost.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The node is lost: what it had, the session to be closed, and when it is tried again.
    pub(crate) fn lose(&mut self, now: Instant) -> (Vec<u64>, Option<Session>, Duration) {
        let had = std::mem::take(&mut self.in_flight).into_keys().collect();
        self.in_flight_bytes = 0;
        self.is_opening = false;
        // What it says from now on is not heard.
        self.opening += 1;
        (had, self.session.take(), self.breaker.open(now))
    }

    /// Returns the state of the connection in words: `open`, `not opened`, `lost` or `tried again`.
    pub(crate) fn state(&self) -> &'static str {
        match (&self.session, self.breaker.is_closed()) {
            (Some(_), true) => "open",
            (Some(_), false) => "tried again",
            (None, true) => "not opened",
            (None, false) => "lost",
        }
    }

    /// Returns `true` if the node has batches, is being opened, or is to be tried again, so that
    /// time limits must be checked.
    pub(crate) fn is_busy(&self) -> bool {
        !self.in_flight.is_empty() || self.is_opening || self.breaker.retry_at().is_some()
    }
}
