//! What is known for chunks of one size, and what follows from it.

use std::time::Duration;

use super::estimate::{Change, Contention, Overhead, TargetRates, WEIGHT};
use super::forecast::{DeviceForecast, Forecast, GateResults, Placement};
use super::probes::{Probe, Schedule, wait_s};
use super::reason::{Reason, Verdict};
use super::{Epoch, Probing, Settings};

/// The most that joining two targets is believed to lose, as a logarithm: a factor of 4.
const JOIN_LN_MAX: f64 = 1.386;
/// How much of a loss in joining is still believed one epoch later, when nothing is joined.
const JOIN_KEPT: f64 = 0.99;

/// What an epoch did to the estimates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Changes {
    cpu: Change,
    device: Change,
    overhead: Change,
}

impl Changes {
    /// Whether any of them took a step.
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
    /// ln(time of a split epoch / time of its longer target): what the targets lose by waiting for each
    /// other.
    join_ln: f64,
    /// Mean time of an epoch.
    epoch_s: f64,
    /// When something last changed: a step in a rate, or what is in use.
    quiet_since: Duration,
    pub(super) placement: Placement,
    /// The device was looked at, at this size.
    pub(super) looked: bool,
    schedules: [Schedule; Probe::ALL.len()],
}

impl SizeClass {
    /// A record that begins with what a neighbouring size taught, if there is one.
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

    /// What these bytes would take; `None` while the CPU's rate is not known.
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

    /// Takes another placement into use. What was in use needs no probe for a while; what was never
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

    /// Whether a probe need not be affordable. That is so for one that repeats another whose result is
    /// not believed yet, and for the first look at the device at a size, without which a short stream
    /// would never use it, unless the device is known to have stopped.
    pub(super) fn may_probe_on_credit(&self, probe: Probe) -> bool {
        let first = probe == Probe::DeviceShare && !self.looked && !self.device.stopped();
        first || self.schedules[probe as usize].unconfirmed
    }

    /// The probes that make sense beside what is in use: what each would take in seconds, and when it
    /// is due.
    pub(super) fn probes(
        &self,
        forecast: &Forecast,
    ) -> impl Iterator<Item = (Probe, f64, Duration)> {
        Probe::ALL.into_iter().filter_map(|probe| {
            let probe_s = forecast.probe_s(probe, self.placement)?;
            Some((probe, probe_s, self.schedules[probe as usize].due))
        })
    }

    /// What an epoch teaches. `probe`: if it was one.
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
        let device = self
            .device
            .observe(device, epoch.device.bytes, device_s, chunk_bytes);
        let overhead = if device_s > 0.0 || overhead_s > 0.0 {
            self.overhead.observe(overhead_s, device_s)
        } else {
            Change::None
        };
        Changes {
            cpu,
            device,
            overhead,
        }
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

    /// Whether a probe found something better that another is to confirm, at once. A confirmation is
    /// not confirmed again.
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

    /// What is known, as numbers.
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
