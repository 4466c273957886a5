//! Designs of a key-value store: where its communication and processing engines run, and the rates
//! and latencies that follow.
//!
//! Study 003 measured stores without offload on the host (CPU-only) and on the card (DPU-only). The
//! offloading designs follow from these two: an Arm core that hands indexing to the host saves the
//! share of a request that getting and setting take, and a host core that serves its own clients
//! adds its rate without a card.

use serde::Deserialize;

use super::Testbed;
use crate::{Evaluation, EvidenceLevel, MissingParameter, Outcome};

/// Placement of the engines of a key-value store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// Both engines on the host.
    CpuOnly,
    /// Both on the card.
    DpuOnly,
    /// Communication on the card, one host core to process for each Arm core.
    #[serde(rename = "lat")]
    Latency,
    /// Communication on the card, one host core to process for all of them.
    #[serde(rename = "sav")]
    Saving,
    /// Same as `Latency`, and the host's cores also serve clients of their own.
    Dual,
    /// Host and card each serve their own partitions of the keys.
    #[serde(rename = "shrd")]
    Sharded,
}

impl Design {
    /// Returns the design's name in scenarios: `cpu-only`, `dpu-only`, `lat`, `sav`, `dual`,
    /// `shrd`.
    pub fn name(self) -> &'static str {
        match self {
            Self::CpuOnly => "cpu-only",
            Self::DpuOnly => "dpu-only",
            Self::Latency => "lat",
            Self::Saving => "sav",
            Self::Dual => "dual",
            Self::Sharded => "shrd",
        }
    }
}

/// Shares of GETs in the mixes A, B and C of YCSB.
pub const YCSB: [(char, f64); 3] = [('a', 0.5), ('b', 0.95), ('c', 1.0)];

/// The share of GETs in a mix of YCSB; that of C if it is not one of [`YCSB`].
pub fn gets_of(mix: char) -> f64 {
    (YCSB.iter().find(|(name, _)| *name == mix)).map_or(1.0, |(_, gets)| *gets)
}

/// A design, and its load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// Placement of the communication and processing engines.
    pub design: Design,
    /// Requests that are GETs, 0 to 1; the others are SETs.
    pub gets: f64,
    /// Host cores that serve; the study's number for the design if `None`.
    pub host_cores: Option<f64>,
    /// Arm cores that serve; all of the card's if `None`.
    pub soc_cores: Option<f64>,
    /// Bytes of one DMA; a batch's if `None`.
    pub dma_bytes: Option<f64>,
}

impl Setup {
    /// Creates a setup as the study ran it, with its numbers of cores and its DMA size.
    pub fn new(design: Design, gets: f64) -> Self {
        Self { design, gets, host_cores: None, soc_cores: None, dma_bytes: None }
    }
}

/// Rates that each side serves, in requests a second, and the cores that it uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sides {
    /// Requests whose clients talk to the host.
    pub host_per_s: f64,
    /// Requests whose clients talk to the card.
    pub soc_per_s: f64,
    /// Requests that the host cores process for the card, if they do.
    pub processing_per_s: Option<f64>,
    /// Host cores in use.
    pub host_cores: f64,
    /// Arm cores in use.
    pub soc_cores: f64,
    /// Resource that limits the total rate.
    pub bottleneck: &'static str,
}

impl Sides {
    /// Returns the requests a second that both sides serve together.
    pub fn total_per_s(&self) -> f64 {
        let processed = self.processing_per_s.unwrap_or(f64::INFINITY);
        self.host_per_s + self.soc_per_s.min(processed)
    }
}

const ARM: &str = "Arm cores";
const HOST: &str = "host cores";
/// Resource that clients' connections to the host compete for with the card's DMAs (study 003,
/// section 4.5).
const PCIE: &str = "PCIe path";
/// Highest utilization of cores that are chosen for a load, 0 to 1. Above it, requests wait longer
/// than they are served.
const BUSY_MOST: f64 = 0.9;

/// DMA that brings the requests of one batch of the study: 64 slots of 32 bytes.
const BATCH_DMA_BYTES: f64 = 2048.0;

/// A request's time is linear in the share of SETs, between mixes C (none) and A (half).
fn by_mix(gets: f64, at_a: f64, at_c: f64) -> f64 {
    let sets = 2.0 * (1.0 - gets);
    1.0 / ((1.0 - sets) / at_c + sets / at_a)
}

fn is_measured(gets: f64) -> bool {
    gets == 0.5 || gets == 1.0
}

/// The share of a request that getting and setting take, 0 to 1; Table 1 of study 003.
pub(crate) fn processing_share(bed: &Testbed<'_, '_>, gets: f64) -> Evaluation {
    let mut shares = [0.0; 3];
    for (share, (mix, _)) in shares.iter_mut().zip(YCSB) {
        *share = super::shares::share(bed, "getset", mix)?;
    }
    let [a, b, c] = shares;
    Ok(if gets <= 0.95 {
        // Below the mix with fewest GETs it goes on as it did.
        (a + (b - a) * (gets - 0.5) / 0.45).min(0.9)
    } else {
        b + (c - b) * (gets - 0.95) / 0.05
    })
}

/// Requests a second of the card alone, all its cores.
fn dpu_only(bed: &Testbed<'_, '_>, gets: f64) -> Evaluation {
    let scale = bed.scale()?;
    let at_a = bed.card("dpu-only.rate.ycsb-a");
    let at_c = bed.card("dpu-only.rate.ycsb-c");
    if !is_measured(gets) {
        bed.weaken_evidence(EvidenceLevel::Card);
    }
    let rate = match (at_a, at_c) {
        (Ok(a), Ok(c)) => by_mix(gets, a, c),
        (Ok(a), _) => other_mix(bed, a, 0.5, gets)?,
        (_, Ok(c)) => other_mix(bed, c, 1.0, gets)?,
        (Err(unknown), _) => return Err(unknown),
    };
    Ok(rate * scale)
}

/// Computes the rate at one mix from that at another: only the time of getting and setting differs.
fn other_mix(bed: &Testbed<'_, '_>, rate: f64, at: f64, gets: f64) -> Evaluation {
    if at == gets {
        return Ok(rate);
    }
    bed.weaken_evidence(EvidenceLevel::Card);
    let (here, there) = (processing_share(bed, at)?, processing_share(bed, gets)?);
    Ok(rate * (1.0 - there) / (1.0 - here))
}

/// CPU-only over DPU-only throughput.
fn cpu_gain(bed: &Testbed<'_, '_>, gets: f64) -> Evaluation {
    let published = |bed: &Testbed<'_, '_>| {
        (bed.card("cpu-only.gain")).or_else(|unknown| {
            let deficit = bed.card("cpu-only.deficit").map_err(|_| unknown)?;
            Ok(1.0 - deficit)
        })
    };
    let from_rate =
        |bed: &Testbed<'_, '_>| Ok(bed.card("cpu-only.rate.ycsb-a")? / dpu_only(bed, 0.5)?);
    // At the mix where the rate itself was published it is nearer than a ratio for all mixes.
    if gets == 0.5
        && let Some(gain) = bed.attempt(from_rate)
    {
        return Ok(gain);
    }
    published(bed).or_else(|unknown| {
        bed.weaken_evidence(EvidenceLevel::Card);
        bed.attempt(from_rate).ok_or(unknown)
    })
}

/// Requests a second of the host alone, with as many cores as the card has.
fn cpu_only(bed: &Testbed<'_, '_>, gets: f64) -> Evaluation {
    // The host is the same whatever the card: nothing is scaled.
    let bed = &bed.of(bed.measured_card());
    if gets == 0.5
        && let Ok(rate) = bed.card("cpu-only.rate.ycsb-a")
    {
        return Ok(rate);
    }
    let known = bed.attempt(|bed| {
        bed.weaken_evidence(EvidenceLevel::Card);
        Ok(cpu_gain(bed, gets)? * dpu_only(bed, gets)?)
    });
    if let Some(rate) = known {
        return Ok(rate);
    }
    bed.weaken_evidence(EvidenceLevel::Card);
    bed.host("cpu-only.rate")
}

/// Returns the cost for an Arm core to hand a request to the host, as a share of a whole request
/// there.
fn handing_over(bed: &Testbed<'_, '_>) -> f64 {
    // Published for one card and mix only; it is small, and taken as the same elsewhere.
    let on = bed.of("bf3-8c");
    let known = on.attempt(|on| {
        let kept = 1.0 - processing_share(on, 1.0)?;
        let whole = on.card("dpu-only.rate.ycsb-c")?;
        Ok((whole / on.card("lat.rate.ycsb-c")? - kept).max(0.0))
    });
    known.unwrap_or_else(|| {
        bed.weaken_evidence(EvidenceLevel::Card);
        0.0
    })
}

/// Requests a second that all Arm cores receive, parse and answer, the host doing the rest.
fn communication(bed: &Testbed<'_, '_>, gets: f64) -> Evaluation {
    let own = bed.measured_card() == "bf3-8c" && gets == 1.0;
    if !own {
        bed.weaken_evidence(EvidenceLevel::Card);
    }
    let kept = 1.0 - processing_share(bed, gets)? + handing_over(bed);
    Ok(dpu_only(bed, gets)? / kept)
}

/// Returns the Arm cores' rate with DMAs of `dma_bytes` over that with the DMA of the study's
/// batch.
///
/// A DMA costs them the same at any size that batches have, so that the smaller it is the fewer
/// requests share it. The cost comes from the gain of doubling 2 KiB.
fn dma_size_factor(bed: &Testbed<'_, '_>, dma_bytes: Option<f64>) -> Evaluation {
    let Some(bytes) = dma_bytes.filter(|bytes| *bytes != BATCH_DMA_BYTES) else {
        return Ok(1.0);
    };
    bed.weaken_evidence(EvidenceLevel::Card);
    let gain = 1.0 + bed.of("bf2-200g").card("dual.dma-doubling")?;
    let share = (gain - 1.0) / (1.0 - gain / 2.0);
    Ok((1.0 + share) / (1.0 + share * BATCH_DMA_BYTES / bytes))
}

/// Host cores with connections of their own from which the card's rate suffers, and by how much.
fn congestion(bed: &Testbed<'_, '_>) -> Evaluation<(f64, f64)> {
    let on = bed.of("bf2-200g");
    Ok((on.card("dual.knee")?, on.card("dual.loss")?))
}

/// Requests a second that host cores serve for clients of their own, beside the card, when more of
/// them bring nothing.
pub fn spare_per_s(bed: &Testbed<'_, '_>, gets: f64) -> Evaluation {
    bed.weaken_evidence(EvidenceLevel::Card);
    let (knee, _) = congestion(bed)?;
    Ok(knee * cpu_only(bed, gets)? / bed.cores()?)
}

/// Requests a second at which one host core that only processes is busy.
pub fn saturation_per_s(bed: &Testbed<'_, '_>, gets: f64) -> Evaluation<Outcome> {
    Ok(Outcome { value: processing_rate(bed, gets)?, bottleneck: Some(HOST.into()) })
}

/// Refuses designs whose clients connect to host and card at once on a card that cannot be set to that.
fn separated_host(bed: &Testbed<'_, '_>) -> Evaluation<()> {
    match bed.attempt(|bed| bed.card("endpoints")) {
        Some(endpoints) if endpoints < 2.0 => Err(MissingParameter::Nothing {
            why: "clients connect to host and card at once, which takes the separated-host mode, and this card \
                  has the DPU mode only"
                .into(),
            remedy: "take sav or lat".into(),
        }),
        _ => Ok(()),
    }
}

/// The design with the fewest host cores that carry `load` requests a second, each at most 90 %
/// busy; unchanged if it names their number, or has too few for that.
///
/// # Errors
/// A parameter that is not known.
pub fn with_cores_for(bed: &Testbed<'_, '_>, setup: &Setup, load: f64) -> Evaluation<Setup> {
    let all = sides(bed, setup)?;
    if setup.host_cores.is_some() || all.host_cores == 0.0 {
        return Ok(*setup);
    }
    for cores in 1..all.host_cores as u32 {
        let cores = f64::from(cores);
        let fewer = Setup {
            host_cores: Some(cores),
            // Each has an Arm core of its own.
            soc_cores: match setup.design {
                Design::Latency => setup.soc_cores.or(Some(cores)),
                _ => setup.soc_cores,
            },
            ..*setup
        };
        if sides(bed, &fewer)?.total_per_s() * BUSY_MOST >= load {
            return Ok(fewer);
        }
    }
    Ok(*setup)
}

/// The number of host cores with which dual engines serve most.
pub fn best_host_cores(bed: &Testbed<'_, '_>) -> Evaluation {
    // From the knee on the card loses more than one more core adds.
    let (knee, _) = congestion(bed)?;
    Ok((knee - 1.0).max(1.0))
}

/// Computes the rate of each side under full load.
pub fn sides(bed: &Testbed<'_, '_>, setup: &Setup) -> Evaluation<Sides> {
    let (published, own) = (bed.cores()?, bed.own_cores()?);
    let soc_cores = setup.soc_cores.unwrap_or(own);
    if soc_cores != own {
        bed.weaken_evidence(EvidenceLevel::Card);
    }
    let soc_share = soc_cores / own;
    let asked = |default: f64| match setup.host_cores {
        Some(cores) if cores != default => {
            bed.weaken_evidence(EvidenceLevel::Card);
            cores
        }
        _ => default,
    };
    let gets = setup.gets;
    let per_core = |bed: &Testbed<'_, '_>| Ok(cpu_only(bed, gets)? / published);
    let talking = |bed: &Testbed<'_, '_>| {
        let rate = communication(bed, gets)? * soc_share;
        Ok(rate * dma_size_factor(bed, setup.dma_bytes)?)
    };
    let one = |host_per_s, soc_per_s, host_cores, bottleneck| Sides {
        host_per_s,
        soc_per_s,
        processing_per_s: None,
        host_cores,
        soc_cores: if soc_per_s > 0.0 { soc_cores } else { 0.0 },
        bottleneck,
    };
    Ok(match setup.design {
        Design::CpuOnly => {
            let cores = asked(published);
            one(per_core(bed)? * cores, 0.0, cores, HOST)
        }
        Design::DpuOnly => one(0.0, dpu_only(bed, gets)? * soc_share, 0.0, ARM),
        Design::Latency | Design::Saving => {
            let talk = talking(bed)?;
            let of_one = processing_rate(bed, gets)?;
            let cores = asked(match setup.design {
                Design::Latency => soc_cores,
                _ => 1.0,
            });
            let limit = if of_one * cores < talk { HOST } else { ARM };
            Sides { processing_per_s: Some(of_one * cores), ..one(0.0, talk, cores, limit) }
        }
        Design::Dual => {
            separated_host(bed)?;
            bed.weaken_evidence(EvidenceLevel::Card);
            let (knee, loss) = congestion(bed)?;
            let cores = asked(best_host_cores(bed)?);
            let kept = if cores >= knee { 1.0 - loss } else { 1.0 };
            // Cores beyond the knee bring nothing more.
            let serving = cores.min(knee);
            one(per_core(bed)? * serving, talking(bed)? * kept, cores, PCIE)
        }
        Design::Sharded => {
            separated_host(bed)?;
            bed.weaken_evidence(EvidenceLevel::Card);
            let (knee, loss) = congestion(bed)?;
            let cores = asked(published);
            let kept = if cores >= knee { 1.0 - loss } else { 1.0 };
            let soc = dpu_only(bed, gets)? * soc_share * kept;
            one(per_core(bed)? * cores, soc, cores, ARM)
        }
    })
}

/// Requests a second that one host core processes and does not communicate.
fn processing_rate(bed: &Testbed<'_, '_>, gets: f64) -> Evaluation {
    // The host is the same whatever the card.
    bed.of("bf3-8c").card("engine.rate").or_else(|_| {
        // Its own share of a request on the host, of which it then does nothing else.
        bed.weaken_evidence(EvidenceLevel::Application);
        Ok(cpu_only(bed, gets)? / bed.cores()? / processing_share(bed, gets)?)
    })
}

/// Requests a second of a design under full load.
pub fn throughput_per_s(bed: &Testbed<'_, '_>, setup: &Setup) -> Evaluation<Outcome> {
    let sides = sides(bed, setup)?;
    Ok(Outcome { value: sides.total_per_s(), bottleneck: Some(sides.bottleneck.into()) })
}

/// Requests that the clients of the card-only store keep in flight.
fn in_flight(bed: &Testbed<'_, '_>, gets: f64) -> Evaluation {
    let at = |mix: char| -> Evaluation {
        let rate = bed.card(&format!("dpu-only.rate.ycsb-{mix}"))?;
        Ok(rate * bed.card(&format!("dpu-only.latency.ycsb-{mix}"))? / 1e9)
    };
    match (at('a'), at('c')) {
        (Ok(a), Ok(c)) => Ok(a + (c - a) * (2.0 * gets - 1.0).clamp(0.0, 1.0)),
        (Ok(one), _) | (_, Ok(one)) => {
            bed.weaken_evidence(EvidenceLevel::Card);
            Ok(one)
        }
        (Err(unknown), _) => Err(unknown),
    }
}

/// Returns the latency of the host alone over that of the card alone.
fn cpu_delay(bed: &Testbed<'_, '_>, gets: f64, longest: bool) -> Evaluation {
    let published = |bed: &Testbed<'_, '_>| {
        let alone = |bed: &Testbed<'_, '_>| latency_of_card(bed, 0.5);
        let at_a = bed.card("cpu-only.latency.ycsb-a");
        if gets == 0.5
            && let Ok(at_a) = at_a
        {
            return Ok(at_a / alone(bed)?);
        }
        bed.weaken_evidence(EvidenceLevel::Card);
        let excess = |_| Evaluation::Ok(1.0 + bed.card("cpu-only.delay-excess")?);
        let most = bed.card("cpu-only.delay.most").or_else(excess);
        let least = bed.card("cpu-only.delay.least");
        match (most, least, at_a) {
            (Ok(most), Ok(least), _) if !longest => Ok((most * least).sqrt()),
            (Ok(most), ..) => Ok(most),
            (Err(_), _, Ok(at_a)) => {
                bed.weaken_evidence(EvidenceLevel::Application);
                Ok(at_a / alone(bed)?)
            }
            (Err(unknown), ..) => Err(unknown),
        }
    };
    if let Some(delay) = bed.attempt(published) {
        return Ok(delay);
    }
    // As many requests wait as behind the slow path, at the host's own rate.
    bed.weaken_evidence(EvidenceLevel::Application);
    let waiting = host_in_flight(bed)?;
    Ok(waiting / cpu_only(bed, gets)? * 1e9 / latency_of_card(bed, gets)?)
}

/// Requests of study 002's clients that wait for a host's server at the most.
pub fn host_in_flight(bed: &Testbed<'_, '_>) -> Evaluation {
    Ok(bed.card("onpath.sm12.rate")? * bed.card("onpath.sm12.latency")? / 1e9)
}

fn latency_of_card(bed: &Testbed<'_, '_>, gets: f64) -> Evaluation {
    let bed = &bed.of(bed.measured_card());
    Ok(in_flight(bed, gets)? / dpu_only(bed, gets)? * 1e9)
}

/// Latency of requests that the host answers, and of those that the card does.
fn mean_of_sides(bed: &Testbed<'_, '_>, gets: f64, sides: &Sides, longest: bool) -> Evaluation {
    let of_host = cpu_delay(bed, gets, longest)? * latency_of_card(bed, gets)?;
    let of_card = in_flight(bed, gets)? / sides.soc_per_s * 1e9;
    let weighted = of_host * sides.host_per_s + of_card * sides.soc_per_s;
    Ok(weighted / (sides.host_per_s + sides.soc_per_s))
}

/// Mean latency in nanoseconds under full load, with the clients of study 003: they keep a fixed
/// number of requests in flight, so that latency is that number over throughput.
///
/// `longest` takes the most unfavourable of the loads at which the host's was published.
pub fn latency_ns(bed: &Testbed<'_, '_>, setup: &Setup, longest: bool) -> Evaluation<Outcome> {
    let sides = sides(bed, setup)?;
    let gets = setup.gets;
    let by_little = |bed: &Testbed<'_, '_>| Ok(in_flight(bed, gets)? / sides.total_per_s() * 1e9);
    let value = match setup.design {
        Design::CpuOnly => cpu_delay(bed, gets, longest)? * latency_of_card(bed, gets)?,
        Design::DpuOnly => by_little(bed)?,
        Design::Latency | Design::Saving => {
            let studied = self::sides(bed, &Setup::new(Design::Latency, gets))?;
            let cores = |sides: &Sides| (sides.host_cores, sides.soc_cores);
            let is_studied = cores(&sides) == cores(&studied) && setup.dma_bytes.is_none();
            let published = |bed: &Testbed<'_, '_>| {
                let whole = bed.card("dpu-only.latency.ycsb-c")?;
                Ok(bed.card("lat.latency.ycsb-c")? / whole * latency_of_card(bed, gets)?)
            };
            match is_studied.then(|| bed.attempt(published)).flatten() {
                Some(latency) => latency,
                None => {
                    bed.weaken_evidence(EvidenceLevel::Card);
                    by_little(bed)?
                }
            }
        }
        Design::Dual | Design::Sharded => {
            bed.weaken_evidence(EvidenceLevel::Application);
            mean_of_sides(bed, gets, &sides, longest)?
        }
    };
    Ok(Outcome { value, bottleneck: Some(sides.bottleneck.into()) })
}

/// Returns the rate of the card's side with DMAs of `to` bytes over that with DMAs of `from` bytes.
pub fn dma_size_gain(bed: &Testbed<'_, '_>, from: f64, to: f64) -> Evaluation {
    // Doubling 2 KiB is what was published.
    if (from, to) == (BATCH_DMA_BYTES, 2.0 * BATCH_DMA_BYTES) {
        return Ok(1.0 + bed.card("dual.dma-doubling")?);
    }
    Ok(dma_size_factor(bed, Some(to))? / dma_size_factor(bed, Some(from))?)
}
