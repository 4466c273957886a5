//! A key-value server on the host, with the card on the path; study 002, section 4.2.

use serde::Deserialize;

use super::{Design, Setup, Testbed, throughput_per_s};
use crate::{Evaluation, EvidenceLevel, Outcome};

/// Component that forwards packets between the port and the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub enum Submode {
    /// A software switch on the Arm cores, in the kernel or in user space.
    #[serde(rename = "sm1-2")]
    SoftwareSwitch,
    /// A forwarding program on the Arm cores.
    #[serde(rename = "sm3")]
    Forwarder,
    /// The card's own switch.
    #[serde(rename = "sm4-5")]
    HardwareSwitch,
}

impl Submode {
    /// All submodes, the slowest first.
    pub const ALL: [Self; 3] = [Self::SoftwareSwitch, Self::Forwarder, Self::HardwareSwitch];

    /// Returns the submode's name: `sm1-2`, `sm3`, `sm4-5`.
    pub fn name(self) -> &'static str {
        match self {
            Self::SoftwareSwitch => "sm1-2",
            Self::Forwarder => "sm3",
            Self::HardwareSwitch => "sm4-5",
        }
    }

    fn bottleneck(self) -> &'static str {
        match self {
            Self::SoftwareSwitch | Self::Forwarder => "Arm cores that forward",
            Self::HardwareSwitch => "host cores",
        }
    }
}

/// Requests a second that the host's server gets through.
pub fn submode_rate_per_s(bed: &Testbed<'_, '_>, submode: Submode) -> Evaluation<Outcome> {
    let value = match submode {
        Submode::SoftwareSwitch => software_switch(bed)?,
        Submode::Forwarder => software_switch(bed)? * bed.card("onpath.sm3.gain")?,
        Submode::HardwareSwitch => {
            let published =
                |bed: &Testbed<'_, '_>| Ok(software_switch(bed)? * bed.card("onpath.sm45.gain")?);
            match bed.attempt(published) {
                Some(rate) => rate,
                None => host_alone(bed)?,
            }
        }
    };
    Ok(Outcome { value, bottleneck: Some(submode.bottleneck().into()) })
}

fn software_switch(bed: &Testbed<'_, '_>) -> Evaluation {
    (bed.card("onpath.sm12.rate")).or_else(|_| Ok(host_alone(bed)? / bed.card("onpath.sm45.gain")?))
}

/// The card's own switch does not hold the host's server back.
fn host_alone(bed: &Testbed<'_, '_>) -> Evaluation {
    bed.weaken_evidence(EvidenceLevel::Application);
    Ok(throughput_per_s(bed, &Setup::new(Design::CpuOnly, 1.0))?.value)
}

/// Latency in nanoseconds at the highest load; published for the software switches only.
pub fn submode_latency_ns(bed: &Testbed<'_, '_>, submode: Submode) -> Evaluation<Outcome> {
    let value = match submode {
        Submode::SoftwareSwitch => bed.card("onpath.sm12.latency")?,
        Submode::Forwarder => bed.card("onpath.sm3.latency")?,
        Submode::HardwareSwitch => bed.card("onpath.sm45.latency")?,
    };
    Ok(Outcome { value, bottleneck: Some(submode.bottleneck().into()) })
}
