//! When it is worth a little time to try what is not in use.

use std::fmt;
use std::time::Duration;

use super::Settings;

/// Decisions between two probes, whatever their kind and size, but for one that is repeated because
/// its result is not believed yet.
const SPACING: u32 = 8;

/// What a probe tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// The device gets one chunk while the CPU does the rest: is it (still) too slow?
    DeviceShare,
    /// The CPU gets one chunk while the device does the rest.
    CpuShare,
    /// The device alone, f = 1.
    DeviceAlone,
    /// The CPU alone, f = 0.
    CpuAlone,
}

impl Probe {
    pub(super) const ALL: [Self; 4] = [
        Self::DeviceShare,
        Self::CpuShare,
        Self::DeviceAlone,
        Self::CpuAlone,
    ];
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DeviceShare => "a device share",
            Self::CpuShare => "a cpu share",
            Self::DeviceAlone => "the device alone",
            Self::CpuAlone => "the cpu alone",
        })
    }
}

/// When a kind of probe is due.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Schedule {
    pub(super) due: Duration,
    /// How many in a row changed nothing.
    fruitless: u32,
    /// The last one found something that the next has to confirm.
    pub(super) unconfirmed: bool,
}

impl Schedule {
    /// After a probe that cost `cost_s` more than what is in use would have.
    ///
    /// The wait doubles while probes change nothing, and is never so short that probes like this one
    /// would cost more than their share of the time: half of that from the second fruitless one on.
    pub(super) fn after(
        &mut self,
        now: Duration,
        fruitful: bool,
        cost_s: f64,
        first_wait_s: f64,
        settings: &Settings,
    ) {
        self.unconfirmed = false;
        self.fruitless = if fruitful {
            0
        } else {
            self.fruitless.saturating_add(1)
        };
        let doublings = self.fruitless.saturating_sub(1);
        let times = f64::from(1_u32 << doublings.min(settings.probe_doublings));
        let share = settings.probe_share / if doublings > 0 { 2.0 } else { 1.0 };
        let wait_s = (first_wait_s * times).max(cost_s / share);
        self.due = now.saturating_add(seconds(wait_s));
    }

    /// Things have changed: back to the first interval, and due within it.
    pub(super) fn hasten(&mut self, now: Duration, first_wait_s: f64) {
        self.fruitless = 0;
        self.due = self.due.min(now.saturating_add(seconds(first_wait_s)));
    }

    /// What would be probed was just in use: nothing to learn for one interval.
    pub(super) fn postpone(&mut self, now: Duration, first_wait_s: f64) {
        self.fruitless = 0;
        self.due = now.saturating_add(seconds(first_wait_s));
    }
}

/// What probes have cost and may cost, over all sizes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Budget {
    earned_s: f64,
    spent_s: f64,
    since: u32,
    looked: bool,
}

impl Budget {
    /// Time has passed: so much of it may be spent.
    pub(super) fn earn(&mut self, elapsed_s: f64, share: f64) {
        self.earned_s += elapsed_s * share;
    }

    pub(super) fn spend(&mut self, cost_s: f64) {
        self.spent_s += cost_s;
    }

    /// Counts a decision.
    pub(super) fn decided(&mut self, probe: bool) {
        self.looked |= probe;
        self.since = if probe {
            0
        } else {
            self.since.saturating_add(1)
        };
    }

    /// Whether a probe may be made now. The very first is on credit: without it nothing would ever
    /// be learned of the device in a short stream.
    pub(super) fn allows(&self, cost_s: f64, repeated: bool) -> bool {
        let affordable = self.spent_s + cost_s <= self.earned_s;
        !self.looked || repeated || (self.since >= SPACING && affordable)
    }
}

/// A duration of so many seconds; the longest there is if they are too many or no number.
pub(super) fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value.max(0.0)).unwrap_or(Duration::MAX)
}
