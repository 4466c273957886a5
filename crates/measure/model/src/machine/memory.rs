//! Memory: rates and latencies by block size, and streams by cores.

use super::RATIOS;
use crate::lookup::{Coverage, Ratio, coverage, points};
use crate::scaling::Fit;
use crate::{Answer, Evidence, EvidenceLevel, Library, MissingParameter, Values};

/// A block that each core has a cache of its own for.
const OWN_CACHE_BYTES: f64 = 32.0 * 1024.0;

/// Points of a curve over block sizes that are further apart than this may have a cache's edge
/// between them.
const NEAR: f64 = 4.0;

fn unknown(what: &str) -> Answer {
    let how = "memory by block size with `overside calibrate`";
    super::unknown(what, how)
}

/// Accesses a second that a machine does, and the closeness of the evidence for them.
#[derive(Clone, Debug)]
struct Rate {
    parameter: String,
    bytes: f64,
    cores: f64,
    closeness: EvidenceLevel,
}

impl Rate {
    /// Selects the cache level. For accesses in order, caches of all levels are nearly equally fast; for
    /// random accesses they are not. Blocks in private caches are read by all cores at once.
    fn of(
        evidence: &Evidence,
        machine: &str,
        access: &str,
        bytes: f64,
        cores: f64,
    ) -> Option<Self> {
        let parameter = format!("{machine}/memory.access.{access}");
        let (bytes, closeness) = match coverage(evidence, &parameter, bytes)? {
            Coverage::Given => (bytes, EvidenceLevel::Same),
            Coverage::Between(apart) if apart <= NEAR => (bytes, EvidenceLevel::Card),
            _ if access.starts_with("sequential") => {
                let caches = evidence
                    .predict(EvidenceLevel::Card, |v| v.get(&format!("{machine}/memory.l3")));
                let limit = caches.ok()?.interval.typ / 2.0;
                let inside = points(evidence, &parameter);
                let inside = inside.iter().map(|(at, _)| *at).filter(|at| *at <= limit);
                let nearest =
                    inside.min_by(|a, b| (a / bytes).ln().abs().total_cmp(&(b / bytes).ln().abs()));
                (nearest.filter(|_| bytes <= limit)?, EvidenceLevel::Application)
            }
            _ => return None,
        };
        let closeness = match () {
            () if cores == 1.0 => closeness,
            () if bytes <= OWN_CACHE_BYTES => closeness.max(EvidenceLevel::Card),
            () => return None,
        };
        Some(Self { parameter, bytes, cores, closeness })
    }

    fn value(&self, values: &Values<'_>) -> Result<f64, MissingParameter> {
        Ok(values.at(&self.parameter, self.bytes)? * self.cores)
    }
}

/// Accesses a second of some cores, each to a block of its own of `bytes`.
pub(crate) fn access_rate(
    library: &Library,
    machine: &str,
    access: &str,
    bytes: f64,
    cores: f64,
) -> Answer {
    let evidence = library.evidence(&[machine]);
    match Rate::of(&evidence, machine, access, bytes, cores) {
        Some(rate) => evidence.predict(rate.closeness, |v| rate.value(v)),
        None => unknown(&format!("{access} of {machine} in {bytes} bytes with {cores} cores")),
    }
}

/// The latency of a random read beyond that of the first-level cache.
pub(crate) fn latency(library: &Library, machine: &str, huge: bool, bytes: f64) -> Answer {
    let evidence = library.evidence(&[machine]);
    let name = |huge: bool| {
        let own = |pages: &str| format!("{machine}/memory.latency.{pages}");
        // A machine that was measured here has the whole of a read, whatever its pages.
        let known = if huge { "huge-pages" } else { "small-pages" };
        let known = evidence.get(&own(known)).map_or("random", |_| known);
        own(known)
    };
    let own = coverage(&evidence, &name(huge), bytes);
    let (name, closeness) = match own {
        Some(Coverage::Given) => (name(huge), EvidenceLevel::Same),
        _ if coverage(&evidence, &name(!huge), bytes) == Some(Coverage::Given) => {
            (name(!huge), EvidenceLevel::Card)
        }
        Some(Coverage::Between(apart)) if apart <= NEAR => (name(huge), EvidenceLevel::Card),
        _ => return unknown(&format!("latency of {machine} in {bytes} bytes")),
    };
    evidence.predict(closeness, |v| v.at(&name, bytes))
}

/// The latency of random reads on a machine over that on another.
pub(crate) fn latency_ratio(library: &Library, (a, b): (&str, &str), bytes: f64) -> Answer {
    let names: Vec<&str> = RATIOS.iter().map(|(name, _)| *name).collect();
    let evidence = library.evidence(&names);
    let found = Ratio::find(&evidence, &["memory.latency"], &RATIOS, (a, b), bytes);
    if let Some(ratio) = found {
        let closeness = if ratio.is_direct() { EvidenceLevel::Same } else { EvidenceLevel::Card };
        return evidence.predict(closeness, |v| ratio.value(v, bytes));
    }
    let (_, other) = RATIOS.iter().find(|(name, _)| *name == b).unwrap_or(&("", ""));
    let name = format!("{a}/memory.latency.over-{other}");
    match coverage(&evidence, &name, bytes) {
        Some(Coverage::Between(apart)) if apart <= NEAR => {
            evidence.predict(EvidenceLevel::Application, |v| v.at(&name, bytes))
        }
        _ => unknown(&format!("latency of {a} over {b} in {bytes} bytes")),
    }
}

/// Predicts the latency gain of huge pages. If the machine's own gain is unknown, it is the
/// geometric mean of the other machines' gains.
pub(crate) fn huge_pages(library: &Library, machine: &str) -> Answer {
    let names: Vec<&str> = RATIOS.iter().map(|(name, _)| *name).collect();
    let evidence = library.evidence(&names);
    let name = |machine: &str| format!("{machine}/memory.latency.huge-page-gain");
    let known: Vec<String> =
        (names.iter().map(|one| name(one))).filter(|name| evidence.get(name).is_some()).collect();
    if known.contains(&name(machine)) {
        return evidence.predict(EvidenceLevel::Same, |v| v.get(&name(machine)));
    }
    if known.is_empty() {
        return unknown(&format!("what huge pages save on {machine}"));
    }
    evidence.predict(EvidenceLevel::Card, |v| {
        let gains: Result<Vec<_>, _> = known.iter().map(|name| v.get(name)).collect();
        Ok(crate::lookup::mean(&gains?))
    })
}

/// Predicts the TLB misses of a machine's random reads over those of a BlueField-2, minus 1.
pub(crate) fn tlb_misses(library: &Library, machine: &str, bytes: f64) -> Answer {
    let evidence = library.evidence(&[machine]);
    let name = format!("{machine}/memory.tlb-misses.over-bf2");
    match coverage(&evidence, &name, bytes) {
        Some(Coverage::Given) => evidence.predict(EvidenceLevel::Same, |v| v.at(&name, bytes)),
        Some(Coverage::Between(apart)) if apart <= NEAR => {
            evidence.predict(EvidenceLevel::Application, |v| v.at(&name, bytes))
        }
        _ => unknown("misses of the TLB"),
    }
}

/// Predicts STREAM on some cores: the law of scaling through the published points. For an unpublished kernel,
/// a similar one is used: copy for scale, add for triad, and the other way round.
pub(crate) fn stream(library: &Library, machine: &str, kernel: &str, cores: f64) -> Answer {
    let evidence = library.evidence(&[machine]);
    let name = |kernel: &str| format!("{machine}/stream.{kernel}");
    let twin = match kernel {
        "copy" => "scale",
        "scale" => "copy",
        "add" => "triad",
        _ => "add",
    };
    for (kernel, closeness) in [(kernel, EvidenceLevel::Same), (twin, EvidenceLevel::Card)] {
        if coverage(&evidence, &name(kernel), cores) == Some(Coverage::Given) {
            return evidence.predict(closeness, |v| v.at(&name(kernel), cores));
        }
    }
    let name = name(kernel);
    let at: Vec<f64> = (points(&evidence, &name).iter()).map(|(at, _)| *at).collect();
    if at.len() < 2 {
        return unknown(&format!("STREAM {kernel} of {machine} with {cores} cores"));
    }
    evidence.predict(EvidenceLevel::Card, |v| {
        let points: Result<Vec<_>, _> = at.iter().map(|at| Ok((*at, v.at(&name, *at)?))).collect();
        let fit = Fit::of(&points?).ok_or(MissingParameter::parameter(name.clone()))?;
        Ok(fit.one_core * fit.scaling.capacity(cores))
    })
}
