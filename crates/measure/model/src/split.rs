//! Closed form of co-processing: one input shared between a CPU core and a device.
//!
//! The caller hands the device its share `f`, works on the rest, and collects. It drives the
//! device's last job itself, so that one is not overlapped; a context that has to be set up
//! waits while the CPU works:
//!
//! ```text
//! T(f) = t + max((1 - f) n / R,  c + f n / r - t)      f > 0
//! T(0) = n / R
//! ```
//!
//! `R` is the CPU's rate, `r` the device's, `c` the cost of a context, `t` the time of one job. At
//! zero T jumps by the fixed cost of the device, however small its share is.

pub(crate) mod published;

use crate::codec::jobs;

/// One input and the two that share it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// Length of the input in bytes.
    pub bytes: f64,
    /// Bytes a second of the CPU core.
    pub cpu_rate: f64,
    /// Bytes a second of the device, with its context set up.
    pub device_rate: f64,
    /// Time to set up a context, in nanoseconds; zero if it is kept.
    pub context_ns: f64,
    /// The longest job that the device takes, in bytes.
    pub largest_job_bytes: f64,
}

impl Split {
    /// Nanoseconds of the CPU's own work, with a share of `share` (0 to 1) on the device.
    fn cpu_work_ns(&self, share: f64) -> f64 {
        (1.0 - share) * self.bytes / self.cpu_rate * 1e9
    }

    fn device_ns(&self, share: f64) -> f64 {
        share * self.bytes / self.device_rate * 1e9
    }

    fn job_ns(&self, share: f64) -> f64 {
        self.device_ns(share) / jobs(share * self.bytes, self.largest_job_bytes)
    }

    /// Nanoseconds for the input, with a share of `share` (0 to 1) on the device.
    pub fn time_ns(&self, share: f64) -> f64 {
        if share <= 0.0 {
            return self.cpu_work_ns(0.0);
        }
        let job = self.job_ns(share);
        let device = self.context_ns + self.device_ns(share) - job;
        job + self.cpu_work_ns(share).max(device)
    }

    /// Bytes a second.
    pub fn throughput(&self, share: f64) -> f64 {
        self.bytes / self.time_ns(share) * 1e9
    }

    /// Share of the CPU time of doing all on the CPU that is saved, 0 to 1. The caller drives one
    /// job; it sleeps while a context is set up.
    pub fn cpu_saved(&self, share: f64) -> f64 {
        if share <= 0.0 {
            return 0.0;
        }
        let spent = self.cpu_work_ns(share) + self.job_ns(share);
        (1.0 - spent / self.cpu_work_ns(0.0)).max(0.0)
    }

    /// The share in hundredths that gives the highest throughput; the smallest of equal ones.
    pub fn best_share(&self) -> f64 {
        let mut best = 0.0;
        for percent in 1..=100 {
            let share = f64::from(percent) / 100.0;
            if self.throughput(share) > self.throughput(best) {
                best = share;
            }
        }
        best
    }

    /// Returns the resource that limits the split at a share of `share`.
    pub fn bottleneck(&self, share: f64) -> &'static str {
        if share <= 0.0 {
            return "CPU core";
        }
        let engine = self.device_ns(share) - self.job_ns(share);
        if self.cpu_work_ns(share) > self.context_ns + engine {
            "CPU core"
        } else if self.context_ns > self.device_ns(share) {
            "context set-up"
        } else {
            "device"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUT: Split = Split {
        bytes: 2_097_152.0,
        cpu_rate: 26e6,
        device_rate: 3e9,
        context_ns: 0.0,
        largest_job_bytes: 134_217_728.0,
    };

    #[test]
    fn without_a_share_it_is_the_cpu_and_with_all_the_device() {
        assert!((INPUT.throughput(0.0) / 26e6 - 1.0).abs() < 1e-12);
        assert!((INPUT.throughput(1.0) / 3e9 - 1.0).abs() < 1e-12);
        assert_eq!(INPUT.best_share(), 1.0);
        assert_eq!(INPUT.cpu_saved(0.0), 0.0);
        assert!(INPUT.cpu_saved(0.9) > 0.88 && INPUT.cpu_saved(0.9) < 0.9);
    }

    #[test]
    fn a_context_makes_time_jump_at_the_first_byte_and_is_hidden_by_a_slow_cpu() {
        let reconfigured = Split { context_ns: 13.5e6, cpu_rate: 235e6, ..INPUT };
        let jump = reconfigured.time_ns(0.01) - reconfigured.time_ns(0.0);
        assert!(jump > 4e6, "{jump}");
        assert_eq!(reconfigured.bottleneck(0.5), "context set-up");
        let hidden = Split { context_ns: 13.5e6, ..INPUT };
        assert_eq!(hidden.time_ns(0.1), INPUT.time_ns(0.1));
        assert_eq!(hidden.bottleneck(0.1), "CPU core");
    }

    #[test]
    fn many_small_jobs_overlap_so_that_the_best_share_is_inside() {
        let file = Split {
            bytes: 20e6,
            cpu_rate: 3e9,
            device_rate: 6e9,
            context_ns: 0.0,
            largest_job_bytes: 1e6,
        };
        let best = file.best_share();
        assert!(best > 0.6 && best < 0.7, "{best}");
        assert!(file.throughput(best) > 8e9);
    }
}
