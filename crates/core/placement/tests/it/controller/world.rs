//! A CPU and a device whose rates follow a script, with noise that a seed decides.

use std::time::Duration;

use overside_placement::controller::{Controller, Decision, Epoch, Settings, SideSample, Work};

pub(super) const MB: f64 = 1e6;
/// Decisions of a scenario.
pub(super) const DECISIONS: u32 = 4000;
/// Standard deviation of the logarithm of a target's rate, drawn for each decision and target.
pub(super) const NOISE: f64 = 0.05;

/// The truth at one decision. Rates in B/s.
#[derive(Clone, Copy)]
pub(super) struct Truth {
    pub cpu: Rates,
    pub device: Rates,
    /// Paid once an epoch if the device is used at all.
    pub overhead_s: f64,
    /// Seconds after which a device that finishes nothing is given up; the CPU then does its share
    /// again.
    pub dead_s: Option<f64>,
}

/// A target's rates while the other target rests and while it works.
#[derive(Clone, Copy)]
pub(super) struct Rates {
    pub alone: f64,
    pub together: f64,
}

impl Rates {
    pub(super) fn steady(rate: f64) -> Self {
        Self { alone: rate, together: rate }
    }

    /// Both rates, multiplied by `factor`.
    pub(super) fn times(self, factor: f64) -> Self {
        Self { alone: self.alone * factor, together: self.together * factor }
    }
}

/// A generator with the noise of rates.
pub(super) struct Random(overside_base::Random);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(overside_base::Random::new(seed))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// 0 to 1, without 0.
    pub(super) fn uniform(&mut self) -> f64 {
        1.0 - self.0.uniform()
    }

    /// Returns a normally distributed number with mean 0 and deviation 1 (Box and Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// The factor by which noise changes a rate.
    pub(super) fn factor(&mut self) -> f64 {
        (NOISE * self.normal()).exp()
    }
}

impl Truth {
    pub(super) fn new(cpu: f64, device: f64) -> Self {
        Self {
            cpu: Rates::steady(cpu),
            device: Rates::steady(device),
            overhead_s: 0.0,
            dead_s: None,
        }
    }

    /// Targets with other rates beside each other than alone: the CPU's two, then the device's.
    pub(super) fn under_contention(
        cpu_alone: f64,
        cpu_together: f64,
        device_alone: f64,
        device_together: f64,
    ) -> Self {
        Self {
            cpu: Rates { alone: cpu_alone, together: cpu_together },
            device: Rates { alone: device_alone, together: device_together },
            overhead_s: 0.0,
            dead_s: None,
        }
    }

    fn noisy(self, random: &mut Random) -> Self {
        Self {
            cpu: self.cpu.times(random.factor()),
            device: self.device.times(random.factor()),
            ..self
        }
    }

    /// Simulates an epoch in which this part of the bytes goes to the device. Both targets work at
    /// their rates together until one is done, then the other at its rate alone. A barrier ends the
    /// epoch.
    pub(super) fn epoch(&self, work: Work, fraction: f64) -> Epoch {
        let device_bytes = (work.bytes as f64 * fraction).round();
        let cpu_bytes = work.bytes as f64 - device_bytes;
        if device_bytes > 0.0
            && let Some(dead_s) = self.dead_s
        {
            let first_s = (cpu_bytes / self.cpu.together).max(dead_s);
            let again_s = device_bytes / self.cpu.alone;
            return Epoch {
                fraction,
                cpu: share(work.bytes as f64, cpu_bytes / self.cpu.together + again_s),
                device: share(0.0, dead_s),
                overhead: Duration::ZERO,
                elapsed: Duration::from_secs_f64(first_s + again_s),
                chunk_bytes: work.chunk_bytes,
            };
        }
        let overhead_s = if device_bytes > 0.0 { self.overhead_s } else { 0.0 };
        let cpu_s = cpu_bytes / self.cpu.together;
        let device_s = overhead_s + device_bytes / self.device.together;
        // The one that is not yet done when the other is goes on alone.
        let rest = |bytes: f64, rates: Rates, own_s: f64, other_s: f64, idle_s: f64| {
            if bytes == 0.0 || own_s <= other_s {
                return own_s;
            }
            let done = (other_s - idle_s).max(0.0) * rates.together;
            other_s.max(idle_s) + (bytes - done) / rates.alone
        };
        let cpu_end_s = rest(cpu_bytes, self.cpu, cpu_s, device_s, 0.0);
        let device_end_s = rest(device_bytes, self.device, device_s, cpu_s, overhead_s);
        Epoch {
            fraction,
            cpu: share(cpu_bytes, cpu_end_s),
            device: share(device_bytes, (device_end_s - overhead_s).max(0.0)),
            overhead: Duration::from_secs_f64(overhead_s),
            elapsed: Duration::from_secs_f64(cpu_end_s.max(device_end_s)),
            chunk_bytes: work.chunk_bytes,
        }
    }

    /// The best fraction if all rates are known, but not the noise to come: a corner, or where both
    /// targets end together. Between these, time is linear in the fraction.
    fn best_fraction(&self, work: Work) -> f64 {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..30 {
            let middle = (low + high) / 2.0;
            let epoch = self.epoch(work, middle);
            if epoch.cpu.busy < epoch.device.busy + epoch.overhead {
                high = middle;
            } else {
                low = middle;
            }
        }
        [0.0, 1.0, low]
            .into_iter()
            .min_by_key(|fraction| self.epoch(work, *fraction).elapsed)
            .unwrap_or(0.0)
    }
}

fn share(bytes: f64, busy_s: f64) -> SideSample {
    SideSample { bytes: bytes as u64, busy: Duration::from_secs_f64(busy_s) }
}

/// Outcome of a scenario.
pub(super) struct Outcome {
    /// Time of the controller and of the clairvoyant, in seconds.
    pub controller_s: f64,
    pub clairvoyant_s: f64,
    /// Cost of each probe in seconds: its time beyond that of the last decision that was no probe,
    /// under the same noise.
    pub probe_costs_s: Vec<f64>,
    /// All decisions, in order.
    pub decisions: Vec<Decision>,
}

impl Outcome {
    /// Returns how much longer the controller took than the clairvoyant, as a part of the
    /// clairvoyant's time.
    pub(super) fn excess(&self) -> f64 {
        self.controller_s / self.clairvoyant_s - 1.0
    }

    /// The part of the time that probes cost.
    pub(super) fn probe_part(&self) -> f64 {
        self.probe_costs_s.iter().sum::<f64>() / self.controller_s
    }

    /// The mean fraction of a range of decisions, probes left out.
    pub(super) fn mean_fraction(&self, range: std::ops::Range<usize>) -> f64 {
        let used: Vec<f64> = self.decisions[range]
            .iter()
            .filter(|decision| !decision.probe)
            .map(|decision| decision.fraction)
            .collect();
        used.iter().sum::<f64>() / used.len() as f64
    }
}

/// Runs the controller and the clairvoyant through a script, both under the same noise.
pub(super) fn play(seed: u64, script: impl Fn(u32, &mut Random) -> (Work, Truth)) -> Outcome {
    let mut random = Random::new(seed);
    let mut controller = Controller::new(Settings::default());
    let mut now = Duration::ZERO;
    let mut outcome = Outcome {
        controller_s: 0.0,
        clairvoyant_s: 0.0,
        probe_costs_s: Vec::new(),
        decisions: Vec::new(),
    };
    let mut used = std::collections::BTreeMap::new();
    for at in 0..DECISIONS {
        let (work, truth) = script(at, &mut random);
        let noisy = truth.noisy(&mut random);
        let decision = controller.decide(now, work);
        let epoch = noisy.epoch(work, decision.fraction);
        now += epoch.elapsed;
        controller.observe(now, epoch);
        let elapsed_s = epoch.elapsed.as_secs_f64();
        if decision.probe {
            let instead = *used.get(&work.chunk_bytes).unwrap_or(&0.0);
            let instead_s = noisy.epoch(work, instead).elapsed.as_secs_f64();
            outcome.probe_costs_s.push((elapsed_s - instead_s).max(0.0));
        } else {
            used.insert(work.chunk_bytes, decision.fraction);
        }
        let best = noisy.epoch(work, truth.best_fraction(work));
        outcome.controller_s += elapsed_s;
        outcome.clairvoyant_s += best.elapsed.as_secs_f64();
        outcome.decisions.push(decision);
    }
    outcome
}
