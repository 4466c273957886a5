//! Question to the advisor: the rates that were measured on this host.

use overside_ops::Operation;
use serde::{Deserialize, Serialize};

use crate::Interval;

const OPERATIONS_MAX: usize = 256;
const RATES_MAX: usize = 1024;
/// No memory is as fast.
const RATE_MAX: f64 = 1e15;

/// Rates of this host's CPU, and of the devices that were measured with it.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The host.
    #[serde(default)]
    pub host: Host,
    /// Measured rates of the operations.
    pub measured: Vec<MeasuredOperation>,
    /// Length in bytes of the uncompressed side that answers are for; absent: for all sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer_bytes: Option<u64>,
}

/// The host that it was measured on.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// Number of hardware threads; `None` if it is not known.
    pub threads: Option<u32>,
}

/// Figures of one operation on one data set.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredOperation {
    /// Name of the operation, such as `compress-deflate`.
    pub operation: String,
    /// Name of the operation for display, such as `Compress to DEFLATE`.
    pub title: String,
    /// Regular expressions; matching only.
    #[serde(default)]
    pub patterns: Vec<String>,
    /// Level of the CPU's compression; absent where it is not named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u32>,
    /// `true` if it is an example, such as a study's pattern: no part of an answer unless the
    /// operation is named.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_example: bool,
    /// Compressed bytes / uncompressed bytes; absent if it was not measured, and for matching.
    pub ratio: Option<f64>,
    /// The best that the CPU did, by buffer size, ascending.
    pub cpu: Vec<CpuRate>,
    /// Measured rates of the devices that this host has.
    #[serde(default)]
    pub devices: Vec<DeviceRate>,
}

/// Rate of the CPU with buffers of one size.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CpuRate {
    /// Bytes of a buffer on the uncompressed side.
    pub bytes: u64,
    /// Bytes of the uncompressed side a second.
    pub bytes_per_s: Interval,
    /// Threads that worked.
    pub threads: u32,
    /// Rate of one core by its CPU time, in bytes of the uncompressed side a second.
    pub core_bytes_per_s: Option<Interval>,
    /// Library that reached the rate, such as `isal level 1`; empty if it is not named.
    #[serde(default)]
    pub library: String,
    /// Evidence for the rate; `Measured` by default.
    #[serde(default)]
    pub evidence: CpuEvidence,
    /// Facts that it rests on, where it was not measured.
    #[serde(default)]
    pub facts: Vec<String>,
}

/// Evidence for a rate of the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuEvidence {
    /// The number of threads that was measured on this host.
    #[default]
    Measured,
    /// Scaled from the rate of another number of threads here.
    Scaled,
    /// The rate comes from one core of a study's host.
    Published,
}

/// Measured rate of a device, or of a placement with it, with buffers of one size.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceRate {
    /// Name of the device, such as `dpdk:compress_isal`.
    pub device: String,
    /// `device`, or `split:40`.
    pub placement: String,
    /// `static` or `reconfiguration`.
    pub setting: String,
    /// `poll` or `event`.
    pub completion: String,
    /// Bytes of a buffer on the uncompressed side.
    pub bytes: u64,
    /// Bytes of the uncompressed side a second.
    pub bytes_per_s: Interval,
    /// Bytes a second of the host's CPU time; absent if that was not measured or was nothing.
    pub core_bytes_per_s: Option<Interval>,
}

/// A question that no run can have given rise to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct QuestionError {
    /// Key or operation whose value is wrong.
    pub key: String,
    /// The problem, and the allowed values.
    pub problem: String,
}

impl MeasuredOperation {
    /// The operation.
    pub(super) fn operation(&self) -> Result<Operation, QuestionError> {
        self.operation.parse().map_err(|_| QuestionError {
            key: "operation".into(),
            problem: format!("nothing is called {:?}", self.operation),
        })
    }

    /// Returns the CPU's rate at the largest measured size that does not exceed `bytes`, otherwise
    /// at the smallest size. `None` if no size was measured.
    pub(super) fn cpu_at(&self, bytes: u64) -> Option<&CpuRate> {
        let at = self.cpu.iter().rev().find(|rate| rate.bytes <= bytes);
        at.or(self.cpu.first())
    }
}

impl Question {
    /// Refuses values that cannot be computed with.
    pub(super) fn check(&self) -> Result<(), QuestionError> {
        let wrong = |key: &str, problem: String| Err(QuestionError { key: key.into(), problem });
        if self.buffer_bytes == Some(0) {
            return wrong("buffer_bytes", "at least 1".into());
        }
        if self.measured.len() > OPERATIONS_MAX {
            return wrong("measured", format!("more than {OPERATIONS_MAX} operations"));
        }
        for one in &self.measured {
            if one.cpu.len() + one.devices.len() > RATES_MAX {
                return wrong(&one.operation, format!("more than {RATES_MAX} rates"));
            }
            if one.ratio.is_some_and(|ratio| !(1e-6..=16.0).contains(&ratio)) {
                return wrong("ratio", "from 0.000001 to 16".into());
            }
            let cpu =
                (one.cpu.iter()).map(|rate| (rate.bytes, rate.bytes_per_s, rate.core_bytes_per_s));
            let devices = (one.devices.iter())
                .map(|rate| (rate.bytes, rate.bytes_per_s, rate.core_bytes_per_s));
            for (bytes, rate, core) in cpu.chain(devices) {
                if bytes == 0 || !sensible(rate) || !core.is_none_or(sensible) {
                    return wrong(&one.operation, format!("a rate at {bytes} bytes is no rate"));
                }
            }
            if !one.cpu.is_sorted_by(|a, b| a.bytes < b.bytes) {
                return wrong(&one.operation, "sizes ascend".into());
            }
        }
        Ok(())
    }
}

fn sensible(rate: Interval) -> bool {
    rate.low > 0.0 && rate.low <= rate.typ && rate.typ <= rate.high && rate.high <= RATE_MAX
}
