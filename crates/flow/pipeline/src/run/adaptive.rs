//! `adaptive` placement between the host and a node: the node processes everything as long as it keeps
//! up; otherwise the host takes part.
//!
//! 1. *On the node*: the node processes all batches. If one has waited longer than the bound, in the
//!    stage's queue and on the node, the stage is moved back to the host.
//! 2. *Shared*: the host takes waiting batches. The node gets as much as it can process within the bound, and
//!    nothing that would take it longer than the host needs for all waiting batches (list scheduling, as
//!    between the CPU and a device). So the node is never idle while it is useful. A node that is too slow
//!    for that still gets a batch from time to time, so that its rate stays known. It gets the batch that the
//!    host would reach when the node has finished it, not the oldest one: results leave in order, and
//!    everything waits behind a late batch. If the wait exceeds the bound, the host repeats that batch. A
//!    node is useless if moving a batch to it costs the host as much time as processing it.
//! 3. When the node's rate exceeds the arrival rate by a margin for the hold time, the stage moves down
//!    to the node again. It does not move to a node that is slower than the host while this stage is the
//!    bottleneck of the stream: then the arrival rate is low for that reason. Each time that a move
//!    turns out wrong within a few hold times, the hold time is doubled.

use std::time::{Duration, Instant};

use overside_placement::Lookahead;

/// Minimum and maximum of the hold time, between moving back and moving down again.
const HOLD: Duration = Duration::from_secs(1);
const HOLD_MAX: Duration = Duration::from_secs(32);
/// Number of hold times: a stage that is moved back sooner had moved down too early.
const EARLY: u32 = 4;
/// Factor by which the node must be faster than the arrival rate.
const MARGIN: f64 = 1.2;
/// Shortest time between two batches for a node that is too slow. These batches only measure its
/// rate.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Factor by which earlier measurements lose weight with each new batch.
const DECAY: f64 = 0.9;

/// Controller that decides which batches of one stage the node takes and which the host takes.
#[derive(Debug)]
pub(crate) struct AdaptivePlacement {
    /// Longest time that a batch may wait for the node.
    delay_max: Duration,
    /// Time at which the host began to take part; `None` if it does not.
    shared_since: Option<Instant>,
    down_since: Instant,
    hold: Duration,
    /// Rate of the node while it is busy. `host` is the rate of all host threads that work on this stage
    /// together.
    node: Rate,
    host: Rate,
    /// Rate at which one thread of the host processes batches; `moving` is the rate at which it moves them to
    /// the node and back.
    doing: Rate,
    moving: Rate,
    /// Number of bytes that arrived since this time.
    arrived: (Instant, u64),
    /// Number of ticks since then, and of those in which the stream was full while this stage had work.
    looked: u32,
    holding_up: u32,
    last_node: Instant,
}

/// Unfinished work of one stage, on the host and on the node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backlog {
    /// Number of bytes that wait for the host or the node.
    pub waiting_bytes: u64,
    /// Number of bytes of the next batch.
    pub next_bytes: u64,
    /// Number of bytes on the node.
    pub node_bytes: u64,
    /// Number of batches on the node.
    pub node_batches: usize,
    /// Number of bytes that the host works on.
    pub host_bytes: u64,
}

impl Backlog {
    /// Returns `true` if there are bytes that wait or that the host or the node works on.
    fn is_busy(&self) -> bool {
        self.waiting_bytes + self.node_bytes + self.host_bytes > 0
    }
}

/// Bytes and their time, weighted towards the last batches. They are sums, because answers that arrive
/// together only have a time together.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    bytes: f64,
    seconds: f64,
}

impl Rate {
    fn add(&mut self, bytes: u64, took: Duration) {
        self.bytes = DECAY * self.bytes + bytes as f64;
        self.seconds = DECAY * self.seconds + took.as_secs_f64();
    }

    /// Returns the bytes per second; `None` without a measurement.
    fn get(&self) -> Option<f64> {
        (self.bytes > 0.0).then(|| self.bytes / self.seconds.max(1e-9))
    }
}

/// Change of a stage's placement, with the measurement that caused it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Move {
    /// Back to the host: a batch has waited this long.
    Back(Duration),
    /// Down to the node, with its rate and the arrival rate in bytes per second.
    Down { node: f64, arriving: f64 },
}

impl AdaptivePlacement {
    pub(crate) fn new(delay_max: Duration, now: Instant) -> Self {
        Self {
            delay_max,
            shared_since: None,
            down_since: now,
            hold: HOLD,
            node: Rate::default(),
            host: Rate::default(),
            doing: Rate::default(),
            moving: Rate::default(),
            arrived: (now, 0),
            looked: 0,
            holding_up: 0,
            last_node: now,
        }
    }

    /// Returns `true` if the host may take batches that wait for the node.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared_since.is_some()
    }

    /// Records the arrival of a batch.
    pub(crate) fn arrived(&mut self, bytes: u64) {
        self.arrived.1 += bytes;
    }

    /// Records that the host processed these bytes in that time of one thread, while `threads` threads were
    /// working.
    pub(crate) fn host_did(&mut self, bytes: u64, took: Duration, threads: usize) {
        self.doing.add(bytes, took);
        let threads = u32::try_from(threads.max(1)).unwrap_or(u32::MAX);
        self.host.add(bytes, took / threads);
    }

    /// Records that the node processed these bytes in that time since its previous result, or since it got
    /// them. `is_alone` is `true` if it had no other batch: then the measurement replaces earlier ones.
    pub(crate) fn node_did(&mut self, bytes: u64, took: Duration, is_alone: bool) {
        if is_alone {
            self.node = Rate::default();
        }
        self.node.add(bytes, took);
    }

    /// Records the CPU time of the host for moving these bytes to the node and their results back.
    pub(crate) fn moved(&mut self, bytes: u64, cpu: Duration) {
        self.moving.add(bytes, cpu);
    }

    /// Records that a batch has waited this long for the node, and may still wait.
    pub(crate) fn waited(&mut self, delay: Duration, now: Instant) -> Option<Move> {
        if self.is_shared() || delay <= self.delay_max {
            return None;
        }
        let lasted = now.saturating_duration_since(self.down_since);
        self.hold = match lasted < EARLY * self.hold {
            true => (2 * self.hold).min(HOLD_MAX),
            false => HOLD,
        };
        self.shared_since = Some(now);
        self.arrived = (now, 0);
        (self.looked, self.holding_up) = (0, 0);
        Some(Move::Back(delay))
    }

    /// Checks if the node would keep up alone. `is_full` is `true` if the stream takes no more batches now.
    pub(crate) fn tick(&mut self, backlog: &Backlog, is_full: bool, now: Instant) -> Option<Move> {
        let since = self.shared_since?;
        self.looked += 1;
        self.holding_up += u32::from(is_full && backlog.is_busy());
        let (begun, bytes) = self.arrived;
        let passed = now.saturating_duration_since(begun);
        if now.saturating_duration_since(since) < self.hold || passed < HOLD {
            return None;
        }
        self.arrived = (now, 0);
        let is_holding_up = 2 * self.holding_up >= self.looked;
        (self.looked, self.holding_up) = (0, 0);
        let arriving = bytes as f64 / passed.as_secs_f64();
        let node = self.node.get()?;
        let is_slower = self.host.get().is_none_or(|host| node < host);
        if (is_holding_up && is_slower) || !self.saves_time() {
            return None;
        }
        let backlog_s = (backlog.waiting_bytes + backlog.node_bytes) as f64 / node;
        if node < MARGIN * arriving || backlog_s > self.delay_max.as_secs_f64() / 2.0 {
            return None;
        }
        self.shared_since = None;
        self.down_since = now;
        Some(Move::Down { node, arriving })
    }

    /// Returns `true` if the node may take the next batch.
    pub(crate) fn node_may_take(&self, backlog: &Backlog, now: Instant) -> bool {
        !self.is_shared() || self.is_worth(backlog) || self.is_probe_due(backlog, now)
    }

    /// Returns the number of bytes that wait before the batch that the node should take: what the host
    /// processes until the node is done with it.
    pub(crate) fn bytes_before(&self, backlog: &Backlog) -> u64 {
        let rates = self.node.get().zip(self.host.get());
        let Some((node, host)) = rates.filter(|_| self.is_shared()) else {
            return 0;
        };
        let until_s = (backlog.node_bytes + backlog.next_bytes) as f64 / node;
        (until_s * host) as u64
    }

    /// Records that the node took a batch.
    pub(crate) fn node_took(&mut self, now: Instant) {
        self.last_node = now;
    }

    fn is_worth(&self, backlog: &Backlog) -> bool {
        let Some(node_rate) = self.node.get() else {
            return backlog.node_batches < 2;
        };
        let outstanding_s = backlog.node_bytes as f64 / node_rate;
        // One batch that it works on and one behind it are always allowed.
        let is_within = backlog.node_batches < 2 || outstanding_s <= self.delay_max.as_secs_f64();
        let Some(host_rate) = self.host.get() else {
            return is_within;
        };
        let node = Lookahead::new(backlog.node_bytes as f64, node_rate);
        let host = Lookahead::new(backlog.host_bytes as f64, host_rate);
        let waiting = backlog.waiting_bytes as f64;
        is_within && self.saves_time() && node.may_take(backlog.next_bytes as f64, &host, waiting)
    }

    /// Returns `true` if moving a batch costs the host less time than processing it, or if this is not known
    /// yet.
    fn saves_time(&self) -> bool {
        let rates = self.moving.get().zip(self.doing.get());
        rates.is_none_or(|(moving, doing)| moving > doing)
    }

    fn is_probe_due(&self, backlog: &Backlog, now: Instant) -> bool {
        let rested = now.saturating_duration_since(self.last_node);
        backlog.node_batches == 0 && rested >= PROBE_INTERVAL.max(self.hold)
    }

    /// Longest time that the output may wait for a batch that the node has.
    pub(crate) fn delay_max(&self) -> Duration {
        self.delay_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const BATCH: u64 = 1_000_000;

    fn backlog(waiting: u64, node_batches: usize) -> Backlog {
        Backlog {
            waiting_bytes: waiting * BATCH,
            next_bytes: BATCH,
            node_bytes: node_batches as u64 * BATCH,
            node_batches,
            host_bytes: 0,
        }
    }

    /// Returns a stage whose batch waited too long at that moment.
    fn pushed_back(begin: Instant) -> AdaptivePlacement {
        let mut adaptive = AdaptivePlacement::new(50 * MS, begin);
        assert_eq!(adaptive.waited(50 * MS, begin), None);
        assert_eq!(adaptive.bytes_before(&backlog(9, 1)), 0);
        assert_eq!(adaptive.waited(51 * MS, begin), Some(Move::Back(51 * MS)));
        assert!(adaptive.is_shared());
        adaptive
    }

    #[test]
    fn a_node_that_keeps_up_again_gets_the_stage_again() {
        let begin = Instant::now();
        let mut adaptive = pushed_back(begin);
        // 100 MB/s, and 10 batches of 1 MB arrive in the first two seconds.
        adaptive.node_did(BATCH, 10 * MS, true);
        (0..10).for_each(|_| adaptive.arrived(BATCH));
        let at = |ms: u32| begin + ms * MS;
        assert_eq!(adaptive.tick(&backlog(0, 0), false, at(500)), None);
        // It was moved back at once, so twice the usual time has to pass.
        assert_eq!(adaptive.tick(&backlog(0, 0), false, at(1500)), None);
        let moved = adaptive.tick(&backlog(0, 0), false, at(2000));
        assert!(matches!(moved, Some(Move::Down { .. })), "{moved:?}");
        assert!(!adaptive.is_shared());
    }

    #[test]
    fn a_node_that_is_slower_than_what_comes_does_not() {
        let begin = Instant::now();
        let mut adaptive = pushed_back(begin);
        adaptive.node_did(BATCH, 100 * MS, true);
        for second in 1..100 {
            (0..10).for_each(|_| adaptive.arrived(BATCH));
            assert_eq!(adaptive.tick(&backlog(0, 0), false, begin + second * 1000 * MS), None);
        }
    }

    #[test]
    fn a_node_that_is_slower_than_the_host_does_not_while_the_stream_waits_for_the_stage() {
        let begin = Instant::now();
        let mut adaptive = pushed_back(begin);
        // Few bytes arrive, but only because the stream is full.
        adaptive.host_did(BATCH, MS, 1);
        adaptive.node_did(BATCH, 10 * MS, true);
        for second in 1..100 {
            let now = begin + second * 1000 * MS;
            assert_eq!(adaptive.tick(&backlog(0, 1), true, now), None);
        }
        // Another stage is the bottleneck.
        let now = begin + 101_000 * MS;
        let moved = adaptive.tick(&backlog(0, 0), true, now);
        assert!(matches!(moved, Some(Move::Down { .. })), "{moved:?}");
    }

    #[test]
    fn a_node_that_costs_more_than_it_saves_gets_nothing_but_probes() {
        let begin = Instant::now();
        let mut adaptive = pushed_back(begin);
        adaptive.host_did(BATCH, 10 * MS, 1);
        adaptive.node_did(BATCH, 10 * MS, true);
        adaptive.node_took(begin);
        adaptive.moved(BATCH, 9 * MS);
        assert!(adaptive.node_may_take(&backlog(9, 0), begin));
        (0..20).for_each(|_| adaptive.moved(BATCH, 11 * MS));
        assert!(!adaptive.node_may_take(&backlog(9, 0), begin));
        // The stage does not move down, although the node would keep up.
        let later = begin + 3000 * MS;
        assert_eq!(adaptive.tick(&backlog(0, 0), false, later), None);
        assert!(adaptive.node_may_take(&backlog(9, 0), later));
    }

    #[test]
    fn answers_that_come_together_do_not_make_a_node_fast() {
        let begin = Instant::now();
        let mut adaptive = pushed_back(begin);
        for _ in 0..10 {
            adaptive.node_did(BATCH, 800 * MS, false);
            (0..7).for_each(|_| adaptive.node_did(BATCH, Duration::ZERO, false));
        }
        // 8 batches in each 800 ms.
        let rate = adaptive.node.get().unwrap() / BATCH as f64;
        assert!((7.0..20.0).contains(&rate), "{rate}");
        // A slow node becomes fast as soon as it shows that.
        adaptive.node_did(BATCH, 10 * MS, true);
        assert_eq!(adaptive.node.get(), Some(100.0 * BATCH as f64));
    }

    #[test]
    fn moves_that_come_too_early_take_longer_each_time() {
        let begin = Instant::now();
        let mut adaptive = pushed_back(begin);
        let (mut now, mut holds) = (begin, Vec::new());
        for _ in 0..8 {
            let since = now;
            adaptive.node_did(BATCH, MS, true);
            while adaptive.is_shared() {
                now += 100 * MS;
                adaptive.tick(&backlog(0, 0), false, now);
            }
            holds.push((now - since).as_secs());
            assert!(adaptive.waited(60 * MS, now + 100 * MS).is_some());
        }
        assert_eq!(holds, [2, 4, 8, 16, 32, 32, 32, 32]);
    }

    #[test]
    fn a_slow_node_works_while_the_host_has_more_to_do() {
        let begin = Instant::now();
        let mut adaptive = pushed_back(begin);
        adaptive.host_did(BATCH, 10 * MS, 1);
        adaptive.node_did(BATCH, 40 * MS, true);
        adaptive.node_took(begin);
        let takes = |waiting, has| adaptive.node_may_take(&backlog(waiting, has), begin);
        // One batch takes the node as long as the host needs for four.
        assert!(!takes(3, 0) && takes(5, 0) && !takes(5, 1) && takes(9, 1));
        // The host has processed four by then, and eight if the node has one already.
        let before = |has| adaptive.bytes_before(&backlog(9, has)) / BATCH;
        assert_eq!((before(0), before(1)), (4, 8));
        // Not beyond the bound, however much waits.
        assert!(!takes(1000, 2));
        // A batch from time to time, to measure its rate.
        assert!(adaptive.node_may_take(&backlog(1, 0), begin + 2000 * MS));
    }
}
