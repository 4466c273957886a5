//! Adaptive placement: which target may take the next chunk, and the observations for the controller.
//!
//! A [`Balance`] is between one target and the devices behind it: with one device there is one, between
//! the CPU and the device; with a card's cores and its engine there are two, between the CPU and the
//! card, and on the card between its cores and its engine. For each:
//!
//! 1. Time is cut into epochs of 2 ms at first and 20 ms later, each of at least eight chunks. At
//!    the beginning of one the [`controller`] decides which part of the bytes the other side, the devices
//!    behind, is to have.
//! 2. Within an epoch both sides take chunks from one queue. If the part is neither nothing nor
//!    all, a side may take the next chunk unless it would be longer at it than the other one at
//!    everything ([`lookahead`]). A probe gives one side its part first and leaves the rest to the
//!    other.
//! 3. At the end the controller gets the work that both finished ([`throughput`]) and the time.

pub(crate) mod chunk_size;
pub mod controller;
pub(crate) mod lookahead;
pub(crate) mod throughput;

use std::ops::Range;
use std::time::{Duration, Instant};

use overside_device::Clock;

use crate::Target;
use crate::policy::TARGETS_MAX;
use crate::report::DecisionRecord;
use controller::{Controller, Decision, Epoch, Settings, SideSample, Work};
use lookahead::Lookahead;

/// Duration of an epoch, long enough to be measured; it has at least `EPOCH_CHUNKS` chunks.
const EPOCH: Duration = Duration::from_millis(20);
/// Duration of the first epoch, which is short because little is known and most to be lost; each is
/// twice as long as the one before until they are as long as they should be.
const EPOCH_FIRST: Duration = Duration::from_millis(2);
const EPOCH_CHUNKS: u64 = 8;
/// Least number of parts in an epoch, of which a probe is one.
const EPOCH_PARTS: u64 = 4;
/// Least number of bytes that measure a target, in at least two chunks and at most as many as it
/// takes at once: a single one shows its latency, not its rate.
const PART_BYTES: u64 = 1 << 20;
/// Weight of one chunk in the mean chunk.
const MEAN_WEIGHT: f64 = 1.0 / 32.0;
/// Maximum number of epochs that a probe may last.
const PROBE_TIMEOUT_EPOCHS: u32 = 25;

/// State of a target at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TargetState {
    /// Number of chunks whose results came from the target.
    pub(crate) chunks: u64,
    /// Bytes that it finished, and the time that they took, for telling its rate.
    pub(crate) bytes: u64,
    pub(crate) busy: Duration,
    /// Bytes that it has taken and not finished.
    pub(crate) outstanding_bytes: u64,
    /// Jobs that it can have in flight.
    pub(crate) depth: usize,
    /// Time since when no result came back, if the target has chunks.
    pub(crate) silent_since: Option<Instant>,
    /// `true` if it has been silent for longer than expected.
    pub(crate) is_silent: bool,
    /// `true` if it is not used, because it failed or is missing.
    pub(crate) is_out: bool,
}

impl TargetState {
    /// State of a target that does not exist.
    pub(crate) const NONE: Self = Self {
        chunks: 0,
        bytes: 0,
        busy: Duration::ZERO,
        outstanding_bytes: 0,
        depth: 0,
        silent_since: None,
        is_silent: false,
        is_out: true,
    };

    /// Returns `true` if the target takes no chunks for now.
    fn is_resting(&self) -> bool {
        self.is_out || self.is_silent
    }
}

/// States of all targets of a stream, indexed by [`Target::index`].
pub(crate) type TargetStates = [TargetState; TARGETS_MAX];

/// Follows the controllers.
#[derive(Debug)]
pub(crate) struct AdaptiveScheduler {
    clock: Clock,
    opened: Instant,
    /// Each between its first target and those behind that.
    balances: Vec<Balance>,
    /// Recent mean of the chunks' lengths in bytes, exponentially weighted.
    mean_bytes: f64,
    /// Chunk length in bytes that epochs are planned with. It follows the mean only when that has
    /// doubled or halved.
    chunk_bytes: u64,
}

/// Divides chunks between one target and the devices behind it.
#[derive(Debug)]
struct Balance {
    /// The places of all its targets; the first one is one side, the rest are the other.
    targets: Range<usize>,
    controller: Controller,
    /// Value of the last decision that was not a measurement.
    uses_rest: bool,
    epoch: Option<RunningEpoch>,
    /// Shortest duration of the next epoch.
    least: Duration,
    /// Bytes that both sides get done in the next epoch, by the last one.
    bytes: u64,
    /// Time that the controller knows of in which a target has finished nothing yet.
    silent: [Duration; TARGETS_MAX],
    /// Time in which none of its targets had anything in flight.
    idle: Duration,
    /// Time spent opening devices of the other side.
    overhead: Duration,
}

/// A side of a balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    /// The balance's first target.
    First,
    /// The devices behind the first one.
    Rest,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::First => Self::Rest,
            Self::Rest => Self::First,
        }
    }
}

/// An epoch under way.
#[derive(Debug)]
struct RunningEpoch {
    decision: Decision,
    begun: Instant,
    /// Shortest duration of this epoch.
    least: Duration,
    /// Smallest number of bytes that a side is given in this epoch.
    part_bytes: u64,
    /// Bytes that a probe may still give to the side that gets less.
    quota: f64,
    /// Number of chunks that the probe gave to that side.
    probed: u64,
    idle: Duration,
    overhead: Duration,
    states: TargetStates,
}

impl RunningEpoch {
    /// The side that a probe gives its part to, if this is one of both sides.
    fn lesser(&self) -> Option<Side> {
        let fraction = self.decision.fraction;
        let both = self.decision.probe && fraction > 0.0 && fraction < 1.0;
        both.then_some(if fraction < 0.5 { Side::Rest } else { Side::First })
    }
}

impl AdaptiveScheduler {
    /// Makes the placement between the targets with these indices.
    pub(crate) fn new(clock: Clock, targets: Range<usize>) -> Self {
        let last = targets.end.saturating_sub(1);
        Self {
            opened: clock.now(),
            clock,
            balances: (targets.start..last).map(|first| Balance::new(first..targets.end)).collect(),
            mean_bytes: 0.0,
            chunk_bytes: 1,
        }
    }

    /// Prepares for a chunk to be placed. Chunk sizes that vary slightly count as one size; a very
    /// different size starts a new measurement.
    pub(crate) fn expect(&mut self, bytes: usize) {
        let bytes = bytes as f64;
        let weight = if self.mean_bytes > 0.0 { MEAN_WEIGHT } else { 1.0 };
        self.mean_bytes += weight * (bytes - self.mean_bytes);
        let counts_as = self.chunk_bytes as f64;
        if self.mean_bytes > 2.0 * counts_as || self.mean_bytes < counts_as / 2.0 {
            self.chunk_bytes = (self.mean_bytes as u64).max(1);
        }
    }

    /// Returns `true` if devices get chunks for more than measuring their rates.
    pub(crate) fn uses_device(&self) -> bool {
        (self.balances.first()).is_none_or(|balance| balance.uses_rest || balance.targets.start > 0)
    }

    /// The part of the bytes that is for other targets than the first.
    pub(crate) fn fraction(&self) -> f64 {
        let epoch = self.balances.first().and_then(|balance| balance.epoch.as_ref());
        epoch.map_or(0.0, |epoch| epoch.decision.fraction)
    }

    /// Records the time that opening a device took.
    pub(crate) fn opened(&mut self, target: Target, took: Duration) {
        for balance in &mut self.balances {
            if balance.side(target) == Some(Side::Rest) {
                balance.overhead += took;
            }
        }
    }

    /// A target begins to work. `idle_since`: since when the targets from a place on had nothing in
    /// flight, if that was so.
    pub(crate) fn idled(&mut self, target: Target, idle_since: impl Fn(usize) -> Option<Instant>) {
        for balance in &mut self.balances {
            if balance.side(target).is_some()
                && let Some(since) = idle_since(balance.targets.start)
            {
                let begun = balance.epoch.as_ref().map_or(since, |epoch| epoch.begun);
                balance.idle += self.clock.since(since.max(begun));
            }
        }
    }

    /// Begins an epoch for each balance without one, and returns the decisions.
    pub(crate) fn begin_epochs(&mut self, states: &TargetStates) -> Vec<DecisionRecord> {
        let mut decided = Vec::new();
        if self.balances.iter().any(|balance| balance.epoch.is_none()) {
            let now = self.clock.now();
            for balance in &mut self.balances {
                decided.extend(balance.begin_epoch(states, self.chunk_bytes, self.opened, now));
            }
        }
        decided
    }

    /// Returns `true` if the current decisions allow a target to take the next chunk of the `waiting_bytes`.
    ///
    /// A probe gives one side its part at once and leaves the rest to the other. Otherwise both take chunks
    /// as fast as they can, and finish together.
    pub(crate) fn may_take(
        &self,
        target: Target,
        bytes: u64,
        waiting_bytes: u64,
        states: &TargetStates,
    ) -> bool {
        let first = (self.balances.first()).map_or(0, |balance| balance.targets.start);
        if target.index() < first {
            // The CPU, where all is for devices and none is there.
            return states[first..].iter().all(TargetState::is_resting);
        }
        let mut waiting = waiting_bytes as f64;
        for balance in &self.balances {
            let Some(side) = balance.side(target) else {
                break;
            };
            if !balance.may_take(side, bytes as f64, waiting, states) {
                return false;
            }
            waiting *= balance.fraction_of_rest();
        }
        true
    }

    /// A target took a chunk that was for all.
    pub(crate) fn took(&mut self, target: Target, bytes: u64) {
        for balance in &mut self.balances {
            let Some(side) = balance.side(target) else {
                continue;
            };
            if let Some(epoch) = &mut balance.epoch
                && epoch.lesser() == Some(side)
            {
                epoch.quota -= bytes as f64;
                epoch.probed += 1;
            }
        }
    }

    /// Ends the epochs that have lasted long enough, and reports their results to the controllers.
    pub(crate) fn end_epochs(&mut self, states: &TargetStates) {
        let now = self.clock.now();
        let since = now.saturating_duration_since(self.opened);
        for balance in &mut self.balances {
            balance.end_epoch(states, now, since);
        }
    }
}

impl Balance {
    fn new(targets: Range<usize>) -> Self {
        Self {
            targets,
            controller: Controller::new(Settings::default()),
            uses_rest: false,
            epoch: None,
            least: EPOCH_FIRST,
            bytes: 0,
            silent: [Duration::ZERO; TARGETS_MAX],
            idle: Duration::ZERO,
            overhead: Duration::ZERO,
        }
    }

    /// The side that a target is on, if it is on any.
    fn side(&self, target: Target) -> Option<Side> {
        let place = target.index();
        match place == self.targets.start {
            true => Some(Side::First),
            false => self.targets.contains(&place).then_some(Side::Rest),
        }
    }

    /// The places of a side's targets.
    fn places(&self, side: Side) -> Range<usize> {
        let behind = self.targets.start + 1;
        match side {
            Side::First => self.targets.start..behind,
            Side::Rest => behind..self.targets.end,
        }
    }

    fn of<'a>(&self, states: &'a TargetStates, side: Side) -> &'a [TargetState] {
        &states[self.places(side)]
    }

    /// The part of the waiting bytes that is for the other side than the first target.
    fn fraction_of_rest(&self) -> f64 {
        match &self.epoch {
            Some(epoch) if !epoch.decision.probe => epoch.decision.fraction,
            _ => 1.0,
        }
    }

    /// Returns `true` if all targets of one side are idle, so that there is nothing to decide.
    fn is_one_sided(&self, states: &TargetStates) -> bool {
        [Side::First, Side::Rest]
            .into_iter()
            .any(|side| self.of(states, side).iter().all(TargetState::is_resting))
    }

    fn begin_epoch(
        &mut self,
        states: &TargetStates,
        chunk_bytes: u64,
        opened: Instant,
        now: Instant,
    ) -> Option<DecisionRecord> {
        if self.epoch.is_some() || self.is_one_sided(states) {
            return None;
        }
        let depth: usize = (self.of(states, Side::Rest).iter()).map(|state| state.depth).sum();
        let at_once = (PART_BYTES / chunk_bytes).min(depth.max(1) as u64).max(2);
        let part_bytes = at_once * chunk_bytes;
        let bytes = self.bytes.max(EPOCH_PARTS * part_bytes);
        let work = Work { bytes, chunk_bytes: part_bytes };
        let since = now.saturating_duration_since(opened);
        let decision = self.controller.decide(since, work);
        if !decision.probe {
            self.uses_rest = decision.fraction > 0.0;
        }
        let lesser = decision.fraction.min(1.0 - decision.fraction);
        self.epoch = Some(RunningEpoch {
            decision,
            begun: now,
            least: self.least,
            part_bytes,
            quota: lesser * bytes as f64,
            probed: 0,
            idle: self.idle,
            overhead: self.overhead,
            states: *states,
        });
        let [first, rest] = [self.targets.start, self.targets.start + 1].map(Target::at);
        let rest = match self.targets.len() {
            2 => rest.to_string(),
            _ => format!("{rest} and others"),
        };
        Some(DecisionRecord {
            at_ns: since.as_nanos() as u64,
            target: first,
            fraction: decision.fraction,
            chunk_bytes: None,
            probe: decision.probe,
            reason: decision.reason.between(&first.to_string(), &rest),
        })
    }

    fn may_take(&self, side: Side, bytes: f64, waiting: f64, states: &TargetStates) -> bool {
        if self.is_one_sided(states) {
            return true;
        }
        let Some(epoch) = &self.epoch else {
            return side == Side::First;
        };
        let fraction = epoch.decision.fraction;
        if fraction <= 0.0 || fraction >= 1.0 {
            return (side == Side::Rest) == (fraction >= 1.0);
        }
        if let Some(lesser) = epoch.lesser() {
            return side != lesser || epoch.quota > 0.0;
        }
        let ahead = |side: Side| {
            let rate = match side {
                Side::First => 1.0 - fraction,
                Side::Rest => fraction,
            };
            let states = self.of(states, side).iter();
            let outstanding: u64 = states.map(|state| state.outstanding_bytes).sum();
            Lookahead::new(outstanding as f64, rate)
        };
        ahead(side).may_take(bytes, &ahead(side.other()), waiting)
    }

    fn end_epoch(&mut self, states: &TargetStates, now: Instant, since: Duration) {
        let Some(epoch) = &self.epoch else {
            return;
        };
        // One odd epoch, however long, does not make a device that comes back a slow one.
        if states[self.targets.clone()].iter().any(|state| state.is_silent) {
            return;
        }
        let done = |side: Side| -> u64 {
            (self.places(side)).map(|place| states[place].chunks - epoch.states[place].chunks).sum()
        };
        if done(Side::First) + done(Side::Rest) < EPOCH_CHUNKS {
            return;
        }
        let wall = now.saturating_duration_since(epoch.begun);
        let learned =
            (epoch.lesser()).is_none_or(|side| epoch.quota <= 0.0 && done(side) >= epoch.probed);
        if wall < epoch.least || (!learned && wall < EPOCH * PROBE_TIMEOUT_EPOCHS) {
            return;
        }
        let Some(epoch) = self.epoch.take() else {
            return;
        };
        let [first, rest] =
            [Side::First, Side::Rest].map(|side| self.sample(side, &epoch.states, states, now));
        let idle = self.idle - epoch.idle;
        let elapsed = wall.saturating_sub(idle).max(Duration::from_nanos(1));
        let rate = (first.bytes + rest.bytes) as f64 / elapsed.as_secs_f64();
        self.least = EPOCH.min(2 * epoch.least);
        self.bytes = (rate * self.least.as_secs_f64()) as u64;
        let is_out = |side: Side| self.of(states, side).iter().all(|state| state.is_out);
        let fraction = match (is_out(Side::First), is_out(Side::Rest)) {
            (_, true) => 0.0,
            (true, false) => 1.0,
            (false, false) => epoch.decision.fraction,
        };
        let epoch = Epoch {
            fraction,
            cpu: first,
            device: rest,
            overhead: self.overhead - epoch.overhead,
            elapsed,
            chunk_bytes: epoch.part_bytes,
        };
        self.controller.observe(since, epoch);
    }

    /// Returns the work of a side between two states, the second of which is of now. Its targets
    /// work at the same time, so the side's time is that of its slowest target.
    fn sample(
        &mut self,
        side: Side,
        from: &TargetStates,
        to: &TargetStates,
        now: Instant,
    ) -> SideSample {
        let mut all = SideSample::default();
        for place in self.places(side) {
            let one = self.sample_of(place, &from[place], &to[place], now);
            all.bytes += one.bytes;
            all.busy = all.busy.max(one.busy);
        }
        all
    }

    fn sample_of(
        &mut self,
        place: usize,
        from: &TargetState,
        to: &TargetState,
        now: Instant,
    ) -> SideSample {
        let bytes = to.bytes - from.bytes;
        let known = &mut self.silent[place];
        if bytes > 0 {
            let busy = (to.busy - from.busy).saturating_sub(std::mem::take(known));
            return SideSample { bytes, busy };
        }
        let silence =
            to.silent_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let busy = silence.saturating_sub(*known);
        *known += busy;
        SideSample { bytes, busy }
    }
}
