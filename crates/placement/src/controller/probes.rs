//! When it is worth a little time to try what is not in use.

use std::fmt;
use std::time::Duration;

use super::Settings;

/// Decisions between two probes, whatever their kind and size, but for one that is repeated because
/// its result is not believed yet.
const SPACING: u32 = 8;

/// The part of their share that probes of a leg alone may cost.
const ALONE_PART: f64 = 0.1;

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
    /// The last one found something that the next has to confirm.
    pub(super) unconfirmed: bool,
}

impl Schedule {
    /// Not before so many seconds have passed.
    pub(super) fn postpone(&mut self, now: Duration, wait_s: f64) {
        self.unconfirmed = false;
        self.due = now.saturating_add(seconds(wait_s));
    }

    /// Within so many seconds.
    pub(super) fn hasten(&mut self, now: Duration, wait_s: f64) {
        self.due = self.due.min(now.saturating_add(seconds(wait_s)));
    }
}

/// Seconds from a probe that cost `cost_s` to the next one like it, when nothing has changed for
/// `quiet_s`.
///
/// Probes may cost their share of the time, no more. Beyond that, what has been quiet for long will
/// change late: with one change after a time `s`, a gain of half the time if it is noticed, and
/// probes every `w`, probes cost `c s / w` and noticing late costs `w / 4` in the mean, and the sum
/// is least at `w = sqrt(4 c s)`. So probes back off with the root of the quiet time.
///
/// A leg that works already only has its rate alone to tell, which seldom changes more than the
/// rate that is seen: such probes get a part of the share.
pub(super) fn wait_s(probe: Probe, cost_s: f64, quiet_s: f64, settings: &Settings) -> f64 {
    let part = match probe {
        Probe::DeviceShare | Probe::CpuShare => 1.0,
        Probe::DeviceAlone | Probe::CpuAlone => ALONE_PART,
    };
    (cost_s / (settings.probe_share * part)).max((4.0 * cost_s * quiet_s).sqrt())
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
