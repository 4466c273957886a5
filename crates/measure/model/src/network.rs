//! TCP and RDMA between machines: with a host or a card's own cores at the end, and with the card
//! in the path of its host's traffic.

use serde::{Deserialize, Serialize};

use crate::dma::{least, of};
use crate::fallback::FallbackEvidence;
use crate::{
    Answer, Evaluation, EvidenceLevel, Library, Outcome, ParameterValue, Prediction, Values,
};

/// Way in which a card forwards its host's traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Submode {
    /// Open vSwitch in the kernel of the card's cores.
    Sm1,
    /// Open vSwitch on DPDK.
    Sm2,
    /// A DPDK poll-mode driver without a switch.
    Sm3,
    /// Open vSwitch in the kernel, with the rules in the card's switch.
    Sm4,
    /// Open vSwitch on DPDK, with the rules in the card's switch.
    Sm5,
    /// The card's cores are not in the path.
    OffPath,
}

impl Submode {
    /// Returns `true` if packets pass the card's cores.
    pub const fn is_slow_path(self) -> bool {
        matches!(self, Self::Sm1 | Self::Sm2 | Self::Sm3)
    }
}

/// An operation over RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// Reads remote memory.
    Read,
    /// Writes remote memory.
    Write,
    /// A message.
    SendRecv,
}

impl Verb {
    const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::SendRecv => "send",
        }
    }
}

/// Returns the rate of one port of a card, in bytes a second; `None` if no fact gives it.
pub fn port(library: &Library, card: &str) -> Option<Prediction> {
    match library.evidence(&[card]).get(&of(card, "network.rate")) {
        Some(ParameterValue::Quantity(rate)) => {
            Some(Prediction { facts: rate.facts.clone(), ..Prediction::given(rate.interval()) })
        }
        _ => None,
    }
}

/// No more than a card's port carries, where that is known.
pub fn within_port(answer: Answer, port: Option<&Prediction>) -> Answer {
    let answer = answer?;
    Ok(match port {
        Some(port) => answer.bounded_by(port, "the card's port"),
        None => answer,
    })
}

/// The largest rate of TCP between two hosts through a card, in bytes a second.
///
/// Traffic that does not pass the card's cores runs at the hosts' own rate, the same behind every card.
pub fn tcp_through(values: &Values<'_>, card: &str, submode: Submode) -> Evaluation {
    let get = |name: &str| values.get(&of(card, name));
    match submode {
        Submode::Sm1 => get("tcp.sm1.rate"),
        Submode::Sm2 => get("tcp.sm2.rate").or_else(|unknown| {
            let deficit = get("tcp.slowpath.deficit").map_err(|_| unknown)?;
            Ok(get("tcp.fastpath.rate")? * (1.0 - deficit))
        }),
        Submode::Sm3 => {
            let sm2 = tcp_through(values, card, Submode::Sm2)?;
            match get("tcp.sm3.gain") {
                Ok(gain) => Ok(sm2 * gain),
                // It lies between the two: faster than the one and slower than the other.
                Err(_) => Ok((sm2 * tcp_through(values, card, Submode::OffPath)?).sqrt()),
            }
        }
        Submode::Sm4 | Submode::Sm5 | Submode::OffPath => {
            get("tcp.fastpath.rate").or_else(|unknown| {
                let deficit = get("tcp.slowpath.deficit").map_err(|_| unknown)?;
                Ok(get("tcp.sm2.rate")? / (1.0 - deficit))
            })
        }
    }
}

/// Returns the closeness of the evidence for a submode's rate: published, derived from others, or
/// only known to lie between them.
pub(crate) fn through_closeness(
    fallback: &FallbackEvidence,
    card: &str,
    submode: Submode,
) -> EvidenceLevel {
    let direct = match submode {
        Submode::Sm1 => "tcp.sm1.rate",
        Submode::Sm2 | Submode::Sm3 => "tcp.sm2.rate",
        Submode::Sm4 | Submode::Sm5 | Submode::OffPath => "tcp.fastpath.rate",
    };
    if submode == Submode::Sm3 && !fallback.knows(card, "tcp.sm3.gain") {
        EvidenceLevel::Application
    } else if fallback.knows(card, direct) {
        EvidenceLevel::Same
    } else {
        EvidenceLevel::Card
    }
}

/// Returns the closeness of the evidence for streams that end on a machine.
pub(crate) fn ending_closeness(
    fallback: &FallbackEvidence,
    machine: &str,
    threads: f64,
) -> EvidenceLevel {
    let core = fallback.knows(machine, "tcp.core.rate");
    if core && (threads <= 1.0 || fallback.knows(machine, "tcp.peak.rate")) {
        EvidenceLevel::Same
    } else {
        EvidenceLevel::Application
    }
}

/// Returns the closeness of the evidence for the time that the card's switch adds to RDMA.
pub(crate) fn detour_closeness(
    fallback: &FallbackEvidence,
    card: &str,
    verb: Verb,
    long: bool,
) -> EvidenceLevel {
    let class = if long { "large" } else { "small" };
    if fallback.knows(card, &format!("rdma.onpath.{}.{class}", verb.name())) {
        EvidenceLevel::Same
    } else {
        EvidenceLevel::Card
    }
}

/// TCP ending on a machine's cores, in bytes a second, and the limiting resource.
pub fn tcp_ending(values: &Values<'_>, machine: &str, threads: f64) -> Evaluation<Outcome> {
    let core = values.get(&of(machine, "tcp.core.rate"));
    let peak = values.get(&of(machine, "tcp.peak.rate"));
    let port = values.get(&of(machine, "network.rate"));
    match (core, peak) {
        (Ok(core), peak) => {
            let mut limits = vec![("the cores' TCP stack", threads * core)];
            if let Ok(peak) = peak {
                limits.push(("the machine's TCP stack", peak));
            }
            if let Ok(port) = port {
                limits.push(("the port", port));
            }
            Ok(least(&limits))
        }
        // Four threads reach the peak (study 001, section 6.2).
        (Err(_), Ok(peak)) => Ok(least(&[
            ("the cores' TCP stack", peak * threads / 4.0),
            ("the machine's TCP stack", peak),
        ])),
        (Err(unknown), Err(_)) => Err(unknown),
    }
}

/// RDMA connections that it takes to reach the peak of the faster end: one at a host, more where
/// one moves only a share of that.
pub fn rdma_connections(values: &Values<'_>, machine: &str) -> Evaluation {
    let share = values.get(&of(machine, "rdma.remote.rate"))?;
    Ok((1.0 / share).ceil().max(1.0))
}

/// Returns the fraction by which RDMA between two hosts takes longer with the card's switch in the path.
/// Short messages show it in full; `long` ones are of 8 KiB or more.
pub fn rdma_detour(values: &Values<'_>, card: &str, verb: Verb, long: bool) -> Evaluation {
    let get = |class: &str| {
        let name = format!("rdma.onpath.{}.{class}", verb.name());
        values.get(&of(card, &name))
    };
    get(if long { "large" } else { "small" })
}
