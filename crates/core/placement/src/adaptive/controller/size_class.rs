//! Estimates for chunks of one size class, and the forecasts, probes and reasons derived from them.

use std::time::Duration;

use super::estimate::{Change, Contention, Overhead, TargetRates, WEIGHT};
use super::forecast::{DeviceForecast, Forecast, GateResults, Placement};
use super::probes::{Probe, Schedule, wait_s};
use super::reason::{Reason, Verdict};
use super::{Epoch, Probing, Settings};

/// The most that joining two targets is believed to lose, as a logarithm: a factor of 4.
const JOIN_LN_MAX: f64 = 1.386;
/// Part of the believed loss in joining that is kept after each epoch in which nothing is joined.
const JOIN_KEPT: f64 = 0.99;

/// Changes that an epoch made to the estimates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Changes {
    cpu: Change,
    device: Change,
    overhead: Change,
}

impl Changes {
    /// Returns `true` if any estimate was reset to a new value, which means that a rate or the
    /// overhead took a step.
    pub(super) fn step(self) -> bool {
        [self.cpu, self.device, self.overhead].contains(&Change::Reset)
    }
}

/// The record of one chunk size.
#[derive(Debug, Clone, Copy)]
pub(super) struct SizeClass {
    cpu: TargetRates,
    device: TargetRates,
    overhead: Overhead,
    /// ln(time of a split epoch / time of its longer target): the loss from targets that wait for
    /// each other.
    join_ln: f64,
    /// Mean time of an epoch.
    epoch_s: f64,
    /// Time of the last change: a step in a rate, or another placement in use.
    quiet_since: Duration,
    pub(super) placement: Placement,
    /// `true` if the device was probed, at this size.
    pub(super) looked: bool,
    schedules: [Schedule; Probe::ALL.len()],
}

impl SizeClass {
    /// A record that begins with the rates of a neighbouring size, if there is one.
    pub(super) fn new(neighbour: Option<&Self>) -> Self {
        Self {
            cpu: neighbour.map_or_else(TargetRates::default, |it| it.cpu.inherited()),
            device: neighbour.map_or_else(TargetRates::default, |it| it.device.inherited()),
            overhead: neighbour.map_or_else(Overhead::default, |it| it.overhead),
            join_ln: neighbour.map_or(0.0, |it| it.join_ln),
            epoch_s: 0.0,
            quiet_since: Duration::ZERO,
            placement: Placement::Cpu,
            looked: false,
            schedules: [Schedule::default(); Probe::ALL.len()],
        }
    }

    /// Forecasts the time of these bytes on each placement. Returns `None` while the CPU's rate is
    /// not known.
    pub(super) fn forecast(&self, bytes: f64, chunk_bytes: f64) -> Option<Forecast> {
        let cpu_s = bytes / self.cpu.alone()?;
        let device = || {
            Some(DeviceForecast::new(
                bytes / self.device.alone()?,
                bytes / self.cpu.together()?,
                bytes / self.device.together()?,
                self.overhead.seconds(),
                self.join_ln.max(0.0).exp(),
            ))
        };
        let stopped = self.device.stopped();
        Some(Forecast::new(bytes, chunk_bytes, cpu_s, device(), stopped))
    }

    /// Takes another placement into use. The old one needs no probe for a while; one that was never
    /// seen needs one soon.
    pub(super) fn switch(&mut self, placement: Placement, now: Duration, settings: &Settings) {
        if placement == self.placement {
            return;
        }
        self.placement = placement;
        let wait_s = self.first_wait_s(settings);
        self.quiet_since = now;
        for schedule in &mut self.schedules {
            schedule.postpone(now, wait_s);
        }
        if !self.device.seen_alone() {
            self.schedules[Probe::DeviceAlone as usize].due = now;
        }
    }

    /// Returns `true` if the probe may be made before it is affordable. There are two such probes.
    /// One repeats a probe whose result is not believed yet. The other is the first look at the
    /// device at this size, unless the device is known to have stopped: without it a short stream
    /// would never use the device.
    pub(super) fn may_probe_on_credit(&self, probe: Probe) -> bool {
        let first = probe == Probe::DeviceShare && !self.looked && !self.device.stopped();
        first || self.schedules[probe as usize].unconfirmed
    }

    /// Probes that make sense beside the placement in use, each with its seconds and its due time.
    pub(super) fn probes(
        &self,
        forecast: &Forecast,
    ) -> impl Iterator<Item = (Probe, f64, Duration)> {
        Probe::ALL.into_iter().filter_map(|probe| {
            let probe_s = forecast.probe_s(probe, self.placement)?;
            Some((probe, probe_s, self.schedules[probe as usize].due))
        })
    }

    /// Updates the estimates from an epoch. `probe` is its kind if the epoch was a probe.
    pub(super) fn learn(&mut self, epoch: &Epoch, probe: Option<Probe>) -> Changes {
        let cpu_s = epoch.cpu.busy.as_secs_f64();
        let device_s = epoch.device.busy.as_secs_f64();
        let overhead_s = epoch.overhead.as_secs_f64();
        let elapsed_s = epoch.elapsed.as_secs_f64();
        let chunk_bytes = epoch.chunk_bytes.max(1) as f64;
        let interior = epoch.fraction > 0.0 && epoch.fraction < 1.0;
        let split = interior && !matches!(probe, Some(Probe::DeviceShare | Probe::CpuShare));
        let longer_s = cpu_s.max(device_s + overhead_s);
        let both = epoch.cpu.bytes > 0 && epoch.device.bytes > 0;
        if split && both && longer_s > 0.0 && elapsed_s > 0.0 {
            let join_ln = (elapsed_s / longer_s).ln().clamp(-JOIN_LN_MAX, JOIN_LN_MAX);
            self.join_ln += WEIGHT * (join_ln - self.join_ln);
        } else {
            self.join_ln *= JOIN_KEPT;
        }
        if elapsed_s > 0.0 {
            self.epoch_s = if self.epoch_s > 0.0 {
                self.epoch_s + WEIGHT * (elapsed_s - self.epoch_s)
            } else {
                elapsed_s
            };
        }
        // Beside one chunk on the other target, or what is left there of an earlier decision, a target is as
        // good as alone, unless that takes most of its time.
        let contention = |most: bool, own_s: f64, other_s: f64| {
            if split || !most || other_s > own_s / 2.0 {
                Contention::Together
            } else {
                Contention::Alone
            }
        };
        let most_on_device = epoch.fraction >= 0.5;
        let cpu = contention(!most_on_device, cpu_s, device_s);
        let device = contention(most_on_device, device_s, cpu_s);
        let cpu = self.cpu.observe(cpu, epoch.cpu.bytes, cpu_s, chunk_bytes);
        let device = self.device.observe(device, epoch.device.bytes, device_s, chunk_bytes);
        let overhead = if device_s > 0.0 || overhead_s > 0.0 {
            self.overhead.observe(overhead_s, device_s)
        } else {
            Change::None
        };
        Changes { cpu, device, overhead }
    }

    /// The first wait for a probe, in seconds.
    pub(super) fn first_wait_s(&self, settings: &Settings) -> f64 {
        f64::from(settings.probe_epochs) * self.epoch_s
    }

    /// A step was seen: probe sooner.
    pub(super) fn hasten(&mut self, now: Duration, settings: &Settings) {
        let wait_s = self.first_wait_s(settings);
        self.quiet_since = now;
        for schedule in &mut self.schedules {
            schedule.hasten(now, wait_s);
        }
    }

    /// Returns `true` if the probe found something better, and then makes a second probe due at
    /// once to confirm it. A confirmation is not confirmed again.
    pub(super) fn confirm(&mut self, probe: Probe, changes: Changes, now: Duration) -> bool {
        let better = match probe {
            Probe::DeviceShare | Probe::DeviceAlone => {
                changes.device == Change::Better || changes.overhead == Change::Better
            }
            Probe::CpuShare | Probe::CpuAlone => changes.cpu == Change::Better,
            Probe::Split => {
                let better = [changes.cpu, changes.device, changes.overhead];
                better.contains(&Change::Better)
            }
        };
        let schedule = &mut self.schedules[probe as usize];
        let confirm = better && !schedule.unconfirmed;
        if confirm {
            schedule.unconfirmed = true;
            schedule.due = now;
        }
        confirm
    }

    /// Plans the next probe like one that has been made.
    pub(super) fn postpone(&mut self, probed: &Probing, now: Duration, settings: &Settings) {
        let quiet_s = now.saturating_sub(self.quiet_since).as_secs_f64();
        let wait_s = wait_s(probed.probe, probed.cost_s, quiet_s, settings);
        let wait_s = wait_s.max(self.first_wait_s(settings));
        self.schedules[probed.probe as usize].postpone(now, wait_s);
    }

    /// Collects the numbers for a decision on `bytes`. Without a forecast the verdict is
    /// [`Verdict::Start`].
    pub(super) fn reason(
        &self,
        bytes: u64,
        forecast: Option<(&Forecast, GateResults)>,
        now: Duration,
    ) -> Reason {
        let mut reason = Reason {
            verdict: Verdict::Start,
            bytes,
            cpu: self.cpu.rates(),
            device: self.device.rates(),
            device_stopped: self.device.stopped(),
            overhead_s: self.overhead.seconds(),
            cpu_s: None,
            device_s: None,
            split_s: None,
            equal_finish: 0.0,
            c1: None,
            c2: None,
            next_probe: None,
        };
        let Some((forecast, gates)) = forecast else {
            return reason;
        };
        reason.verdict = match gates.placement {
            Placement::Cpu => Verdict::Cpu,
            Placement::Device => Verdict::Device,
            Placement::Split => Verdict::Split,
        };
        reason.cpu_s = Some(forecast.cpu_s);
        if let Some(device) = forecast.device {
            reason.device_s = Some(device.alone_s);
            reason.split_s = device.split_s;
            reason.equal_finish = device.equal_finish;
        }
        reason.c1 = gates.c1;
        reason.c2 = gates.c2;
        reason.next_probe = self
            .probes(forecast)
            .map(|(probe, _, due)| (probe, due.saturating_sub(now)))
            .min_by_key(|(_, wait)| *wait);
        reason
    }
}
