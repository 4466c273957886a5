//! Where a stage runs, as definitions write it.

use std::fmt;
use std::str::FromStr;

use overside_placement::{Policy, Shares};

use super::word::as_words;

/// Where a stage's batches run. Written `host`, `device`, `split:40`, `adaptive`, or the name of a
/// node.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum StagePlacement {
    /// On the host's threads.
    #[default]
    Host,
    /// On the stage's device; the host does again what that fails at.
    Device,
    /// On this node; the host does again what that fails at.
    Node(String),
    /// So many percent of the bytes on the stage's node, or on each of its devices.
    Split(Shares),
    /// On the stage's node as long as that keeps up, or as the controller of
    /// [`Policy::Adaptive`] divides it between host and device.
    Adaptive,
}

impl StagePlacement {
    /// What it means for the host's part where the stage has a device and no node.
    pub(crate) fn policy(&self) -> Policy {
        match self {
            Self::Host | Self::Node(_) => Policy::Cpu,
            Self::Device => Policy::Device,
            Self::Split(shares) => Policy::Split(*shares),
            Self::Adaptive => Policy::Adaptive,
        }
    }
}

impl FromStr for StagePlacement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "host" => Self::Host,
            "device" => Self::Device,
            "adaptive" => Self::Adaptive,
            _ if text.starts_with("split:") => match text.parse() {
                Ok(Policy::Split(shares)) => Self::Split(shares),
                Ok(_) => Self::Host,
                Err(error) => return Err(error.to_string()),
            },
            node => Self::Node(node.to_owned()),
        })
    }
}

impl fmt::Display for StagePlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Device => f.write_str("device"),
            Self::Node(name) => f.write_str(name),
            Self::Split(shares) => write!(f, "split:{shares}"),
            Self::Adaptive => f.write_str("adaptive"),
        }
    }
}

as_words! { StagePlacement }
