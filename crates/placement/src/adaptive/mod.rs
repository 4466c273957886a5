//! Adaptive placement: which target may take the next chunk, and what the controller is told.
//!
//! 1. Time is cut into epochs of 2 ms at first and 20 ms later, each of at least eight chunks. At
//!    the beginning of one the [`controller`] decides which part of the bytes the device is to have.
//! 2. Within an epoch both targets take chunks from one queue. If the part is neither nothing nor
//!    all, a target may take the next chunk unless it would be longer at it than the other one at
//!    everything ([`lookahead`]). A probe gives one target its part first and leaves the rest to the
//!    other.
//! 3. At the end the controller is told what both finished ([`throughput`]) and in what time.

pub mod controller;
pub(crate) mod lookahead;
pub(crate) mod throughput;

use std::time::{Duration, Instant};

use overside_device::Clock;

use crate::Target;
use crate::report::DecisionRecord;
use controller::{Controller, Decision, Epoch, Settings, SideSample, Work};
use lookahead::Lookahead;

/// An epoch is long enough to be measured: so long, and so many chunks.
const EPOCH: Duration = Duration::from_millis(20);
/// The first one, in which little is known and most to be lost, is short; each is twice as long as
/// the one before until they are as long as they should be.
const EPOCH_FIRST: Duration = Duration::from_millis(2);
const EPOCH_CHUNKS: u64 = 8;
/// And in so many parts, of which a probe is one.
const EPOCH_PARTS: u64 = 4;
/// The least that tells something of a target is so many bytes, in at least two chunks and at most as
/// many as it takes at once: one alone shows its latency, not its rate.
const PART_BYTES: u64 = 1 << 20;
/// The weight of one chunk in what chunks are like.
const MEAN_WEIGHT: f64 = 1.0 / 32.0;
/// Epochs that a probe may last for what it is about.
const PROBE_TIMEOUT_EPOCHS: u32 = 25;

/// What is known of a target at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TargetState {
    /// Chunks whose results are its.
    pub(crate) chunks: u64,
    /// Bytes that it finished, and the time that they took, for telling its rate.
    pub(crate) bytes: u64,
    pub(crate) busy: Duration,
    /// Bytes that it has taken and not finished.
    pub(crate) outstanding_bytes: u64,
    /// Jobs that it can have in flight.
    pub(crate) depth: usize,
    /// Since when nothing came back, if it has anything.
    pub(crate) silent_since: Option<Instant>,
}

/// Follows the controller.
#[derive(Debug)]
pub(crate) struct AdaptiveScheduler {
    clock: Clock,
    opened: Instant,
    controller: Controller,
    /// By the last decision that was not there to learn something.
    uses_device: bool,
    epoch: Option<RunningEpoch>,
    /// What the chunks have been like lately.
    mean_bytes: f64,
    /// What they count as.
    chunk_bytes: u64,
    /// How long the next epoch lasts at the least.
    least: Duration,
    /// Bytes that both targets get done in the next epoch, by the last one.
    bytes: u64,
    /// Time that the controller knows of in which a target has finished nothing yet.
    silent: [Duration; 2],
    /// Time without anything in flight.
    idle: Duration,
    /// Time spent opening the device.
    overhead: Duration,
}

/// An epoch under way.
#[derive(Debug)]
struct RunningEpoch {
    decision: Decision,
    begun: Instant,
    /// How long it lasts at the least.
    least: Duration,
    /// What a target is given at the least.
    part_bytes: u64,
    /// What a probe may still give to the target that gets less.
    quota: f64,
    /// Chunks that it gave to it.
    probed: u64,
    idle: Duration,
    overhead: Duration,
    states: [TargetState; 2],
}

impl RunningEpoch {
    /// The target that a probe gives its part to, if this is one of both targets.
    fn lesser(&self) -> Option<Target> {
        let fraction = self.decision.fraction;
        let both = self.decision.probe && fraction > 0.0 && fraction < 1.0;
        both.then_some(if fraction < 0.5 {
            Target::Device
        } else {
            Target::Cpu
        })
    }
}

impl AdaptiveScheduler {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            opened: clock.now(),
            clock,
            controller: Controller::new(Settings::default()),
            uses_device: false,
            epoch: None,
            mean_bytes: 0.0,
            chunk_bytes: 1,
            least: EPOCH_FIRST,
            bytes: 0,
            silent: [Duration::ZERO; 2],
            idle: Duration::ZERO,
            overhead: Duration::ZERO,
        }
    }

    /// A chunk is to be placed. What varies from chunk to chunk counts as one size; other sizes
    /// altogether are another matter.
    pub(crate) fn expect(&mut self, bytes: usize) {
        let bytes = bytes as f64;
        let weight = if self.mean_bytes > 0.0 {
            MEAN_WEIGHT
        } else {
            1.0
        };
        self.mean_bytes += weight * (bytes - self.mean_bytes);
        let counts_as = self.chunk_bytes as f64;
        if self.mean_bytes > 2.0 * counts_as || self.mean_bytes < counts_as / 2.0 {
            self.chunk_bytes = (self.mean_bytes as u64).max(1);
        }
    }

    /// Whether the device gets chunks for more than to see how fast it is.
    pub(crate) fn uses_device(&self) -> bool {
        self.uses_device
    }

    /// Opening the device took so long.
    pub(crate) fn opened(&mut self, took: Duration) {
        self.overhead += took;
    }

    /// Nothing was in flight since then.
    pub(crate) fn idled(&mut self, since: Instant) {
        let begun = self.epoch.as_ref().map_or(since, |epoch| epoch.begun);
        self.idle += self.clock.since(since.max(begun));
    }

    /// Begins an epoch if none is under way, and says what was decided for it.
    pub(crate) fn begin_epoch(&mut self, states: &[TargetState; 2]) -> Option<DecisionRecord> {
        if self.epoch.is_some() {
            return None;
        }
        let depth = states[Target::Device as usize].depth.max(1) as u64;
        let at_once = (PART_BYTES / self.chunk_bytes).min(depth).max(2);
        let part_bytes = at_once * self.chunk_bytes;
        let bytes = self.bytes.max(EPOCH_PARTS * part_bytes);
        let work = Work {
            bytes,
            chunk_bytes: part_bytes,
        };
        let now = self.clock.now();
        let since = now.saturating_duration_since(self.opened);
        let decision = self.controller.decide(since, work);
        if !decision.probe {
            self.uses_device = decision.fraction > 0.0;
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
        Some(DecisionRecord {
            at_ns: since.as_nanos() as u64,
            fraction: decision.fraction,
            probe: decision.probe,
            reason: decision.reason.to_string(),
        })
    }

    /// Whether the decision in force lets a target have the next chunk, of `waiting_bytes`.
    ///
    /// A probe gives one target its part at once and leaves the rest to the other. Otherwise both
    /// take what they can, and finish together.
    pub(crate) fn may_take(
        &self,
        target: Target,
        bytes: u64,
        waiting_bytes: u64,
        states: &[TargetState; 2],
    ) -> bool {
        let Some(epoch) = &self.epoch else {
            return target == Target::Cpu;
        };
        let fraction = epoch.decision.fraction;
        if fraction <= 0.0 || fraction >= 1.0 {
            return (target == Target::Device) == (fraction >= 1.0);
        }
        if let Some(lesser) = epoch.lesser() {
            return target != lesser || epoch.quota > 0.0;
        }
        let ahead = |target: Target| {
            let rate = match target {
                Target::Cpu => 1.0 - fraction,
                Target::Device => fraction,
            };
            Lookahead::new(states[target as usize].outstanding_bytes as f64, rate)
        };
        ahead(target).may_take(bytes as f64, &ahead(target.other()), waiting_bytes as f64)
    }

    /// A target took a chunk that was for both.
    pub(crate) fn took(&mut self, target: Target, bytes: u64) {
        if let Some(epoch) = &mut self.epoch
            && epoch.lesser() == Some(target)
        {
            epoch.quota -= bytes as f64;
            epoch.probed += 1;
        }
    }

    /// Ends the epoch if it has lasted long enough, and tells the controller what came of it.
    /// `is_device_out`: the device is not used, because it failed.
    pub(crate) fn end_epoch(&mut self, states: &[TargetState; 2], is_device_out: bool) {
        let Some(epoch) = &self.epoch else {
            return;
        };
        let done =
            |target: Target| states[target as usize].chunks - epoch.states[target as usize].chunks;
        if done(Target::Cpu) + done(Target::Device) < EPOCH_CHUNKS {
            return;
        }
        let now = self.clock.now();
        let wall = now.saturating_duration_since(epoch.begun);
        let learned = (epoch.lesser())
            .is_none_or(|target| epoch.quota <= 0.0 && done(target) >= epoch.probed);
        if wall < epoch.least || (!learned && wall < EPOCH * PROBE_TIMEOUT_EPOCHS) {
            return;
        }
        let since = now.saturating_duration_since(self.opened);
        let Some(epoch) = self.epoch.take() else {
            return;
        };
        let [cpu, device] = [Target::Cpu, Target::Device].map(|target| {
            let (from, to) = (epoch.states[target as usize], states[target as usize]);
            self.sample(target, from, to, now)
        });
        let idle = self.idle - epoch.idle;
        let elapsed = wall.saturating_sub(idle).max(Duration::from_nanos(1));
        let bytes = cpu.bytes + device.bytes;
        let rate = bytes as f64 / elapsed.as_secs_f64();
        self.least = EPOCH.min(2 * epoch.least);
        self.bytes = (rate * self.least.as_secs_f64()) as u64;
        let epoch = Epoch {
            fraction: if is_device_out {
                0.0
            } else {
                epoch.decision.fraction
            },
            cpu,
            device,
            overhead: self.overhead - epoch.overhead,
            elapsed,
            chunk_bytes: epoch.part_bytes,
        };
        self.controller.observe(since, epoch);
    }

    /// What a target did between two moments, the second of which is now.
    fn sample(
        &mut self,
        target: Target,
        from: TargetState,
        to: TargetState,
        now: Instant,
    ) -> SideSample {
        let bytes = to.bytes - from.bytes;
        let known = &mut self.silent[target as usize];
        if bytes > 0 {
            let busy = (to.busy - from.busy).saturating_sub(std::mem::take(known));
            return SideSample { bytes, busy };
        }
        let silence = to
            .silent_since
            .map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let busy = silence.saturating_sub(*known);
        *known += busy;
        SideSample { bytes, busy }
    }
}
