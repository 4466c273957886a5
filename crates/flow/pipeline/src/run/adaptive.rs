//! `adaptive` between the host and a node: the node does all as long as it keeps up, and the host
//! takes part when it does not.
//!
//! 1. *On the node*: all batches are the node's. If one has waited longer than the bound, in the stage's
//!    queue and in the node's, the stage is pushed back to the host.
//! 2. *Shared*: the host takes what waits. The node goes on with as much as it does within the bound, and
//!    with nothing that would keep it busy for longer than the host needs for all that waits (list
//!    scheduling, as between the CPU and a device). So the node never rests while it is of use. One
//!    that is too slow for that gets a batch now and then all the same, so how fast it is stays known.
//!    It gets the batch that the host would come to when the node is done with it, not the oldest one: results leave in
//!    order, and behind a batch that is late everything waits. For longer than the bound nothing does: the host repeats
//!    that batch. A node to which moving a batch costs the host as much time as doing it is of no use.
//! 3. When the node's rate exceeds what comes by a margin, for the hold time, the stage goes down to the
//!    node again. Not to one that is slower than the host while this stage is what holds the stream up:
//!    then little comes because of that. Each time that this turns out wrong within a few hold times, the next one comes
//!    after twice the time.

use std::time::{Duration, Instant};

use overside_placement::Lookahead;

/// The least time between being pushed back and going down again, and the most.
const HOLD: Duration = Duration::from_secs(1);
const HOLD_MAX: Duration = Duration::from_secs(32);
/// A stage that is pushed back sooner than so many hold times went down too early.
const EARLY: u32 = 4;
/// The node has to be so much faster than what comes.
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
    /// Since when the host takes part, if it does.
    shared_since: Option<Instant>,
    down_since: Instant,
    hold: Duration,
    /// Rate of the node while it is busy, and of all host threads that work on this stage together.
    node: Rate,
    host: Rate,
    /// Rate at which one thread of the host does batches, and at which it moves them to the node
    /// and back.
    doing: Rate,
    moving: Rate,
    /// Bytes that came since then.
    arrived: (Instant, u64),
    /// Number of ticks since then, and of those in which the stream was full while this stage had
    /// work.
    looked: u32,
    holding_up: u32,
    last_node: Instant,
}

/// Work of one stage that is not done, on the host and on the node.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backlog {
    /// Bytes that wait for whoever takes them.
    pub waiting_bytes: u64,
    /// Bytes of the next batch.
    pub next_bytes: u64,
    /// Bytes that the node has.
    pub node_bytes: u64,
    /// Batches that the node has.
    pub node_batches: usize,
    /// Bytes that the host works on.
    pub host_bytes: u64,
}

impl Backlog {
    /// Returns `true` if there are bytes that wait or that the host or the node works on.
    fn is_busy(&self) -> bool {
        self.waiting_bytes + self.node_bytes + self.host_bytes > 0
    }
}

/// Bytes, and the time that they took; those of the last batches count most. Sums, because answers that come back
/// together have a time only together.
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

    /// Bytes a second, once there was one.
    fn get(&self) -> Option<f64> {
        (self.bytes > 0.0).then(|| self.bytes / self.seconds.max(1e-9))
    }
}

/// Change of a stage's placement, with the measurement that caused it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Move {
    /// Back to the host: a batch has waited so long.
    Back(Duration),
    /// Down to the node, which does so many bytes a second, and so many come.
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

    /// A batch came.
    pub(crate) fn arrived(&mut self, bytes: u64) {
        self.arrived.1 += bytes;
    }

    /// The host did so many bytes in that time of one thread, while so many threads were at it.
    pub(crate) fn host_did(&mut self, bytes: u64, took: Duration, threads: usize) {
        self.doing.add(bytes, took);
        let threads = u32::try_from(threads.max(1)).unwrap_or(u32::MAX);
        self.host.add(bytes, took / threads);
    }

    /// The node did so many bytes in that time since the last ones, or since it got them. `is_alone`: it had nothing else;
    /// that tells how fast it is now whatever it was before.
    pub(crate) fn node_did(&mut self, bytes: u64, took: Duration, is_alone: bool) {
        if is_alone {
            self.node = Rate::default();
        }
        self.node.add(bytes, took);
    }

    /// Moving so many bytes to the node and their results back took that CPU time of the host.
    pub(crate) fn moved(&mut self, bytes: u64, cpu: Duration) {
        self.moving.add(bytes, cpu);
    }

    /// A batch has waited so long for the node, or waits still.
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

    /// Looks whether the node would keep up alone. `is_full`: the stream takes no more batches now.
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

    /// The bytes that wait before the batch that the node should take: what the host does until the node is done
    /// with it.
    pub(crate) fn bytes_before(&self, backlog: &Backlog) -> u64 {
        let rates = self.node.get().zip(self.host.get());
        let Some((node, host)) = rates.filter(|_| self.is_shared()) else {
            return 0;
        };
        let until_s = (backlog.node_bytes + backlog.next_bytes) as f64 / node;
        (until_s * host) as u64
    }

    /// The node took a batch.
    pub(crate) fn node_took(&mut self, now: Instant) {
        self.last_node = now;
    }

    fn is_worth(&self, backlog: &Backlog) -> bool {
        let Some(node_rate) = self.node.get() else {
            return backlog.node_batches < 2;
        };
        let outstanding_s = backlog.node_bytes as f64 / node_rate;
        // One that it works on and one behind it are always within the bound.
        let is_within = backlog.node_batches < 2 || outstanding_s <= self.delay_max.as_secs_f64();
        let Some(host_rate) = self.host.get() else {
            return is_within;
        };
        let node = Lookahead::new(backlog.node_bytes as f64, node_rate);
        let host = Lookahead::new(backlog.host_bytes as f64, host_rate);
        let waiting = backlog.waiting_bytes as f64;
        is_within && self.saves_time() && node.may_take(backlog.next_bytes as f64, &host, waiting)
    }

    /// Returns `true` if moving a batch costs the host less time than doing it, or if this is not
    /// known yet.
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

    /// A stage whose batch waited too long at that moment.
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
        // 100 MB/s, and 10 batches of 1 MB come in the first two seconds.
        adaptive.node_did(BATCH, 10 * MS, true);
        (0..10).for_each(|_| adaptive.arrived(BATCH));
        let at = |ms: u32| begin + ms * MS;
        assert_eq!(adaptive.tick(&backlog(0, 0), false, at(500)), None);
        // It went back at once after it began, so twice as long as usual has to pass.
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
            assert_eq!(
                adaptive.tick(&backlog(0, 0), false, begin + second * 1000 * MS),
                None
            );
        }
    }

    #[test]
    fn a_node_that_is_slower_than_the_host_does_not_while_the_stream_waits_for_the_stage() {
        let begin = Instant::now();
        let mut adaptive = pushed_back(begin);
        // Little comes, but only because the stream is full.
        adaptive.host_did(BATCH, MS, 1);
        adaptive.node_did(BATCH, 10 * MS, true);
        for second in 1..100 {
            let now = begin + second * 1000 * MS;
            assert_eq!(adaptive.tick(&backlog(0, 1), true, now), None);
        }
        // Another stage is what it waits for.
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
        // Nor does the stage go down, although the node would keep up.
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
        // 8 batches each 800 ms.
        let rate = adaptive.node.get().unwrap() / BATCH as f64;
        assert!((7.0..20.0).contains(&rate), "{rate}");
        // And one that was slow is fast as soon as it shows that.
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
        // One batch takes it as long as the host needs for four.
        assert!(!takes(3, 0) && takes(5, 0) && !takes(5, 1) && takes(9, 1));
        // The host has done four by then, and eight if the node has one already.
        let before = |has| adaptive.bytes_before(&backlog(9, has)) / BATCH;
        assert_eq!((before(0), before(1)), (4, 8));
        // Not beyond the bound, however much waits.
        assert!(!takes(1000, 2));
        // Now and then one, to see how fast it is.
        assert!(adaptive.node_may_take(&backlog(1, 0), begin + 2000 * MS));
    }
}
