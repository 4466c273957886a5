//! Decides the fraction of the bytes that goes to the device, from the past work of both targets.
//!
//! The fraction follows *equal finish*: with the CPU at `R_c` and the device at `R_d` bytes a second,
//! overhead included, both targets end at the same time at `f = R_d / (R_c + R_d)`. Two gates stand
//! before it. C1: the device is used only if the best time with it is under 0.95 of the CPU's alone.
//! C2: the work is split only if that takes under 0.95 of the better target alone. A target in use stays
//! in use until it no longer gains anything (hysteresis).
//!
//! Using the device at all has a price that does not shrink with the fraction, so time jumps at
//! `f = 0`, and a target alone has another rate than beside the other one. So the corners are not
//! inferred from the interior: they are probed, each on a schedule of its own that backs off, and all
//! probes together may cost [`Settings::probe_share`] of the time.
//!
//! A [`Controller`] is a pure function of its inputs: it has no clock, no randomness, no thread.
//! Its memory is bounded: one record for each power of two of the chunk size.
//!
//! ```
//! use std::time::Duration;
//! use overside_placement::controller::{Controller, Epoch, Settings, SideSample, Work};
//!
//! // A CPU of 1 byte a nanosecond and a device of 3, in epochs of 8 MiB.
//! let run = |bytes: u64, rate: u64| SideSample { bytes, busy: Duration::from_nanos(bytes / rate) };
//! let mut controller = Controller::new(Settings::default());
//! let work = Work { bytes: 8 << 20, chunk_bytes: 1 << 20 };
//! let mut now = Duration::ZERO;
//! for _ in 0..10 {
//!     let decision = controller.decide(now, work);
//!     let device_bytes = (work.bytes as f64 * decision.fraction) as u64;
//!     let (cpu, device) = (run(work.bytes - device_bytes, 1), run(device_bytes, 3));
//!     let elapsed = cpu.busy.max(device.busy);
//!     now += elapsed;
//!     let epoch = Epoch {
//!         fraction: decision.fraction, cpu, device, overhead: Duration::ZERO, elapsed,
//!         chunk_bytes: work.chunk_bytes,
//!     };
//!     controller.observe(now, epoch);
//! }
//! let decision = controller.decide(now, work);
//! assert!((decision.fraction - 0.75).abs() < 0.01, "{}", decision.reason);
//! ```

mod estimate;
mod forecast;
mod probes;
mod reason;
mod size_class;

use std::time::Duration;

use forecast::Placement;
use probes::Budget;
pub use probes::Probe;
pub use reason::{Gate, Rates, Reason, Verdict};
use size_class::SizeClass;

/// Number of size classes: one for each power of two of a chunk's bytes, 2^0 to 2^64.
const SIZE_CLASSES: usize = 65;

/// Limits on the controller's decisions. Values out of range are replaced by the nearest one in
/// range.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// C1: the device is taken into use if its best time is under this part of the CPU's alone.
    /// 0 to 1; 0.95.
    pub use_below: f64,
    /// C2: a split is taken into use if its time is under this part of the better target's alone.
    /// 0 to 1; 0.95.
    pub split_below: f64,
    /// Tolerance added to the gate of the placement in use before the controller leaves it. 0 to 1;
    /// default 0.02, so a placement is left when it takes 0.97 of the alternative's time.
    pub hysteresis: f64,
    /// Largest part of all time that probes may cost. 0 (never probe) to 0.5; default 0.02.
    pub probe_share: f64,
    /// Epochs from one probe to the next of its kind, at least. At least 1; 16. The wait grows with
    /// the cost of a probe, and with the root of the time in which nothing has changed.
    pub probe_epochs: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            use_below: 0.95,
            split_below: 0.95,
            hysteresis: 0.02,
            probe_share: 0.02,
            probe_epochs: 16,
        }
    }
}

impl Settings {
    fn bounded(self) -> Self {
        let part = |value: f64, default: f64| {
            if value.is_finite() { value.clamp(0.0, 1.0) } else { default }
        };
        let default = Self::default();
        Self {
            use_below: part(self.use_below, default.use_below),
            split_below: part(self.split_below, default.split_below),
            hysteresis: part(self.hysteresis, default.hysteresis),
            probe_share: part(self.probe_share, default.probe_share).min(0.5),
            probe_epochs: self.probe_epochs.max(1),
        }
    }
}

/// Work to be placed next: the bytes of an epoch, in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Work {
    /// Bytes that both targets together will take under this decision.
    pub bytes: u64,
    /// Bytes of a chunk, the least that a target can be given. Chunks of one size share a record
    /// (one for each power of two); the controller never changes the size.
    pub chunk_bytes: u64,
}

/// Work that one target did in an epoch.
///
/// Without a barrier an epoch ends in the middle of a chunk. For unbiased rates, count `bytes` when a chunk
/// ends, and `busy` up to that end: later time belongs to the epoch in which the next chunk ends. A busy
/// target that finished no chunk has `bytes` 0 and `busy` above 0; the next `bytes` then count as having
/// needed that time, too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SideSample {
    /// Bytes finished, of the sources.
    pub bytes: u64,
    /// Time in which the target had at least one chunk, without `Epoch::overhead`. Not the sum over
    /// chunks in flight, and not the time it waited for input, or for room in the ordered merge.
    pub busy: Duration,
}

/// Outcome of a decision: the work and the times of one epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Epoch {
    /// The fraction that ruled it: the decision's, or another if that could not be followed.
    pub fraction: f64,
    /// Work that the CPU did.
    pub cpu: SideSample,
    /// Work that the device did.
    pub device: SideSample,
    /// Time in which the device could not work because it was opened or reconfigured.
    pub overhead: Duration,
    /// The time that the epoch took, without the time in which there was no input, or the caller
    /// took no results.
    pub elapsed: Duration,
    /// Bytes of a chunk, the same value as [`Work::chunk_bytes`].
    pub chunk_bytes: u64,
}

/// Placement of the next bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decision {
    /// The part of the bytes that goes to the device, 0 to 1. At 0 the device is to rest, at 1 the
    /// CPU.
    pub fraction: f64,
    /// Numbers that led to the decision.
    pub reason: Reason,
    /// `true` if the decision is a probe: it serves to learn a rate and may not be the fastest
    /// placement.
    pub probe: bool,
}

/// Decides fractions. See the [module](self).
#[derive(Debug)]
pub struct Controller {
    settings: Settings,
    size_classes: [Option<Box<SizeClass>>; SIZE_CLASSES],
    budget: Budget,
    /// The latest time seen; time that goes backwards stands still instead.
    now: Duration,
    /// The probe that was decided on and not yet observed.
    probing: Option<Probing>,
    /// The last probe, while it may not be over: without a barrier, its chunks may end long after
    /// its epoch.
    paying: Option<Probing>,
}

/// A probe under way, or one whose chunks may still be under way.
#[derive(Debug, Clone, Copy)]
struct Probing {
    size_class: usize,
    probe: Probe,
    /// Placement that would have been used without the probe.
    instead: Placement,
    /// Time that the probe has cost so far, in seconds, beyond the time of `instead`.
    cost_s: f64,
}

/// Returns `true` if a target that the decision lets rest still works. That time belongs to the
/// last probe, in which the target was given the chunk.
fn still_drains(epoch: &Epoch) -> bool {
    (epoch.fraction <= 0.0 && epoch.device.busy > Duration::ZERO)
        || (epoch.fraction >= 1.0 && epoch.cpu.busy > Duration::ZERO)
}

impl Controller {
    /// A controller that knows nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings: settings.bounded(),
            size_classes: [const { None }; SIZE_CLASSES],
            budget: Budget::default(),
            now: Duration::ZERO,
            probing: None,
            paying: None,
        }
    }

    /// The part of the next bytes that goes to the device.
    ///
    /// To be followed by one [`observe`](Self::observe) of the epoch that it ruled; one that is
    /// missing does no harm.
    pub fn decide(&mut self, now: Duration, work: Work) -> Decision {
        self.now = self.now.max(now);
        let chunk_bytes = work.chunk_bytes.max(1);
        let bytes = work.bytes.max(1);
        let index = index_of(chunk_bytes);
        let (settings, budget, now) = (self.settings, self.budget, self.now);
        let size_class = self.size_class(index);
        let Some(forecast) = size_class.forecast(bytes as f64, chunk_bytes as f64) else {
            let reason = size_class.reason(bytes, None, now);
            return self.decided(0.0, reason, None);
        };
        let gates = forecast.judge(size_class.placement, &settings);
        size_class.switch(gates.placement, now, &settings);
        let in_use = size_class.placement;
        let mut reason = size_class.reason(bytes, Some((&forecast, gates)), now);
        let affordable = |(probe, probe_s, due): &(Probe, f64, Duration)| {
            let cost_s = (probe_s - forecast.time_s(in_use)).max(0.0);
            *due <= now && budget.allows(cost_s, size_class.may_probe_on_credit(*probe))
        };
        let due = size_class
            .probes(&forecast)
            .filter(|_| settings.probe_share > 0.0)
            .filter(affordable)
            .min_by_key(|(_, _, due)| *due);
        if let Some((probe, _, _)) = due {
            size_class.looked |= probe == Probe::DeviceShare;
            reason.verdict = Verdict::Probe(probe);
            let probing = Probing { size_class: index, probe, instead: in_use, cost_s: 0.0 };
            return self.decided(forecast.probe_fraction(probe), reason, Some(probing));
        }
        self.decided(forecast.fraction(in_use), reason, None)
    }

    /// Learns from the epoch that the last decision ruled.
    pub fn observe(&mut self, now: Duration, epoch: Epoch) {
        self.now = self.now.max(now);
        let (settings, now) = (self.settings, self.now);
        let elapsed_s = epoch.elapsed.as_secs_f64();
        self.budget.earn(elapsed_s, settings.probe_share);
        let index = index_of(epoch.chunk_bytes.max(1));
        let this = |probed: &Probing| probed.size_class == index;
        let probing = self.probing.take().filter(this);
        let paying = self.paying.take().filter(this);
        let size_class = self.size_class(index);
        let probed = probing.or(paying.filter(|_| still_drains(&epoch)));
        // What the epoch would have taken without a probe, by what was known before it.
        let instead_s = probed.and_then(|probed| {
            let bytes = epoch.cpu.bytes.saturating_add(epoch.device.bytes) as f64;
            let forecast = size_class.forecast(bytes, epoch.chunk_bytes.max(1) as f64)?;
            Some(forecast.time_s(probed.instead))
        });
        let changes = size_class.learn(&epoch, probing.map(|it| it.probe));
        if changes.step() {
            size_class.hasten(now, &settings);
        }
        let (Some(mut probed), Some(instead_s)) = (probed, instead_s) else {
            return;
        };
        let cost_s = (elapsed_s - instead_s).max(0.0);
        probed.cost_s += cost_s;
        if probing.is_none() || !size_class.confirm(probed.probe, changes, now) {
            size_class.postpone(&probed, now, &settings);
        }
        self.budget.spend(cost_s);
        self.paying = Some(probed);
    }

    fn size_class(&mut self, index: usize) -> &mut SizeClass {
        if self.size_classes[index].is_none() {
            let distance = |at: &usize| at.abs_diff(index);
            let neighbour = (0..SIZE_CLASSES)
                .filter(|at| self.size_classes[*at].is_some())
                .min_by_key(distance)
                .and_then(|at| self.size_classes[at].as_deref());
            self.size_classes[index] = Some(Box::new(SizeClass::new(neighbour)));
        }
        self.size_classes[index].get_or_insert_with(|| Box::new(SizeClass::new(None)))
    }

    fn decided(&mut self, fraction: f64, reason: Reason, probing: Option<Probing>) -> Decision {
        self.probing = probing;
        self.budget.decided(probing.is_some());
        Decision { fraction, reason, probe: probing.is_some() }
    }
}

/// Returns the size class of a chunk of `chunk_bytes`, at least 1: that of the nearest power of two. So
/// powers of two, which are typical sizes, are in the middle of their classes.
fn index_of(chunk_bytes: u64) -> usize {
    let exponent = chunk_bytes.ilog2();
    let above = chunk_bytes - (1 << exponent);
    exponent as usize + usize::from(above > (1 << exponent) / 2)
}
