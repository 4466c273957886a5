//! Text form of placements: `cpu`, `device`, `split:40`, `adaptive`; with several devices `split:90+10`, in
//! their order. The names of the study of co-processing (Giouroukis et al., PVLDB 18(13), 2025) are synonyms:
//! `fCPU`; `cDPU`, `dDPU` and `rDPU`; `cCOMP:40`, `cDECOMP:40` and `cREG:40`.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Devices that may share a stream, in addition to the CPU.
pub const DEVICES_MAX: usize = 4;
/// Targets of a stream: the CPU and its devices.
pub(crate) const TARGETS_MAX: usize = DEVICES_MAX + 1;

/// Rule for which targets do the work. Written `cpu`, `device`, `split:40`, `adaptive`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// The CPU only.
    Cpu,
    /// Only the device; the CPU, if there is one, repeats jobs that the device fails at. Several
    /// devices take chunks from one queue, as the controller lets them.
    Device,
    /// A fixed percentage of the bytes goes to each device. Which chunks these are depends on
    /// nothing but their lengths on the uncompressed side: for decompression, the longest results
    /// that are wanted.
    Split(Shares),
    /// All take chunks from one queue, and the controller decides how much each device may take.
    Adaptive,
}

/// Percentage of the bytes that goes to each device; the CPU gets the rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    percent: [f64; DEVICES_MAX],
    count: usize,
}

impl Shares {
    /// Makes the shares of 1 to [`DEVICES_MAX`] devices, in their order.
    ///
    /// # Errors
    /// One is not a percentage from 0 to 100, they are too many, or more than 100 in all.
    pub fn new(percent: &[f64]) -> Result<Self, PolicyError> {
        let wrong = || PolicyError::Percent(written(percent));
        let is_one = |value: &f64| (0.0..=100.0).contains(value);
        let total: f64 = percent.iter().sum();
        if !percent.iter().all(is_one) || percent.is_empty() {
            return Err(wrong());
        }
        // Thirds, say, may come to a little more.
        if percent.len() > DEVICES_MAX || total > 100.0 + 1e-9 {
            return Err(PolicyError::Shares(written(percent)));
        }
        let mut all = [0.0; DEVICES_MAX];
        for (share, value) in all.iter_mut().zip(percent) {
            *share = value.abs();
        }
        let count = percent.len();
        Ok(Self { percent: all, count })
    }

    /// The percentage of each device.
    pub fn percent(&self) -> &[f64] {
        &self.percent[..self.count]
    }

    /// The percentage of all devices together.
    pub fn total(&self) -> f64 {
        self.percent().iter().sum::<f64>().min(100.0)
    }
}

fn written(percent: &[f64]) -> String {
    let all: Vec<String> = percent.iter().map(f64::to_string).collect();
    all.join("+")
}

impl fmt::Display for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&written(self.percent()))
    }
}

impl FromStr for Shares {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let percent: Result<Vec<f64>, _> = text.split('+').map(str::parse).collect();
        match percent {
            Ok(percent) if percent.iter().all(|value| value.is_finite()) => Self::new(&percent),
            _ => Err(PolicyError::Percent(text.into())),
        }
    }
}

impl Policy {
    /// A split that gives `percent` of the bytes to the one device.
    ///
    /// # Errors
    /// Not a percentage from 0 to 100.
    pub fn split(percent: f64) -> Result<Self, PolicyError> {
        Shares::new(&[percent]).map(Self::Split)
    }

    /// Completes a policy that was given in part. Without a policy it is adaptive if there is a
    /// device, otherwise the CPU. Returns `None` if `asked` needs a device and there is none.
    pub fn settled(asked: Option<Self>, has_device: bool) -> Option<Self> {
        match asked {
            None if has_device => Some(Self::Adaptive),
            None => Some(Self::Cpu),
            Some(asked) => (has_device || !asked.uses_device()).then_some(asked),
        }
    }

    /// This policy in its simplest form: a split that gives everything to the CPU, or to the one
    /// device, is that side. Shares of several devices stay, as [`Policy::Device`] lets the
    /// controller decide between them.
    #[must_use]
    pub fn simplest(self) -> Self {
        match self {
            Self::Split(shares) if shares.total() == 0.0 => Self::Cpu,
            Self::Split(shares) if shares.percent() == [100.0] => Self::Device,
            _ => self,
        }
    }

    /// Returns `true` if the CPU gets chunks of its own, not only those that a device failed at.
    pub fn uses_cpu(self) -> bool {
        match self {
            Self::Cpu | Self::Adaptive => true,
            Self::Device => false,
            Self::Split(shares) => shares.total() < 100.0,
        }
    }

    /// Returns `true` if a target gets chunks of its own. A device without a share is never opened.
    pub fn uses(self, target: Target) -> bool {
        match (self, target) {
            (Self::Split(shares), Target::Device(device)) => {
                shares.percent().get(device).is_some_and(|percent| *percent > 0.0)
            }
            (_, Target::Device(_)) => self.uses_device(),
            (_, Target::Cpu) => self.uses_cpu(),
        }
    }

    /// Returns `true` if at least one device gets chunks.
    pub fn uses_device(self) -> bool {
        match self {
            Self::Cpu => false,
            Self::Device | Self::Adaptive => true,
            Self::Split(shares) => shares.total() > 0.0,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Device => f.write_str("device"),
            Self::Split(shares) => write!(f, "split:{shares}"),
            Self::Adaptive => f.write_str("adaptive"),
        }
    }
}

/// Prefixes of a split: the one of this crate, and those of the study of co-processing.
const SPLITS: [&str; 4] = ["split:", "cCOMP:", "cDECOMP:", "cREG:"];

/// Reason why a text is not a placement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No policy of that name.
    #[error("no placement is called {0:?}; there are cpu, device, split:PERCENT and adaptive")]
    Unknown(String),
    /// A percentage is not a number from 0 to 100.
    #[error("{0:?} is not a percentage from 0 to 100")]
    Percent(String),
    /// More devices, or a greater part for them, than there can be.
    #[error("{0:?} is not a split: at most {DEVICES_MAX} devices, and 100 percent in all")]
    Shares(String),
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
                percent.parse().map(Self::Split)
            }
        }
    }
}

/// Place where a chunk runs. Written `cpu`, `device`, `device2`, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// The CPU.
    Cpu,
    /// One of the devices, in their order from 0.
    Device(usize),
}

impl Target {
    /// Returns the target's index among the targets of a stream. The CPU has index 0.
    pub fn index(self) -> usize {
        match self {
            Self::Cpu => 0,
            Self::Device(device) => device + 1,
        }
    }

    /// The target at a place.
    pub(crate) fn at(index: usize) -> Self {
        match index.checked_sub(1) {
            None => Self::Cpu,
            Some(device) => Self::Device(device),
        }
    }

    /// Returns `true` if the target is a device, not the CPU.
    pub(crate) fn is_device(self) -> bool {
        self != Self::Cpu
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Device(0) => f.write_str("device"),
            Self::Device(device) => write!(f, "device{}", device + 1),
        }
    }
}

impl Serialize for Target {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
