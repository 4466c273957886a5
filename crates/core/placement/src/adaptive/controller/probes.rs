//! Schedule and budget of probes: short trials of a placement that is not in use.

use std::fmt;
use std::time::Duration;

use super::Settings;

/// Number of decisions between two probes of any kind and size, except those on credit.
const SPACING: u32 = 8;

/// Kind of a probe: the placement that it tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// The device gets one chunk while the CPU does the rest, to check if it is (still) too slow.
    DeviceShare,
    /// The CPU gets one chunk while the device does the rest.
    CpuShare,
    /// The device alone, f = 1.
    DeviceAlone,
    /// The CPU alone, f = 0.
    CpuAlone,
    /// Both, at equal finish: is contention (still) the reason that a split is slower than one target?
    Split,
}

impl Probe {
    pub(super) const ALL: [Self; 5] =
        [Self::DeviceShare, Self::CpuShare, Self::DeviceAlone, Self::CpuAlone, Self::Split];

    /// Returns how likely the probe is to find a change, relative to a probe of the device's share.
    ///
    /// Devices stop, are reconfigured and come back; a CPU seldom does more than slow down. Of a working
    /// target, only the rate under other contention is not observed, and that changes together with the
    /// observed one.
    fn part(self) -> f64 {
        match self {
            Self::DeviceShare => 1.0,
            Self::CpuShare => 0.3,
            Self::DeviceAlone | Self::CpuAlone | Self::Split => 0.1,
        }
    }
}

impl Probe {
    /// Describes the probe in words, with these names of the two sides.
    pub(super) fn between(self, cpu: &str, device: &str) -> String {
        match self {
            Self::DeviceShare => format!("a {device} share"),
            Self::CpuShare => format!("a {cpu} share"),
            Self::DeviceAlone => format!("the {device} alone"),
            Self::CpuAlone => format!("the {cpu} alone"),
            Self::Split => "a split".into(),
        }
    }
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.between("cpu", "device"))
    }
}

/// Due time of one kind of probe.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Schedule {
    pub(super) due: Duration,
    /// `true` if the last one found a change that the next has to confirm.
    pub(super) unconfirmed: bool,
}

impl Schedule {
    /// Sets the next probe to `wait_s` seconds from now.
    pub(super) fn postpone(&mut self, now: Duration, wait_s: f64) {
        self.unconfirmed = false;
        self.due = now.saturating_add(seconds(wait_s));
    }

    /// Sets the next probe to `wait_s` seconds from now at the latest.
    pub(super) fn hasten(&mut self, now: Duration, wait_s: f64) {
        self.due = self.due.min(now.saturating_add(seconds(wait_s)));
    }
}

/// Seconds from a probe that cost `cost_s` to the next one like it, when nothing has changed for
/// `quiet_s`.
///
/// Probes may cost their share of the time, no more. Beyond that, conditions that have been quiet
/// for long will change late. With one change after a time `s` that could save up to all the time
/// once it is noticed, probes every `w` cost `c s / w`, noticing late costs `w / 2` in the mean,
/// and the sum is least at `w = sqrt(2 c s)`. So probes back off with the root of the quiet time.
pub(super) fn wait_s(probe: Probe, cost_s: f64, quiet_s: f64, settings: &Settings) -> f64 {
    let part = probe.part();
    (cost_s / (settings.probe_share * part)).max((2.0 * cost_s * quiet_s / part).sqrt())
}

/// Time that probes have cost and may cost, in seconds, over all chunk sizes.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Budget {
    earned_s: f64,
    spent_s: f64,
    /// Decisions since the last probe.
    since: u32,
}

impl Budget {
    /// Adds a share of the elapsed time to the time that probes may spend.
    pub(super) fn earn(&mut self, elapsed_s: f64, share: f64) {
        self.earned_s += elapsed_s * share;
    }

    pub(super) fn spend(&mut self, cost_s: f64) {
        self.spent_s += cost_s;
    }

    /// Counts a decision.
    pub(super) fn decided(&mut self, probe: bool) {
        self.since = if probe { 0 } else { self.since.saturating_add(1) };
    }

    /// Returns `true` if a probe may be made now that costs `cost_s` more than the placement in
    /// use. On credit it may be made at once; other probes then wait until it is paid.
    pub(super) fn allows(&self, cost_s: f64, on_credit: bool) -> bool {
        let affordable = self.spent_s + cost_s <= self.earned_s;
        on_credit || (self.since >= SPACING && affordable)
    }
}

/// A duration of `value` seconds; the longest there is if that is too large or no number.
pub(super) fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value.max(0.0)).unwrap_or(Duration::MAX)
}
