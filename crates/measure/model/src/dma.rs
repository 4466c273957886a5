//! One transfer between a host and its card: DMA, RDMA and RDMA with the payload in the request.
//!
//! No absolute latency of a DMA is published, only ratios. So times are counted in the time of one
//! short polled DMA on the same card, which is `dma.copy.latency.poll` where an owner has measured
//! it:
//!
//! ```text
//! T = completion(mode, initiator) + (bytes + packets x packet) / knee
//! ```
//!
//! A polled completion makes the first term 1. `dma.knee` is the length that takes as long to move
//! as everything else of a polled transfer, and a packet of `pcie.payload` bytes costs as much as
//! `packet` further bytes. RDMA divides either term by a DMA's ratio to it. An emulated engine needs a
//! time: there `dma.knee` bytes take what the card's link takes for them, which is the least.

use serde::{Deserialize, Serialize};

use crate::fallback::FallbackEvidence;
use crate::{
    Answer, Completion, Evaluation, EvidenceLevel, Initiator, Library, MissingParameter, Outcome,
    Values,
};

/// Mechanism that moves the bytes of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Primitive {
    /// The card's DMA engine.
    Dma,
    /// RDMA between the host and its own card.
    Rdma,
    /// RDMA with the payload in the work request; up to 128 bytes, writes only.
    RdmaInline,
}

/// Direction of bytes, seen from the initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Towards the initiator.
    Read,
    /// Away from the initiator.
    Write,
}

/// One transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// Mechanism that moves the bytes: the DMA engine or RDMA.
    pub primitive: Primitive,
    /// Machine whose core starts the transfer.
    pub initiator: Initiator,
    /// Way in which that core learns that the transfer is done.
    pub completion: Completion,
    /// Direction of the transfer.
    pub access: Access,
    /// Length of the transfer in bytes.
    pub bytes: f64,
}

/// The longest payload that fits into an RDMA request, in bytes (study 002, section 3.3.2, D5).
pub const INLINE_BYTES: f64 = 128.0;
/// The length of the short copy whose time is the unit, in bytes.
const SHORT_COPY_BYTES: f64 = 64.0;
/// Size in bytes from which a transfer is no longer short (study 002, section 3.3).
pub const SHORT_BYTES: f64 = 8.0 * 1024.0;

/// Size in bytes from which moving the bytes takes nearly all of a transfer's time.
pub(crate) const LONG_BYTES: f64 = 1_048_576.0;

/// A parameter of `card`, whose evidence stands under its name; of the only one if that is empty.
pub(crate) fn of(card: &str, name: &str) -> String {
    if card.is_empty() { name.to_owned() } else { format!("{card}/{name}") }
}

fn who(initiator: Initiator) -> &'static str {
    match initiator {
        Initiator::Host => "host",
        Initiator::Soc => "dpu",
    }
}

fn other(initiator: Initiator) -> Initiator {
    match initiator {
        Initiator::Host => Initiator::Soc,
        Initiator::Soc => Initiator::Host,
    }
}

fn way(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
    }
}

/// PCIe packets that `bytes` travel in: `pcie.payload` bytes each.
pub fn packets(values: &Values<'_>, card: &str, bytes: f64) -> Evaluation {
    let payload = values.get(&of(card, "pcie.payload"))?;
    Ok((bytes / payload).ceil().max(1.0))
}

/// Returns the time of a short DMA that is completed by events over that of a polled one.
///
/// `dma.event.host.latency` and `dma.event.dpu.latency` are the ends of the published range over
/// short sizes and both initiators, `dma.event.initiator` how far apart the initiators are.
pub fn event_latency(values: &Values<'_>, card: &str, initiator: Initiator) -> Evaluation {
    let apart = of(card, "dma.event.initiator");
    let (host, dpu) = match (
        values.get(&of(card, "dma.event.host.latency")),
        values.get(&of(card, "dma.event.dpu.latency")),
    ) {
        (Ok(host), Ok(dpu)) => (host, dpu),
        // A stream of events is held up by as much as a single one, at the slower initiator.
        (host, _) => match values.get(&of(card, "dma.event.throughput")) {
            Ok(dpu) => (dpu / values.get(&apart)?, dpu),
            Err(_) => {
                let host = host?;
                (host, host)
            }
        },
    };
    let middle = (host * dpu).sqrt();
    let step = match values.get(&apart) {
        Ok(apart) => apart.sqrt(),
        Err(_) => (dpu / host).sqrt(),
    };
    Ok(match initiator {
        Initiator::Host => middle / step,
        Initiator::Soc => middle * step,
    })
}

/// The time of moving a DMA's bytes in `packets` packets, in times of a short polled DMA.
fn moving_in(values: &Values<'_>, card: &str, transfer: &Transfer, packets: f64) -> Evaluation {
    let named = |initiator| {
        let name = format!("dma.{}.{}.packet", who(initiator), way(transfer.access));
        of(card, &name)
    };
    // One engine moves the bytes, whoever starts it.
    let packet = (values.get(&named(transfer.initiator)))
        .or_else(|_| values.get(&named(other(transfer.initiator))))?;
    Ok((transfer.bytes + packets * packet) / values.get(&of(card, "dma.knee"))?)
}

fn moving(values: &Values<'_>, card: &str, transfer: &Transfer) -> Evaluation {
    moving_in(values, card, transfer, packets(values, card, transfer.bytes)?)
}

/// Returns the time of a polled DMA over that of the same one on `other`, a card behind the same
/// host link. The cards differ in the payload of a packet. The time of a short DMA is assumed to be
/// equal on both; neither is published.
pub fn over_card(values: &Values<'_>, card: &str, other: &str, transfer: &Transfer) -> Evaluation {
    let time = |of: &str| {
        let packets = packets(values, of, transfer.bytes)?;
        Ok(1.0 + moving_in(values, card, transfer, packets)?)
    };
    Ok(time(card)? / time(other)?)
}

/// Returns the closeness of the evidence for [`over_card`].
pub(crate) fn over_card_closeness(
    fallback: &FallbackEvidence,
    card: &str,
    transfer: &Transfer,
) -> EvidenceLevel {
    let packet = format!("dma.{}.{}.packet", who(transfer.initiator), way(transfer.access));
    if fallback.knows(card, &packet) { EvidenceLevel::Same } else { EvidenceLevel::Card }
}

/// Returns the time of a DMA over that of RDMA, for short (`small`), long (`large`) or `inline`
/// payloads.
fn over_rdma(values: &Values<'_>, card: &str, transfer: &Transfer, class: &str) -> Evaluation {
    let named = |initiator| {
        let (who, way) = (who(initiator), way(transfer.access));
        values.get(&of(card, &format!("rdma.{who}.{way}.{class}")))
    };
    let own = named(transfer.initiator);
    if class == "large" {
        // One engine moves the bytes, whoever starts it.
        return own.or_else(|unknown| named(other(transfer.initiator)).map_err(|_| unknown));
    }
    own
}

/// Latency of one transfer with nothing else in flight, in times of a short polled DMA on the
/// same card.
///
/// # Errors
/// [`MissingParameter`]; RDMA completed by events was not published.
pub fn latency(values: &Values<'_>, card: &str, transfer: &Transfer) -> Evaluation {
    let moving = moving(values, card, transfer)?;
    match (transfer.primitive, transfer.completion) {
        (Primitive::Dma, Completion::Poll) => Ok(1.0 + moving),
        (Primitive::Dma, Completion::Event) => {
            Ok(event_latency(values, card, transfer.initiator)? + moving)
        }
        (_, Completion::Event) => Err(MissingParameter::parameter(of(card, "rdma.event.latency"))),
        (Primitive::RdmaInline, Completion::Poll) => {
            let least = over_rdma(values, card, transfer, "inline")?;
            if transfer.bytes > INLINE_BYTES || transfer.access == Access::Read {
                return Err(MissingParameter::nothing(
                    "a request of RDMA carries at most 128 bytes, and only to write them",
                    "ask for rdma, or for a shorter write",
                ));
            }
            Ok((1.0 + moving) / least)
        }
        (Primitive::Rdma, Completion::Poll) => {
            let small = over_rdma(values, card, transfer, "small");
            let large = over_rdma(values, card, transfer, "large");
            if transfer.bytes < SHORT_BYTES {
                return Ok((1.0 + moving) / small?);
            }
            // Where moving dominates, the ratio for short payloads hardly matters.
            let large = match (large, transfer.access) {
                // The same bytes cross the same link: no ratio of long writes was published.
                (Err(_), Access::Write) if small.is_ok() => 1.0,
                (large, _) => large?,
            };
            Ok(1.0 / small.unwrap_or(large) + moving / large)
        }
    }
}

/// Returns the closeness of the evidence for a latency in times of a short polled DMA.
pub(crate) fn closeness(
    fallback: &FallbackEvidence,
    card: &str,
    transfer: &Transfer,
) -> EvidenceLevel {
    let is_short = transfer.bytes <= SHORT_COPY_BYTES;
    match (transfer.primitive, transfer.completion) {
        (Primitive::Dma, Completion::Poll) if is_short => EvidenceLevel::Same,
        (Primitive::Dma, Completion::Poll) => EvidenceLevel::Card,
        (Primitive::Dma, Completion::Event) => {
            let gap = fallback.knows(card, "dma.event.initiator");
            match (gap, fallback.knows(card, "dma.event.dpu.latency")) {
                (true, true) if is_short => EvidenceLevel::Same,
                (true, _) => EvidenceLevel::Card,
                _ => EvidenceLevel::Application,
            }
        }
        _ if transfer.bytes >= LONG_BYTES => {
            let large = format!("rdma.{}.{}.large", who(transfer.initiator), way(transfer.access));
            match fallback.knows(card, &large) {
                true => EvidenceLevel::Same,
                false => EvidenceLevel::Application,
            }
        }
        _ if is_short => EvidenceLevel::Same,
        _ if transfer.bytes >= SHORT_BYTES && transfer.access == Access::Write => {
            EvidenceLevel::Application
        }
        _ => EvidenceLevel::Card,
    }
}

/// Figures that were measured on a card at lengths around a transfer's, from the side that starts
/// it. They need no formula.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Latency of a single transfer (`dma.copy.latency.*`).
    pub latency: bool,
    /// The rate with a full queue on one core (`dma.copy.rate.*`).
    pub rate: bool,
}

impl Measured {
    /// Returns which figures the card's own profile has for a transfer.
    pub fn of(library: &Library, card: &str, transfer: &Transfer) -> Self {
        let profile = library.profile(card);
        let profile = profile.filter(|profile| profile.initiator == transfer.initiator);
        let (Some(profile), Primitive::Dma) = (profile, transfer.primitive) else {
            return Self::default();
        };
        let is_around = |figure| {
            let table = profile.tables.get(&copies(figure, transfer.completion));
            table.is_some_and(|table| {
                let ends = table.at.first().zip(table.at.last());
                ends.is_some_and(|(first, last)| (*first..=*last).contains(&transfer.bytes))
            })
        };
        Self { latency: is_around("latency"), rate: is_around("rate") }
    }
}

/// The name of a figure of copies.
fn copies(figure: &str, completion: Completion) -> String {
    format!("dma.copy.{figure}.{}", completion.name())
}

/// Latency in nanoseconds: as it was measured, or by the formula from `dma.copy.latency.poll`,
/// which is unpublished and `overside calibrate` measures.
pub fn latency_ns(
    values: &Values<'_>,
    card: &str,
    transfer: &Transfer,
    measured: Measured,
) -> Evaluation {
    if measured.latency {
        let name = copies("latency", transfer.completion);
        return values.at(&of(card, &name), transfer.bytes);
    }
    let unit = values.at(&of(card, "dma.copy.latency.poll"), SHORT_COPY_BYTES)?;
    Ok(unit * latency(values, card, transfer)?)
}

/// The share of a core that is busy while transfers follow one another, one in flight.
pub fn core_use(values: &Values<'_>, card: &str, transfer: &Transfer) -> Evaluation {
    if transfer.completion == Completion::Poll {
        return Ok(1.0);
    }
    let busy = format!("dma.event.{}.core", who(transfer.initiator));
    let short = values.get(&of(card, &busy))?;
    let event = event_latency(values, card, transfer.initiator)?;
    Ok(short * event / (event + moving(values, card, transfer)?))
}

/// The rate at which long transfers move with many in flight, in bytes a second.
pub fn peak(values: &Values<'_>, card: &str, initiator: Initiator) -> Evaluation {
    let named = |initiator| of(card, &format!("dma.{}.peak", who(initiator)));
    (values.get(&named(initiator)))
        .or_else(|_| values.get(&named(Initiator::Host)))
        .or_else(|_| values.get(&named(Initiator::Soc)))
}

/// The rate at which one core moves long transfers, in bytes a second: cores share the peak that was seen with
/// so many of them. `None` if their number was not published.
fn core_rate(values: &Values<'_>, card: &str, initiator: Initiator) -> Option<f64> {
    let name = format!("dma.{}.peak", who(initiator));
    let cores = values.get(&of(card, &format!("{name}.cores"))).ok()?;
    Some(values.get(&of(card, &name)).ok()? / cores)
}

/// Short DMAs a second that one core gets through with many in flight.
pub fn short_per_s(
    values: &Values<'_>,
    card: &str,
    initiator: Initiator,
    completion: Completion,
) -> Evaluation {
    let polled = values.get(&of(card, "dma.polled.rate"))?;
    if completion == Completion::Poll {
        return Ok(polled);
    }
    let dpu = polled / values.get(&of(card, "dma.event.throughput"))?;
    match initiator {
        Initiator::Soc => Ok(dpu),
        // Events are no faster than polling.
        Initiator::Host => {
            let apart = values.get(&of(card, "dma.event.throughput.initiator"))?;
            Ok((dpu * apart).min(polled))
        }
    }
}

/// DMAs a second on `cores` cores, and the limiting resource. Each core has `depth` in flight;
/// without it, as many as it takes.
///
/// # Errors
/// [`MissingParameter`]. With a depth the absolute latency has to be known, which is unpublished.
pub fn per_s(
    values: &Values<'_>,
    card: &str,
    transfer: &Transfer,
    (cores, depth): (f64, Option<f64>),
    measured: Measured,
) -> Evaluation<Outcome> {
    let one = if measured.rate {
        let name = copies("rate", transfer.completion);
        values.at(&of(card, &name), transfer.bytes)? / transfer.bytes
    } else {
        short_per_s(values, card, transfer.initiator, transfer.completion)?
    };
    let mut limits = vec![("the cost of a DMA on its core", cores * one)];
    match peak(values, card, transfer.initiator) {
        // One core was seen to do that.
        _ if measured.rate && cores == 1.0 => {}
        Ok(peak) => limits.push(("the link", peak / transfer.bytes)),
        // One core's short transfers fill no link.
        Err(_) if cores == 1.0 && transfer.bytes <= SHORT_COPY_BYTES => {}
        Err(unknown) => return Err(unknown),
    }
    if let (false, Some(core)) = (measured.rate, core_rate(values, card, transfer.initiator)) {
        limits.push(("the queues of its cores", cores * core / transfer.bytes));
    }
    if let Some(depth) = depth {
        let latency_ns = latency_ns(values, card, transfer, measured)?;
        limits.push(("transfers in flight", cores * depth * 1e9 / latency_ns));
    }
    Ok(least(&limits))
}

/// The smallest of several limits, and its name.
pub(crate) fn least(limits: &[(&str, f64)]) -> Outcome {
    let first = limits.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let (name, value) = first.copied().unwrap_or(("nothing", f64::INFINITY));
    Outcome { value, bottleneck: Some(name.to_owned()) }
}

/// Times of a card's DMA engine for transfers of one length.
#[derive(Clone, Debug)]
pub struct Engine {
    /// Time in nanoseconds that one transfer keeps the engine busy: the inverse of its rate with as
    /// many in flight as it takes.
    pub busy_ns: Answer,
    /// Time in nanoseconds from the start of one transfer until its end is noticed, with nothing
    /// else in flight.
    pub latency_ns: Answer,
    /// `true` if no absolute latency was published, so that the published ratios count in the least time that the
    /// link takes for the bytes of `dma.knee`.
    pub is_anchored: bool,
}

/// Returns the names of the emulated cards that run no jobs and have the ratios of DMA: `emulated:` and a profile.
///
/// # Errors
/// As [`profiles`](crate::profiles).
pub fn cards_of_ratios() -> Result<Vec<String>, overside_config::Error> {
    let has_ratios = |profile: &crate::Profile| {
        profile.why_not_emulated().is_some()
            && ["dma.knee", "pcie.rate"].iter().all(|name| profile.values.contains_key(*name))
    };
    let found = crate::profiles()?.into_iter().filter(has_ratios);
    Ok(found.map(|profile| format!("emulated:{}", profile.name)).collect())
}

/// Latency in nanoseconds by a card's own ratios, if moving bytes takes no longer than its link does.
fn anchored_ns(values: &Values<'_>, card: &str, transfer: &Transfer) -> Evaluation {
    let unit_s = values.get(&of(card, "dma.knee"))? / values.get(&of(card, "pcie.rate"))?;
    Ok(unit_s * 1e9 * latency(values, card, transfer)?)
}

/// Predicts the times of a card's DMA engine for transfers that `cores` cores start. Values come
/// from the card's own profile, otherwise from other cards.
pub fn engine(library: &Library, card: &str, transfer: &Transfer, cores: f64) -> Engine {
    let fallback = FallbackEvidence::of(library, &[card]);
    let measured = Measured::of(library, card, transfer);
    let near = |is_measured| match is_measured {
        true => EvidenceLevel::Same,
        false => EvidenceLevel::Card,
    };
    let known = fallback
        .predict(near(measured.latency), |values| latency_ns(values, card, transfer, measured));
    let is_anchored = known.is_err() && fallback.knows(card, "dma.knee");
    let latency_ns = match is_anchored {
        true => fallback.own(|values| anchored_ns(values, card, transfer)).or(known),
        false => known,
    };
    Engine {
        is_anchored: is_anchored && latency_ns.is_ok(),
        latency_ns,
        busy_ns: fallback.predict(near(measured.rate), |values| {
            let rate = per_s(values, card, transfer, (cores, None), measured)?.value;
            // Of whose link nothing is known, other cards' engines say nothing.
            if !measured.rate {
                peak(values, card, transfer.initiator)?;
            }
            Ok(1e9 / rate)
        }),
    }
}
