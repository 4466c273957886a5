//! Placements as they are written: `cpu`, `device`, `split:40`, `adaptive`. The names of the study of
//! co-processing (Giouroukis et al., PVLDB 18(13), 2025) stand for the same: `fCPU`; `cDPU`, `dDPU` and
//! `rDPU`; `cCOMP:40`, `cDECOMP:40` and `cREG:40`.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

/// Who does the work. Written `cpu`, `device`, `split:40`, `adaptive`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// The CPU alone.
    Cpu,
    /// The device alone; the CPU, if there is one, does again what the device fails at.
    Device,
    /// So many percent of the bytes, 0 to 100, go to the device. Which chunks these are depends on
    /// nothing but their lengths on the uncompressed side: of what is decompressed, the longest
    /// results that are wanted.
    Split(f64),
    /// Both take chunks from one queue, and the controller says how much the device may take.
    Adaptive,
}

impl Policy {
    /// What holds where it was said in part: without a policy it is adaptive if there is a device,
    /// else the CPU. `None` if what was asked for needs a device and there is none.
    pub fn settled(asked: Option<Self>, has_device: bool) -> Option<Self> {
        match asked {
            None if has_device => Some(Self::Adaptive),
            None => Some(Self::Cpu),
            Some(asked) => (has_device || !asked.uses_device()).then_some(asked),
        }
    }

    /// Whether the CPU gets chunks of its own.
    pub fn uses_cpu(self) -> bool {
        match self {
            Self::Cpu | Self::Adaptive => true,
            Self::Device => false,
            Self::Split(percent) => percent < 100.0,
        }
    }

    /// Whether the device gets chunks.
    pub fn uses_device(self) -> bool {
        match self {
            Self::Cpu => false,
            Self::Device | Self::Adaptive => true,
            Self::Split(percent) => percent > 0.0,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Device => f.write_str("device"),
            Self::Split(percent) => write!(f, "split:{percent}"),
            Self::Adaptive => f.write_str("adaptive"),
        }
    }
}

/// What a split is written as: here, and in the study of co-processing.
const SPLITS: [&str; 4] = ["split:", "cCOMP:", "cDECOMP:", "cREG:"];

/// A placement that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No policy of that name.
    #[error("no placement is called {0:?}; there are cpu, device, split:PERCENT and adaptive")]
    Unknown(String),
    /// The percentage is not a number from 0 to 100.
    #[error("{0:?} is not a percentage from 0 to 100")]
    Percent(String),
}

impl FromStr for Policy {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "cpu" | "fCPU" => Ok(Self::Cpu),
            "device" | "cDPU" | "dDPU" | "rDPU" => Ok(Self::Device),
            "adaptive" => Ok(Self::Adaptive),
            _ => {
                let percent = (SPLITS.iter().find_map(|name| text.strip_prefix(name)))
                    .ok_or_else(|| PolicyError::Unknown(text.into()))?;
                (percent.parse::<f64>().ok())
                    .filter(|value| (0.0..=100.0).contains(value))
                    .map(|value| Self::Split(value.abs()))
                    .ok_or_else(|| PolicyError::Percent(percent.into()))
            }
        }
    }
}

/// Where a chunk runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Target {
    /// The CPU.
    Cpu,
    /// The device.
    Device,
}

impl Target {
    /// The other one.
    pub(crate) fn other(self) -> Self {
        match self {
            Self::Cpu => Self::Device,
            Self::Device => Self::Cpu,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
