//! A stage's connection to its node: its state, its batches, and its statistics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use overside_placement::{CircuitBreaker, Retry};

use crate::definition::node::NodeDefinition;
use crate::run::adaptive::{AdaptivePlacement, Backlog};
use crate::run::node::{Node, NodeStage};

/// Stage that is open on the node.
pub(crate) type Session = Arc<Mutex<Box<dyn NodeStage>>>;

/// Connection of a stage to its node.
pub(crate) struct NodeLink {
    pub name: String,
    pub node: Arc<dyn Node>,
    pub session: Option<Session>,
    /// Number of the current opening.
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

/// Batch on the node.
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

    /// Returns `true` if the host takes batches that wait for the node, because the node is lost or because
    /// both share the work. The node has got its batches before.
    pub(crate) fn is_for_host_too(&self) -> bool {
        let is_shared = self.adaptive.as_ref().is_some_and(AdaptivePlacement::is_shared);
        is_shared || !self.breaker.is_closed()
    }

    /// Returns `true` if the node is open, has room in its window, and may take the next batch.
    pub(crate) fn takes_next(&self, backlog: &Backlog, now: Instant) -> bool {
        let adaptive = self.adaptive.as_ref();
        let limit = self.breaker.limit(self.window);
        let has_room = self.session.is_some() && self.in_flight.len() < limit;
        has_room && adaptive.is_none_or(|adaptive| adaptive.node_may_take(backlog, now))
    }

    /// Returns the number of bytes that wait before the batch that the node should take.
    pub(crate) fn bytes_before(&self, backlog: &Backlog) -> u64 {
        let adaptive = self.adaptive.as_ref();
        adaptive.map_or(0, |adaptive| adaptive.bytes_before(backlog))
    }

    /// Returns `true` if the stage must be opened on the node now, and records that this has begun.
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
        let sent = Sent { at: now, bytes, waited };
        self.in_flight.insert(number, sent);
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.node_took(now);
        }
        self.in_flight_bytes += bytes;
    }

    /// Returns the numbers of batches and bytes on the node.
    pub(crate) fn outstanding(&self) -> (usize, u64) {
        (self.in_flight.len(), self.in_flight_bytes)
    }

    /// Returns the time until which everything waits behind this batch, if it is the oldest since
    /// `oldest_since`; `None` if only the node may process it.
    pub(crate) fn awaited_until(&self, number: u64, oldest_since: Instant) -> Option<Instant> {
        let adaptive = self.adaptive.as_ref();
        let adaptive = adaptive.filter(|adaptive| adaptive.is_shared())?;
        let sent = self.in_flight.get(&number)?;
        Some(sent.at.max(oldest_since) + adaptive.delay_max())
    }

    /// Handles an answer of the node. Returns the batch if the node had it.
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

    /// Records that a batch succeeded on the node. Returns `true` if the node works again.
    pub(crate) fn record_success(&mut self) -> bool {
        self.breaker.record_success(self.window)
    }

    /// Records that a batch failed on the node. Returns `true` if the node must not be used for a while.
    pub(crate) fn record_failure(&mut self) -> bool {
        self.breaker.record_failure()
    }

    /// Returns `true` if the node has batches and has not answered for too long.
    pub(crate) fn is_silent(&self, now: Instant) -> bool {
        let oldest = self.in_flight.values().map(|sent| sent.at).min();
        let since = oldest.map(|at| at.max(self.last_answer));
        since.is_some_and(|since| now.saturating_duration_since(since) > self.timeout)
    }

    /// Longest time without an answer after which the node counts as lost.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Handles the loss of the node. Returns its batches, the session to close, and the time until the next
    /// attempt.
    pub(crate) fn lose(&mut self, now: Instant) -> (Vec<u64>, Option<Session>, Duration) {
        let had = std::mem::take(&mut self.in_flight).into_keys().collect();
        self.in_flight_bytes = 0;
        self.is_opening = false;
        // Later answers of the session are ignored.
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
