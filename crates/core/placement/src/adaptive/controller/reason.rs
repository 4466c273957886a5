//! Numbers behind a decision of the controller.

use std::fmt;
use std::time::Duration;

use super::probes::Probe;

/// Outcome of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The CPU alone: nothing is known yet.
    Start,
    /// The CPU alone: C1 does not pass, or nothing is known of the device.
    Cpu,
    /// The device alone: C1 passes, C2 does not.
    Device,
    /// Both, by equal finish: C1 and C2 pass.
    Split,
    /// A probe, to learn something.
    Probe(Probe),
}

/// A gate: passed if the ratio of two times is under the limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gate {
    /// Time of the guarded placement, divided by time of the alternative.
    pub ratio: f64,
    /// The limit that held, hysteresis included.
    pub limit: f64,
}

impl Gate {
    /// Returns `true` if the ratio is under the limit.
    pub fn passes(self) -> bool {
        self.ratio < self.limit
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.passes() { "<" } else { "not <" };
        write!(f, "{:.3} {sign} {:.2}", self.ratio, self.limit)
    }
}

/// The rates of a target in bytes a second; `None` where it was never seen.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Rate while the other target is idle.
    pub alone: Option<f64>,
    /// Rate while the other target works, too.
    pub together: Option<f64>,
}

impl fmt::Display for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mb = |rate: f64| rate / 1e6;
        match (self.together, self.alone) {
            (Some(together), Some(alone)) => {
                write!(f, "{:.1} MB/s ({:.1} alone)", mb(together), mb(alone))
            }
            (Some(together), None) => write!(f, "{:.1} MB/s", mb(together)),
            (None, Some(alone)) => write!(f, "{:.1} MB/s alone", mb(alone)),
            (None, None) => f.write_str("not seen"),
        }
    }
}

/// Numbers that a decision of the controller is based on.
///
/// `Display` writes one line, as `--explain` prints it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reason {
    /// Outcome of the decision.
    pub verdict: Verdict,
    /// The bytes that the times are for.
    pub bytes: u64,
    /// The CPU's rates.
    pub cpu: Rates,
    /// The device's rates, without overhead.
    pub device: Rates,
    /// `true` if the device had work and finished none; its rates are upper bounds. It is not used,
    /// only probed.
    pub device_stopped: bool,
    /// Time in an epoch that using the device costs beyond its work on bytes, in seconds.
    pub overhead_s: f64,
    /// Predicted time of the CPU alone, in seconds.
    pub cpu_s: Option<f64>,
    /// Predicted time of the device alone, overhead included, in seconds.
    pub device_s: Option<f64>,
    /// Predicted time of the split with equal finish, in seconds; `None` if there is none.
    pub split_s: Option<f64>,
    /// The device's fraction at equal finish, 0 to 1.
    pub equal_finish: f64,
    /// C1: the best time with the device over the CPU's alone.
    pub c1: Option<Gate>,
    /// C2: the split's time over the better target's alone.
    pub c2: Option<Gate>,
    /// The next probe and the time until it is due; `None` if none is planned. It waits longer if it
    /// would cost more than probes may.
    pub next_probe: Option<(Probe, Duration)>,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "cpu", "device")
    }
}

impl Reason {
    /// Describes the reason in a line, with these names of the two sides.
    pub(crate) fn between(&self, cpu: &str, device: &str) -> String {
        let mut line = String::new();
        // A string takes all that is written.
        let _ = self.write(&mut line, cpu, device);
        line
    }

    fn write(&self, f: &mut dyn fmt::Write, cpu: &str, device: &str) -> fmt::Result {
        match self.verdict {
            Verdict::Start => write!(f, "{cpu} alone, nothing is known yet")?,
            Verdict::Cpu => write!(f, "{cpu} alone")?,
            Verdict::Device => write!(f, "{device} alone")?,
            Verdict::Split => write!(f, "split, {:.1} % {device}", 100.0 * self.equal_finish)?,
            Verdict::Probe(probe) => write!(f, "probe of {}", probe.between(cpu, device))?,
        }
        if let Some(gate) = self.c1 {
            write!(f, "; C1 {gate}")?;
        }
        if let Some(gate) = self.c2 {
            write!(f, "; C2 {gate}")?;
        }
        let stopped = if self.device_stopped { "stopped, under " } else { "" };
        write!(f, "; {cpu} {}, {device} {stopped}{}", self.cpu, self.device)?;
        if self.overhead_s > 0.0 {
            write!(f, " and {:.3} ms overhead", self.overhead_s * 1e3)?;
        }
        write!(f, "; {:.3} MB take", self.bytes as f64 / 1e6)?;
        let times = [(cpu, self.cpu_s), (device, self.device_s), ("split", self.split_s)];
        for (at, (name, time_s)) in times.into_iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match time_s {
                Some(time_s) => write!(f, "{comma} {name} {:.3} ms", time_s * 1e3)?,
                None => write!(f, "{comma} {name} unknown")?,
            }
        }
        match (self.verdict, self.next_probe) {
            (Verdict::Probe(_), _) => Ok(()),
            (_, Some((probe, wait))) => {
                write!(f, "; next probe of {} ", probe.between(cpu, device))?;
                match wait {
                    Duration::ZERO => f.write_str("when it may cost its time"),
                    wait => write!(f, "in {:.3} s", wait.as_secs_f64()),
                }
            }
            (_, None) => f.write_str("; no probe planned"),
        }
    }
}
