//! Adaptive placement: which leg may take the next chunk, and what the controller is told.

use std::time::{Duration, Instant};

use crate::ahead::Ahead;
use crate::controller::{Controller, Decision, Epoch, Settings, Share, Work};
use crate::lane::Lane;
use crate::report::Decided;
use crate::{Executor, Leg};

/// An epoch is long enough to be measured: so long, and so many chunks.
const EPOCH: Duration = Duration::from_millis(20);
/// The first one, in which little is known and most to be lost, is short; each is twice as long as
/// the one before until they are as long as they should be.
const EPOCH_FIRST: Duration = Duration::from_millis(2);
const EPOCH_CHUNKS: u64 = 8;
/// And in so many parts, of which a probe is one.
const EPOCH_PARTS: u64 = 4;
/// The least that tells something of a leg is so many bytes, in at least two chunks and at most as
/// many as it takes at once: one alone shows its latency, not its rate.
const PART_BYTES: u64 = 1 << 20;
/// The weight of one chunk in what chunks are like.
const MEAN_WEIGHT: f64 = 1.0 / 32.0;
/// How much longer than an epoch a probe may last for what it is about.
const PROBE_PATIENCE: u32 = 25;

/// Asks the controller and obeys it.
#[derive(Debug)]
pub(crate) struct Pilot {
    controller: Controller,
    /// By the last decision that was not there to learn something.
    uses_device: bool,
    epoch: Option<Running>,
    /// What the chunks have been like lately.
    mean_bytes: f64,
    /// What they count as.
    chunk_bytes: u64,
    /// How long the next epoch lasts at the least.
    least: Duration,
    /// Bytes that both legs get done in the next epoch, by the last one.
    bytes: u64,
    /// Time that the controller knows of in which a leg has finished nothing yet.
    silent: [Duration; 2],
    /// Time without anything in flight.
    idle: Duration,
    /// Time spent opening the device.
    overhead: Duration,
}

/// An epoch under way.
#[derive(Debug)]
struct Running {
    decision: Decision,
    begun: Instant,
    /// How long it lasts at the least.
    least: Duration,
    /// What a leg is given at the least.
    part_bytes: u64,
    /// What a probe may still give to the leg that gets less.
    quota: f64,
    /// Chunks that it gave to it.
    probed: u64,
    idle: Duration,
    overhead: Duration,
    legs: [Mark; 2],
}

/// How far a leg was.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    chunks: u64,
    bytes: u64,
    busy: Duration,
}

impl Mark {
    fn of(lane: Option<&Lane>) -> Self {
        lane.map_or_else(Self::default, |lane| Self {
            chunks: lane.tally.chunks,
            bytes: lane.pace.so_far().0,
            busy: lane.pace.so_far().1,
        })
    }
}

impl Running {
    /// The leg that a probe gives its part to, if this is one of both legs.
    fn lesser(&self) -> Option<Leg> {
        let fraction = self.decision.fraction;
        let both = self.decision.probe && fraction > 0.0 && fraction < 1.0;
        both.then_some(if fraction < 0.5 {
            Leg::Device
        } else {
            Leg::Cpu
        })
    }
}

impl Pilot {
    pub(crate) fn new() -> Self {
        Self {
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
        self.idle += since.max(begun).elapsed();
    }
}

impl Executor {
    /// A chunk for a leg out of the queue that both take from, if the leg may have it.
    pub(crate) fn take_shared(&mut self, leg: Leg) -> Option<u64> {
        let place = *self.queues.shared.front()?;
        let bytes = self.window.get_mut(place)?.source_bytes;
        if self.health.is_out() || self.is_device_silent() {
            if leg == Leg::Device {
                return None;
            }
        } else {
            self.begin_epoch();
            if !self.may_take(leg, bytes) {
                return None;
            }
        }
        self.queues.shared.pop_front();
        self.queues.shared_bytes -= bytes as u64;
        if let Some(epoch) = self.pilot.as_mut().and_then(|pilot| pilot.epoch.as_mut())
            && epoch.lesser() == Some(leg)
        {
            epoch.quota -= bytes as f64;
            epoch.probed += 1;
        }
        Some(place)
    }

    /// Whether the decision in force lets a leg have the next chunk.
    ///
    /// A probe gives one leg its part at once and leaves the rest to the other. Otherwise both take
    /// what they can, and finish together.
    fn may_take(&self, leg: Leg, bytes: usize) -> bool {
        let Some(epoch) = self.pilot.as_ref().and_then(|pilot| pilot.epoch.as_ref()) else {
            return leg == Leg::Cpu;
        };
        let fraction = epoch.decision.fraction;
        if fraction <= 0.0 || fraction >= 1.0 {
            return (leg == Leg::Device) == (fraction >= 1.0);
        }
        if let Some(lesser) = epoch.lesser() {
            return leg != lesser || epoch.quota > 0.0;
        }
        let outstanding = |leg| self.lane(leg).map_or(0, |lane| lane.outstanding_bytes) as f64;
        let (cpu, device) = (outstanding(Leg::Cpu), outstanding(Leg::Device));
        let (cpu, device) = (
            Ahead::new(cpu, 1.0 - fraction),
            Ahead::new(device, fraction),
        );
        let (own, other) = match leg {
            Leg::Cpu => (cpu, device),
            Leg::Device => (device, cpu),
        };
        own.may_take(bytes as f64, &other, self.queues.shared_bytes as f64)
    }

    fn begin_epoch(&mut self) {
        let marks = [Leg::Cpu, Leg::Device].map(|leg| Mark::of(self.lane(leg)));
        let depth = self.lane(Leg::Device).map_or(1, Lane::depth) as u64;
        let Some(pilot) = self.pilot.as_mut().filter(|pilot| pilot.epoch.is_none()) else {
            return;
        };
        let at_once = (PART_BYTES / pilot.chunk_bytes).min(depth).max(2);
        let part_bytes = at_once * pilot.chunk_bytes;
        let bytes = pilot.bytes.max(EPOCH_PARTS * part_bytes);
        let work = Work {
            bytes,
            chunk_bytes: part_bytes,
        };
        let now = Instant::now();
        let since = now.saturating_duration_since(self.opened);
        let decision = pilot.controller.decide(since, work);
        if !decision.probe {
            pilot.uses_device = decision.fraction > 0.0;
        }
        self.log.decided(Decided {
            at_ns: since.as_nanos() as u64,
            fraction: decision.fraction,
            probe: decision.probe,
            reason: decision.reason.to_string(),
        });
        let lesser = decision.fraction.min(1.0 - decision.fraction);
        pilot.epoch = Some(Running {
            decision,
            begun: now,
            least: pilot.least,
            part_bytes,
            quota: lesser * bytes as f64,
            probed: 0,
            idle: pilot.idle,
            overhead: pilot.overhead,
            legs: marks,
        });
        self.follow_pilot();
    }

    /// Ends the epoch if it has lasted long enough, and tells the controller what came of it.
    pub(crate) fn end_epoch(&mut self) {
        let marks = [Leg::Cpu, Leg::Device].map(|leg| Mark::of(self.lane(leg)));
        let Some(epoch) = self.pilot.as_ref().and_then(|pilot| pilot.epoch.as_ref()) else {
            return;
        };
        // One odd epoch, however long, does not make a device that comes back a slow one.
        if self.is_device_silent() {
            return;
        }
        let done = |leg: Leg| marks[leg as usize].chunks - epoch.legs[leg as usize].chunks;
        if done(Leg::Cpu) + done(Leg::Device) < EPOCH_CHUNKS {
            return;
        }
        let now = Instant::now();
        let wall = now.saturating_duration_since(epoch.begun);
        let learned =
            (epoch.lesser()).is_none_or(|leg| epoch.quota <= 0.0 && done(leg) >= epoch.probed);
        if wall < epoch.least || (!learned && wall < EPOCH * PROBE_PATIENCE) {
            return;
        }
        let out = self.health.is_out();
        let legs = [Leg::Cpu, Leg::Device];
        let silence = legs.map(|leg| {
            (self.lane(leg).filter(|lane| lane.running() > 0))
                .map(|lane| now.saturating_duration_since(lane.last_progress()))
        });
        let since = now.saturating_duration_since(self.opened);
        let Some(pilot) = self.pilot.as_mut() else {
            return;
        };
        let Some(epoch) = pilot.epoch.take() else {
            return;
        };
        let [cpu, device] = legs.map(|leg| {
            pilot.share(
                leg,
                epoch.legs[leg as usize],
                marks[leg as usize],
                silence[leg as usize],
            )
        });
        let idle = pilot.idle - epoch.idle;
        let elapsed = wall.saturating_sub(idle).max(Duration::from_nanos(1));
        let bytes = cpu.bytes + device.bytes;
        let rate = bytes as f64 / elapsed.as_secs_f64();
        pilot.least = EPOCH.min(2 * epoch.least);
        pilot.bytes = (rate * pilot.least.as_secs_f64()) as u64;
        pilot.controller.observe(
            since,
            Epoch {
                fraction: if out { 0.0 } else { epoch.decision.fraction },
                cpu,
                device,
                overhead: pilot.overhead - epoch.overhead,
                elapsed,
                chunk_bytes: epoch.part_bytes,
            },
        );
    }
}

impl Pilot {
    /// What a leg did between two marks. `silence`: since when a chunk on it has not ended.
    fn share(&mut self, leg: Leg, from: Mark, to: Mark, silence: Option<Duration>) -> Share {
        let bytes = to.bytes - from.bytes;
        let known = &mut self.silent[leg as usize];
        if bytes > 0 {
            let busy = (to.busy - from.busy).saturating_sub(std::mem::take(known));
            return Share { bytes, busy };
        }
        let busy = silence.map_or(Duration::ZERO, |silence| silence.saturating_sub(*known));
        *known += busy;
        Share { bytes, busy }
    }
}
