//! Forecast of the time that an amount of work would take on each placement.

use super::Settings;
use super::probes::Probe;
use super::reason::Gate;

/// Factor on a target's believed rate: if it would win with that, it is worth a probe alone.
const SURPRISE: f64 = 3.0;
/// A split is worth a probe while it would take less than this part of the time if the targets did not
/// disturb each other.
const GAIN: f64 = 0.95;
/// A probe of a share gives at least this part of the bytes.
const SHARE_MIN: f64 = 1.0 / 64.0;

/// Targets that an epoch's bytes go to: the CPU only, the device only, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placement {
    Cpu,
    Device,
    Split,
}

/// The times of the three placements, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Forecast {
    pub(super) cpu_s: f64,
    /// Unknown while the device has never been seen.
    pub(super) device: Option<DeviceForecast>,
    /// `true` if the device finishes nothing: its rates are then bounds.
    stopped: bool,
    /// The part of the bytes that a probe of a share gives.
    share: f64,
}

/// The times of placements with the device, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct DeviceForecast {
    /// The device alone, overhead included.
    pub(super) alone_s: f64,
    /// The split at equal finish; `None` where the overhead leaves no time for one.
    pub(super) split_s: Option<f64>,
    /// The device's part at equal finish, 0 to 1.
    pub(super) equal_finish: f64,
    overhead_s: f64,
    /// All bytes on one target, at its rate beside the other one, without overhead.
    whole_cpu_s: f64,
    whole_device_s: f64,
}

/// Results of the gates C1 and C2, and the placement that they allow. A gate is `None` if its times
/// are not known.
#[derive(Debug, Clone, Copy)]
pub(super) struct GateResults {
    pub(super) placement: Placement,
    pub(super) c1: Option<Gate>,
    pub(super) c2: Option<Gate>,
}

impl DeviceForecast {
    /// `alone_s`, `whole_cpu_s` and `whole_device_s` without overhead; `join` is the factor that a
    /// split takes longer than its longer target.
    pub(super) fn new(
        alone_s: f64,
        whole_cpu_s: f64,
        whole_device_s: f64,
        overhead_s: f64,
        join: f64,
    ) -> Self {
        let mut forecast = Self {
            alone_s: alone_s + overhead_s,
            split_s: None,
            equal_finish: 0.0,
            overhead_s,
            whole_cpu_s,
            whole_device_s,
        };
        // Equal finish, (1 - f) B / R_c = o + f B / r_d, solved for f. The same as
        // f = R_d / (R_c + R_d) with R_d = f B / (o + f B / r_d), the rate with overhead.
        let fraction = (whole_cpu_s - overhead_s) / (whole_cpu_s + whole_device_s);
        if fraction > 0.0 {
            forecast.equal_finish = fraction.min(1.0);
            forecast.split_s = Some(forecast.joined_s(forecast.equal_finish) * join);
        }
        forecast
    }

    /// Predicted seconds of a split with the part `fraction` of the bytes on the device.
    fn joined_s(&self, fraction: f64) -> f64 {
        let cpu_s = (1.0 - fraction) * self.whole_cpu_s;
        cpu_s.max(self.overhead_s + fraction * self.whole_device_s)
    }
}

impl Forecast {
    pub(super) fn new(
        bytes: f64,
        chunk_bytes: f64,
        cpu_s: f64,
        device: Option<DeviceForecast>,
        stopped: bool,
    ) -> Self {
        Self { cpu_s, device, stopped, share: (chunk_bytes / bytes).clamp(SHARE_MIN, 1.0) }
    }

    /// Seconds of a placement; of the CPU alone where it is not known.
    pub(super) fn time_s(&self, placement: Placement) -> f64 {
        match placement {
            Placement::Cpu => None,
            Placement::Device => self.device.map(|it| it.alone_s),
            Placement::Split => self.device.and_then(|it| it.split_s),
        }
        .unwrap_or(self.cpu_s)
    }

    /// The device's part on a placement.
    pub(super) fn fraction(&self, placement: Placement) -> f64 {
        match placement {
            Placement::Cpu => 0.0,
            Placement::Device => 1.0,
            Placement::Split => self.device.map_or(0.0, |it| it.equal_finish),
        }
    }

    /// The device's part in a probe.
    pub(super) fn probe_fraction(&self, probe: Probe) -> f64 {
        match probe {
            Probe::DeviceShare => self.share,
            Probe::CpuShare => 1.0 - self.share,
            Probe::DeviceAlone => 1.0,
            Probe::CpuAlone => 0.0,
            Probe::Split => self.fraction(Placement::Split),
        }
    }

    /// Seconds that a probe would take; `None` if it would add nothing to the placement in use.
    ///
    /// A target that works already is observed anyway. A stopped device is given no more than a
    /// share. A target alone is tried while it might win, and how far off its rate alone may be
    /// from the estimate has a limit: three times.
    pub(super) fn probe_s(&self, probe: Probe, in_use: Placement) -> Option<f64> {
        let Some(device) = self.device else {
            return (probe == Probe::DeviceShare).then_some(self.cpu_s);
        };
        let now_s = self.time_s(in_use);
        let own_s = device.alone_s - device.overhead_s;
        let alone_may_win = device.overhead_s + own_s / SURPRISE < now_s && !self.stopped;
        let (sensible, probe_s) = match probe {
            Probe::DeviceShare => (in_use == Placement::Cpu, device.joined_s(self.share)),
            Probe::CpuShare => (in_use == Placement::Device, device.joined_s(1.0 - self.share)),
            Probe::DeviceAlone => (in_use != Placement::Device && alone_may_win, device.alone_s),
            Probe::CpuAlone => {
                (in_use != Placement::Cpu && self.cpu_s / SURPRISE < now_s, self.cpu_s)
            }
            // Where a split would not win even if the targets did not disturb each other, there is
            // nothing to learn.
            Probe::Split => {
                let undisturbed =
                    DeviceForecast::new(own_s, self.cpu_s, own_s, device.overhead_s, 1.0);
                let best_s = undisturbed.split_s.filter(|_| !self.stopped);
                (
                    in_use != Placement::Split && best_s.is_some_and(|it| it < GAIN * now_s),
                    device.split_s?,
                )
            }
        };
        sensible.then_some(probe_s)
    }

    /// Returns the placement that passes the gates.
    pub(super) fn judge(&self, in_use: Placement, settings: &Settings) -> GateResults {
        let Some(device) = self.device else {
            return GateResults { placement: Placement::Cpu, c1: None, c2: None };
        };
        let limit = |gate: f64, used: bool| gate + if used { settings.hysteresis } else { 0.0 };
        let use_limit = limit(settings.use_below, in_use != Placement::Cpu);
        let with_device_s =
            device.split_s.map_or(device.alone_s, |split_s| split_s.min(device.alone_s));
        let c1 = Gate { ratio: with_device_s / self.cpu_s, limit: use_limit };
        let c2 = device.split_s.map(|split_s| Gate {
            ratio: split_s / self.cpu_s.min(device.alone_s),
            limit: limit(settings.split_below, in_use == Placement::Split),
        });
        let placement = if self.stopped || !c1.passes() {
            Placement::Cpu
        } else if c2.is_some_and(Gate::passes) {
            Placement::Split
        } else if device.alone_s < self.cpu_s * use_limit {
            Placement::Device
        } else {
            Placement::Cpu
        };
        GateResults { placement, c1: Some(c1), c2 }
    }
}
