//! Clients and servers on the host and on the card; study 002, section 4.1.
//!
//! The study published hardly any absolute figure, so that rates are relative to those of clients
//! and server on hosts (CH-SH) on the same card.

use serde::Deserialize;

use super::{Design, Setup, Testbed, host_in_flight, latency_ns, throughput_per_s};
use crate::{Evaluation, EvidenceLevel, MissingParameter};

/// The store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Application {
    /// RDMA writes for requests, keys of 16 and values of 32 bytes.
    Herd,
    /// DPDK packets, keys and values of 8 bytes.
    Mica,
}

impl Application {
    /// Returns the store's name in scenarios: `herd` or `mica`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Herd => "herd",
            Self::Mica => "mica",
        }
    }
}

/// Machines on which clients and server run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pairing {
    /// Clients on a host, server on a host.
    ChSh,
    /// Clients on a host, server on a card.
    ChSd,
    /// Clients on a card, server on a host.
    CdSh,
    /// Both on cards.
    CdSd,
    /// Clients on a host and on its card, server on a host.
    CdhSh,
}

impl Pairing {
    /// Returns the pairing's name: `ch-sh` and so on.
    pub fn name(self) -> &'static str {
        match self {
            Self::ChSh => "ch-sh",
            Self::ChSd => "ch-sd",
            Self::CdSh => "cd-sh",
            Self::CdSd => "cd-sd",
            Self::CdhSh => "cdh-sh",
        }
    }

    /// Returns the resource that limits the pairing.
    pub fn bottleneck(self) -> &'static str {
        match self {
            Self::ChSh | Self::CdhSh => "host cores of the server",
            Self::ChSd => "Arm cores of the server",
            Self::CdSh | Self::CdSd => "Arm cores of the clients",
        }
    }
}

/// GETs in a hundred requests of the published mixes.
const MIXES: [u32; 3] = [100, 95, 50];

/// Returns a value by the share of GETs. Without one, returns that of the nearest mix, which weakens the
/// evidence to `away`.
fn by_gets(
    value: impl Fn(&str) -> Evaluation,
    bed: &Testbed<'_, '_>,
    gets: f64,
    away: EvidenceLevel,
) -> Evaluation {
    let asked = 100.0 * gets;
    let mut mixes = MIXES;
    mixes.sort_by(|a, b| {
        let far = |mix: &u32| (f64::from(*mix) - asked).abs();
        far(a).total_cmp(&far(b))
    });
    let mut first = None;
    for mix in mixes {
        match value(&format!("get{mix}")) {
            Ok(value) => {
                if f64::from(mix) != asked {
                    bed.weaken_evidence(away);
                }
                return Ok(value);
            }
            Err(unknown) => first = first.or(Some(unknown)),
        }
    }
    Err(first.expect("there are three mixes"))
}

/// Returns the advantage of CH-SH over clients on a card: the ratio of throughputs for
/// `offload.rate`, of latencies for `offload.delay`.
fn offload(bed: &Testbed<'_, '_>, store: Application, what: &str, gets: f64) -> Evaluation {
    let herd = |bed: &Testbed<'_, '_>| {
        // How late answers are differs more from mix to mix than how many there are.
        let away = match what {
            "offload.delay" => EvidenceLevel::Application,
            _ => EvidenceLevel::Card,
        };
        let value = |mix: &str| bed.pairing_host(&format!("herd.{what}.{mix}"));
        by_gets(value, bed, gets, away)
    };
    let mica = |bed: &Testbed<'_, '_>| {
        let name = format!("mica.{what}");
        bed.card(&name).or_else(|_| {
            // Published for the first two generations.
            bed.weaken_evidence(EvidenceLevel::Application);
            bed.of("bf2-200g").card(&name)
        })
    };
    let other = |unknown, other: Evaluation| {
        bed.weaken_evidence(EvidenceLevel::Application);
        other.map_err(|_| unknown)
    };
    match store {
        Application::Herd => herd(bed).or_else(|unknown| other(unknown, mica(bed))),
        Application::Mica => mica(bed).or_else(|unknown| other(unknown, herd(bed))),
    }
}

/// Throughput over that of CH-SH on the same card; `most` is at the load where they differ most,
/// else at the peak of both.
pub fn relative_rate(
    bed: &Testbed<'_, '_>,
    store: Application,
    pairing: Pairing,
    gets: f64,
    most: bool,
) -> Evaluation {
    match pairing {
        Pairing::ChSh => Ok(1.0),
        Pairing::CdhSh => {
            if store != Application::Herd {
                bed.weaken_evidence(EvidenceLevel::Application);
            }
            bed.pairing_host("herd.clients.gain")
        }
        // Clients on a card are what limits, wherever the server is.
        Pairing::CdSh | Pairing::CdSd => {
            let peak = (store == Application::Mica && !most)
                .then(|| bed.of("bf2-200g").card("mica.clients.peak").ok())
                .flatten();
            match peak {
                Some(peak) => {
                    if bed.measured_card() != "bf2-200g" {
                        bed.weaken_evidence(EvidenceLevel::Application);
                    }
                    Ok(1.0 / peak)
                }
                None if store == Application::Mica && !most => {
                    // At the load where they differ most, for want of the peak.
                    bed.weaken_evidence(EvidenceLevel::Application);
                    Ok(1.0 / offload(bed, store, "offload.rate", gets)?)
                }
                None => Ok(1.0 / offload(bed, store, "offload.rate", gets)?),
            }
        }
        Pairing::ChSd if store == Application::Mica => {
            // The same machines and the same store as in study 003.
            bed.weaken_evidence(EvidenceLevel::Card);
            let rate =
                |design| Evaluation::Ok(throughput_per_s(bed, &Setup::new(design, gets))?.value);
            Ok(rate(Design::DpuOnly)? / rate(Design::CpuOnly)?)
        }
        Pairing::ChSd => Err(MissingParameter::parameter("kv.herd.soc.gain")),
    }
}

/// Latency over that of CH-SH on the same card, at the load where they differ most.
pub fn relative_latency(
    bed: &Testbed<'_, '_>,
    store: Application,
    pairing: Pairing,
    gets: f64,
) -> Evaluation {
    match pairing {
        Pairing::ChSh => Ok(1.0),
        Pairing::CdSh | Pairing::CdSd => offload(bed, store, "offload.delay", gets),
        Pairing::ChSd if store == Application::Mica => {
            // Latency depends on how the study's clients send. What they saw of the server on a
            // BlueField-3 was published against a host behind a BlueField-2.
            if let Some(ratio) = bed.attempt(|bed| soc_against_older_host(bed, gets, true)) {
                bed.weaken_evidence(EvidenceLevel::Application);
                return Ok(ratio);
            }
            bed.weaken_evidence(EvidenceLevel::Application);
            let latency =
                |design| Evaluation::Ok(latency_ns(bed, &Setup::new(design, gets), false)?.value);
            Ok(latency(Design::DpuOnly)? / latency(Design::CpuOnly)?)
        }
        Pairing::ChSd | Pairing::CdhSh => Err(MissingParameter::parameter(format!(
            "kv.{}.{}.delay",
            store.name(),
            pairing.name()
        ))),
    }
}

/// CH-SH behind a BlueField-3 over CH-SH behind the cards before it: throughput, or how many
/// times shorter latency is.
pub fn generation_gain(
    bed: &Testbed<'_, '_>,
    store: Application,
    gets: f64,
    latency: bool,
) -> Evaluation {
    let (new, old) = (bed.of("bf3-8c"), bed.of("bf2-200g"));
    match (store, latency) {
        (Application::Herd, false) => {
            let value = |mix: &str| new.card(&format!("herd.generation-gain.{mix}"));
            Ok(1.0 + by_gets(value, bed, gets, EvidenceLevel::Card)?)
        }
        (Application::Herd, true) => Err(MissingParameter::parameter("kv.herd.generation-delay")),
        (Application::Mica, false) => {
            bed.weaken_evidence(EvidenceLevel::Card);
            let rate = |bed: &Testbed<'_, '_>| {
                Evaluation::Ok(throughput_per_s(bed, &Setup::new(Design::CpuOnly, gets))?.value)
            };
            Ok(rate(&new)? / rate(&old)?)
        }
        // Their throughput is alike, so that latency goes with the number of requests that wait.
        (Application::Mica, true) => {
            bed.weaken_evidence(EvidenceLevel::Application);
            Ok(host_in_flight(&old)? / host_in_flight(&new)?)
        }
    }
}

/// MICA on the Arm cores of a BlueField-3 over MICA on a host behind a BlueField-2, at the load
/// where they differ most: throughput, or latency.
pub fn soc_against_older_host(bed: &Testbed<'_, '_>, gets: f64, latency: bool) -> Evaluation {
    let value = |what: &str| {
        let by_mix = |mix: &str| bed.card(&format!("mica.soc.{what}.{mix}"));
        by_gets(by_mix, bed, gets, EvidenceLevel::Card)
    };
    if latency { Ok(1.0 - value("delay-cut")?) } else { value("gain") }
}
