//! Memory: rates and latencies by block size, and streams by cores.

use crate::facts::{Figure, Ordering};
use crate::lookup::{Coverage, Ratio, coverage, points};
use crate::scaling::Fit;
use crate::{Answer, Evidence, EvidenceLevel, Library, MissingParameter, Unit, Values};

use super::subject::{
    cores, cores_in_keys, descending, given, itself, lead, loss, machine, machines, nothing, pair,
    sizes, together, unit,
};
use super::{Claim, OrderingClaim};

const SCENARIO: &str = "memory";
const KERNELS: [&str; 4] = ["copy", "scale", "add", "triad"];

/// A block that each core has a cache of its own for.
const OWN_CACHE_BYTES: f64 = 32.0 * 1024.0;

/// Points of a curve over block sizes that are further apart than this may have a cache's edge
/// between them.
const NEAR: f64 = 4.0;

fn claimed(unit_in_base: f64, predict: impl Fn(&Library) -> Answer + 'static) -> Option<Claim> {
    Some(Claim {
        scenario: SCENARIO,
        unit_in_base,
        predict: Box::new(predict),
    })
}

fn unknown(what: &str) -> Answer {
    nothing(
        &format!("no published fact gives {what}, or comes near"),
        "measure memory by block size with `overside calibrate` on such a machine",
    )
}

/// Figures about memory.
pub(crate) fn claim(figure: &Figure<'_>) -> Option<Claim> {
    accesses(figure)
        .or_else(|| latency(figure))
        .or_else(|| streams(figure))
        .or_else(|| copies(figure))
}

/// `rnd.read 16KB`, `seq write 1 GB`: the parameter that says how fast it is.
pub(super) fn access(workload: &str) -> Option<&'static str> {
    let mut words = workload.split([' ', '.']);
    let random = match words.next()? {
        "rnd" | "random" => true,
        "seq" | "sequential" => false,
        _ => return None,
    };
    Some(match (random, words.next()?) {
        (true, "read") => "random-read",
        (true, "write") => "random-write",
        (false, "read") => "sequential-read",
        (false, "write") => "sequential-write",
        _ => return None,
    })
}

/// How many accesses a second a machine does, and how near what is known of that is.
#[derive(Clone, Debug)]
struct Rate {
    parameter: String,
    bytes: f64,
    cores: f64,
    closeness: EvidenceLevel,
}

impl Rate {
    /// In order, caches of every level are as fast as each other, nearly; at random they are not.
    /// Blocks in caches of each core's own are read by all cores at once.
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
                let caches = evidence.predict(EvidenceLevel::Card, |v| {
                    v.get(&format!("{machine}/memory.l3"))
                });
                let limit = caches.ok()?.interval.typ / 2.0;
                let inside = points(evidence, &parameter);
                let inside = inside.iter().map(|(at, _)| *at).filter(|at| *at <= limit);
                let nearest =
                    inside.min_by(|a, b| (a / bytes).ln().abs().total_cmp(&(b / bytes).ln().abs()));
                (
                    nearest.filter(|_| bytes <= limit)?,
                    EvidenceLevel::Application,
                )
            }
            _ => return None,
        };
        let closeness = match () {
            () if cores == 1.0 => closeness,
            () if bytes <= OWN_CACHE_BYTES => closeness.max(EvidenceLevel::Card),
            () => return None,
        };
        Some(Self {
            parameter,
            bytes,
            cores,
            closeness,
        })
    }

    fn value(&self, values: &Values<'_>) -> Result<f64, MissingParameter> {
        Ok(values.at(&self.parameter, self.bytes)? * self.cores)
    }
}

fn access_rate(library: &Library, machine: &str, access: &str, bytes: f64, cores: f64) -> Answer {
    let evidence = library.evidence(&[machine]);
    match Rate::of(&evidence, machine, access, bytes, cores) {
        Some(rate) => evidence.predict(rate.closeness, |v| rate.value(v)),
        None => unknown(&format!(
            "{access} of {machine} in {bytes} bytes with {cores} cores"
        )),
    }
}

/// A rate over another, or what is lost from one to another.
fn compared(
    library: &Library,
    access: &str,
    (machine, bytes): (&str, f64),
    (other, other_bytes): (&str, f64),
    lost: bool,
) -> Answer {
    let evidence = library.evidence(&[machine, other]);
    let rates = Rate::of(&evidence, machine, access, bytes, 1.0).zip(Rate::of(
        &evidence,
        other,
        access,
        other_bytes,
        1.0,
    ));
    let Some((a, b)) = rates else {
        return unknown(&format!("{access} of {machine} and {other}"));
    };
    let ratio = evidence.predict(a.closeness.max(b.closeness), |v| {
        Ok(a.value(v)? / b.value(v)?)
    });
    if lost { loss(ratio) } else { ratio }
}

fn accesses(figure: &Figure<'_>) -> Option<Claim> {
    let fact = figure.fact;
    let access = access(&fact.workload)?;
    let (unit, metric) = (unit(figure)?, fact.metric.as_str());
    let sizes = sizes(&fact.workload);
    match (metric, &sizes[..]) {
        _ if metric.contains("drop") => {
            let ([to, from], machine) = (&sizes[..], machine(figure)?) else {
                return None;
            };
            let (to, from) = (*to, *from);
            claimed(unit, move |library| {
                compared(library, access, (machine, to), (machine, from), true)
            })
        }
        (_, [bytes]) if metric.contains("ratio") => {
            let (dividends, divisors) = pair(figure)?;
            let ([a], [b]) = (&dividends[..], &divisors[..]) else {
                return None;
            };
            let (a, b, bytes) = (*a, *b, *bytes);
            claimed(unit, move |library| {
                compared(library, access, (a, bytes), (b, bytes), false)
            })
        }
        (_, [bytes]) if metric.contains("throughput") || metric.contains("accesses") => {
            let (bytes, machine) = (*bytes, machine(figure)?);
            let all = metric.contains("max");
            let named = cores_in_keys(figure).or_else(|| cores(&fact.conditions));
            claimed(unit, move |library| {
                let evidence = library.evidence(&[machine]);
                let every = || {
                    let name = format!("{machine}/cpu.cores");
                    evidence.predict(EvidenceLevel::Same, |v| v.get(&name))
                };
                let cores = match named {
                    Some(cores) => cores,
                    None if all => every()?.interval.typ,
                    None => 1.0,
                };
                access_rate(library, machine, access, bytes, cores)
            })
        }
        _ => None,
    }
}

/// The latency of a random read beyond that of the first-level cache.
fn absolute_latency(library: &Library, machine: &str, huge: bool, bytes: f64) -> Answer {
    let evidence = library.evidence(&[machine]);
    let name = |huge: bool| {
        let pages = if huge { "huge" } else { "small" };
        format!("{machine}/memory.latency.{pages}-pages")
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
fn latency_ratio(library: &Library, paper: &str, (a, b): (&str, &str), bytes: f64) -> Answer {
    let machines = machines(paper);
    let names: Vec<&str> = machines.iter().map(|(name, _)| *name).collect();
    let evidence = library.evidence(&names);
    let found = Ratio::find(&evidence, &["memory.latency"], machines, (a, b), bytes);
    if let Some(ratio) = found {
        let closeness = if ratio.is_direct() {
            EvidenceLevel::Same
        } else {
            EvidenceLevel::Card
        };
        return evidence.predict(closeness, |v| ratio.value(v, bytes));
    }
    let (_, other) = machines
        .iter()
        .find(|(name, _)| *name == b)
        .unwrap_or(&("", ""));
    let name = format!("{a}/memory.latency.over-{other}");
    match coverage(&evidence, &name, bytes) {
        Some(Coverage::Between(apart)) if apart <= NEAR => {
            evidence.predict(EvidenceLevel::Application, |v| v.at(&name, bytes))
        }
        _ => unknown(&format!("latency of {a} over {b} in {bytes} bytes")),
    }
}

/// What huge pages save: that of the other cards where a card's own is not known.
fn huge_pages(library: &Library, paper: &str, machine: &str) -> Answer {
    let names: Vec<&str> = machines(paper).iter().map(|(name, _)| *name).collect();
    let evidence = library.evidence(&names);
    let name = |machine: &str| format!("{machine}/memory.latency.huge-page-gain");
    let known: Vec<String> = (names.iter().map(|one| name(one)))
        .filter(|name| evidence.get(name).is_some())
        .collect();
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

fn latency(figure: &Figure<'_>) -> Option<Claim> {
    let fact = figure.fact;
    let workload = fact.workload.to_lowercase();
    let unit = unit(figure)?;
    let paper = fact.paper.clone();
    let size = || {
        let keys = figure.path.join(" ");
        (sizes(&keys).into_iter())
            .chain(sizes(&workload))
            .chain(sizes(&fact.device))
            .next()
    };
    if workload.contains("hugepages") && fact.metric.contains("reduction") {
        let machine = machine(figure)?;
        return claimed(unit, move |library| huge_pages(library, &paper, machine));
    }
    if workload.contains("tlb") && fact.metric.contains("increase") {
        let (dividends, bytes) = (pair(figure)?.0, size()?);
        let ["bf3-8c"] = dividends[..] else {
            return None;
        };
        return claimed(unit, move |library| {
            let evidence = library.evidence(&["bf3-8c"]);
            let name = "bf3-8c/memory.tlb-misses.over-bf2";
            match coverage(&evidence, name, bytes) {
                Some(Coverage::Given) => {
                    evidence.predict(EvidenceLevel::Same, |v| v.at(name, bytes))
                }
                Some(Coverage::Between(apart)) if apart <= NEAR => {
                    evidence.predict(EvidenceLevel::Application, |v| v.at(name, bytes))
                }
                _ => unknown("misses of the TLB"),
            }
        });
    }
    let random = workload.contains("random") || workload.contains("tinymembench");
    if !random || !(workload.contains("latency") || fact.metric.contains("latency")) {
        return None;
    }
    let bytes = size()?;
    if fact.metric.contains("ratio") {
        let (dividends, divisors) = pair(figure)?;
        let ([a], [b]) = (&dividends[..], &divisors[..]) else {
            return None;
        };
        let (a, b) = (*a, *b);
        return claimed(unit, move |library| {
            latency_ratio(library, &paper, (a, b), bytes)
        });
    }
    let (machine, huge) = (machine(figure)?, !workload.contains("no hugepage"));
    claimed(unit, move |library| {
        absolute_latency(library, machine, huge, bytes)
    })
}

/// STREAM on some cores: the law of scaling through the published points. Another kernel stands
/// for one that was left out: copy for scale, add for triad, and the other way round.
fn stream(library: &Library, machine: &str, kernel: &str, cores: f64) -> Answer {
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
    let at: Vec<f64> = (points(&evidence, &name).iter())
        .map(|(at, _)| *at)
        .collect();
    if at.len() < 2 {
        return unknown(&format!("STREAM {kernel} of {machine} with {cores} cores"));
    }
    evidence.predict(EvidenceLevel::Card, |v| {
        let points: Result<Vec<_>, _> = at.iter().map(|at| Ok((*at, v.at(&name, *at)?))).collect();
        let fit = Fit::of(&points?).ok_or(MissingParameter::parameter(name.clone()))?;
        Ok(fit.one_core * fit.scaling.capacity(cores))
    })
}

/// The last number of cores at which a stream was measured.
fn all_cores(evidence: &Evidence, machine: &str) -> Option<f64> {
    let known = KERNELS
        .iter()
        .flat_map(|kernel| points(evidence, &format!("{machine}/stream.{kernel}")));
    known.map(|(cores, _)| cores).max_by(f64::total_cmp)
}

/// The largest ratio of a kernel between two machines, with one core each or with all: what a
/// source that gives one number for all kernels says.
fn stream_ratio(library: &Library, (a, b): (&str, &str), single: bool, ahead: bool) -> Answer {
    let evidence = library.evidence(&[a, b]);
    let cores = |machine| {
        if single {
            Some(1.0)
        } else {
            all_cores(&evidence, machine)
        }
    };
    let Some((a_cores, b_cores)) = cores(a).zip(cores(b)) else {
        return unknown("STREAM of both machines");
    };
    let known: Vec<(String, String)> = (KERNELS.iter())
        .map(|kernel| {
            (
                format!("{a}/stream.{kernel}"),
                format!("{b}/stream.{kernel}"),
            )
        })
        .filter(|(a, b)| {
            coverage(&evidence, a, a_cores) == Some(Coverage::Given)
                && coverage(&evidence, b, b_cores) == Some(Coverage::Given)
        })
        .collect();
    if known.is_empty() {
        return unknown("STREAM of both machines with the same kernel");
    }
    let ratio = evidence.predict(EvidenceLevel::Same, |v| {
        let ratio = |(a, b): &(String, String)| Ok(v.at(a, a_cores)? / v.at(b, b_cores)?);
        let ratios: Result<Vec<f64>, _> = known.iter().map(ratio).collect();
        Ok(ratios?.into_iter().fold(0.0, f64::max))
    });
    if ahead { lead(ratio) } else { ratio }
}

fn streams(figure: &Figure<'_>) -> Option<Claim> {
    let fact = figure.fact;
    let rest = fact.workload.strip_prefix("STREAM")?.trim();
    let kernel = KERNELS.into_iter().find(|kernel| *kernel == rest);
    let key = figure.path.join(" ");
    if fact.metric.contains("ratio") {
        let (dividends, divisors) = pair(figure)?;
        let ([a], [b]) = (&dividends[..], &divisors[..]) else {
            return None;
        };
        let (a, b) = (*a, *b);
        let single = match () {
            () if key.contains("single") => true,
            () if key.contains("multi") => false,
            () => return None,
        };
        let ahead = key.contains('%') || figure.unit == "%";
        let unit = if ahead { Unit::Percent } else { Unit::Count };
        return claimed(unit.in_base(), move |library| {
            stream_ratio(library, (a, b), single, ahead)
        });
    }
    let (kernel, machine, unit) = (kernel?, machine(figure)?, unit(figure)?);
    let cores = cores_in_keys(figure).or_else(|| cores(&fact.conditions))?;
    claimed(unit, move |library| stream(library, machine, kernel, cores))
}

/// Bytes that one core moves with a library function.
fn copies(figure: &Figure<'_>) -> Option<Claim> {
    let workload = &figure.fact.workload;
    let name = match () {
        () if workload.contains("memcpy") => "memory.copy",
        () if workload.contains("memset") => "memory.fill",
        () if workload.contains("LDP load") => "memory.load",
        () => return None,
    };
    let (machine, unit) = (machine(figure)?, unit(figure)?);
    (cores(workload) == Some(1.0)).then_some(())?;
    claimed(unit, move |library| given(library, machine, name, 1.0))
}

/// Orderings of latencies and of accesses.
pub(crate) fn ordering(ordering: &Ordering, library: &Library) -> Option<OrderingClaim> {
    let mib = Unit::MiB.in_base();
    let gib = Unit::GiB.in_base();
    match ordering.id.as_str() {
        "ord.M1" => {
            let one = || itself("a BF-2's latency over itself");
            let over = |machine: &str, bytes: f64| {
                let ratio = latency_ratio(library, &ordering.paper, (machine, "bf2-200g"), bytes);
                (
                    format!("latency of {machine} over BF-2's in {} MiB", bytes / mib),
                    ratio,
                )
            };
            let mut parts: Vec<_> = [1.0, 2.0, 4.0]
                .map(|size| descending(SCENARIO, vec![over("bf3-8c", size * mib), one()]))
                .into();
            let large = 64.0 * mib;
            let sides = vec![over("bf1", large), one(), over("bf3-8c", large)];
            parts.push(descending(SCENARIO, sides));
            together(parts)
        }
        "ord.B3" => {
            let side = |access: &str, machine: &str| {
                let rate = access_rate(library, machine, access, gib, 1.0);
                (format!("{access} in 1 GiB on {machine}"), rate)
            };
            let cards = ["bf3", "host-dpbento"].map(|one| side("sequential-write", one));
            let random = ["host-dpbento", "bf3", "octeon-tx2"].map(|one| side("random-read", one));
            let equal = ["octeon-tx2", "bf2"].map(|one| side("random-read", one));
            together(vec![
                descending(SCENARIO, cards.into()),
                descending(SCENARIO, random.into()),
                about_equal(equal),
            ])
        }
        _ => None,
    }
}

/// Two figures within a tenth of each other.
fn about_equal([a, b]: [(String, Answer); 2]) -> Option<OrderingClaim> {
    let (left, right) = (a.1.ok()?.interval, b.1.ok()?.interval);
    Some(OrderingClaim::Claimed {
        scenario: SCENARIO,
        holds: (left.typ / right.typ).ln().abs() <= 0.1,
        sides: vec![(a.0, left), (b.0, right)],
    })
}
