//! Work on data that fits no cache: queries of a database, scans and look-ups in an index.
//!
//! A core is as fast as it reaches memory in a block of 1 GiB. Scans and look-ups only read: the
//! geometric mean of its random and sequential reads. Queries build tables as well: the mean of
//! reads and writes. Cores together scale by the law that was fitted to a scan of a table by cores,
//! but no pipeline of a query keeps more of them busy than its source has groups of rows. A query's
//! first run reads its bytes from storage before it does the same as every later one. The bytes
//! that a query reads, and the cost of its pipelines on one core, were measured once
//! (`facts/tpch-work.toml`) with the machine's memory beside it: it belongs to the query and the
//! engine. No published time of a query went into any of this.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::lookup::{Coverage, coverage, points};
use crate::scaling::{Fit, Scaling};
use crate::{
    Evaluation, Evidence, EvidenceLevel, Library, MissingParameter, Outcome, ParameterValue,
    Quantity, Table, Unit, Values,
};

/// A block that no cache holds.
const BEYOND_CACHES_BYTES: f64 = 1_073_741_824.0;

/// Bytes that a database reads from storage at a time.
const BLOCK_BYTES: f64 = 262_144.0;

/// Rows that the engine hands to a core at a time: a group of its storage.
const GROUP_ROWS: f64 = 122_880.0;

/// Parameters for a core's reads from memory.
const READS: [&str; 2] = ["memory.access.random-read", "memory.access.sequential-read"];

/// Parameters for all kinds of a core's accesses to memory.
const ACCESSES: [&str; 4] = [
    "memory.access.random-read",
    "memory.access.random-write",
    "memory.access.sequential-read",
    "memory.access.sequential-write",
];

/// The queries of TPC-H.
pub(crate) const QUERIES: std::ops::RangeInclusive<u32> = 1..=22;

/// Queries that were measured, and the machine on which.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MeasuredWork {
    schema: String,
    /// Scale factor of the data.
    scale: f64,
    engine: String,
    date: String,
    machine: String,
    command: String,
    /// Bytes that one process reads from the database file when it runs all queries: their union.
    read_together_bytes: f64,
    queries: Vec<Query>,
    /// The machine's memory.
    tables: std::collections::BTreeMap<String, Table>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Query {
    query: u32,
    read_bytes: f64,
    /// Most memory in bytes that a run holds beside the database's blocks: hash tables, sorted rows.
    built_bytes: f64,
    parts: Vec<Part>,
}

/// Total cost of all operators of a query whose pipelines' sources have equally many rows.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    cpu_s: f64,
    /// Rows of the source; 0 is planning, which one core does and which does not grow with the data.
    rows: f64,
}

impl Part {
    /// Scales it to another size of the data than it was measured with.
    fn grown(self, factor: f64) -> Self {
        Self {
            cpu_s: if self.rows > 0.0 { self.cpu_s * factor } else { self.cpu_s },
            rows: self.rows * factor,
        }
    }

    /// Cores that find something to do.
    fn groups(self) -> f64 {
        (self.rows / GROUP_ROWS).ceil().max(1.0)
    }
}

static MEASURED: LazyLock<MeasuredWork> = LazyLock::new(|| {
    let text = include_str!("../../../../facts/tpch-work.toml");
    let measured: MeasuredWork = toml::from_str(text).expect("a test reads the measured work");
    assert_eq!(measured.schema, "work/1");
    measured
});

/// Returns a sentence that names the source of the queries' measured work.
pub(crate) fn provenance() -> String {
    let from = &*MEASURED;
    format!(
        "the work of the queries was measured with {} at scale factor {} on {} ({}, {})",
        from.engine, from.scale, from.machine, from.date, from.command
    )
}

/// Collects the parameters of the profiles of those names, and the law of scaling. Adds the speed
/// at which each machine reaches memory, over the others and over `work`, the machine that the work
/// was measured on.
pub(crate) fn evidence(library: &Library, machines: &[&str]) -> Evidence {
    let mut evidence = library.evidence(machines);
    scaling(library, &mut evidence);
    for (name, table) in &MEASURED.tables {
        evidence.insert(format!("work/{name}"), table.clone());
    }
    let all: Vec<&str> = machines.iter().copied().chain(["work", "scan"]).collect();
    for a in &all {
        for b in all.iter().filter(|b| *b != a) {
            let kinds = if *b == "work" { &ACCESSES[..] } else { &READS };
            if let Some(speed) = speed(&evidence, a, b, kinds) {
                evidence.insert(format!("{a}/scan.speed-over-{b}"), speed);
            }
        }
    }
    evidence
}

/// One core's speed on a machine over that on another. Which kind of access decides is not known:
/// the standard error of the mean over the kinds is the doubt about it.
fn speed(evidence: &Evidence, a: &str, b: &str, kinds: &[&str]) -> Option<Quantity> {
    let (mut logs, mut facts) = (Vec::new(), Vec::new());
    for name in kinds {
        let mut rate = |machine: &str| {
            let ParameterValue::Table(table) = evidence.get(&format!("{machine}/{name}"))? else {
                return None;
            };
            facts.extend(table.facts.iter().cloned());
            let given = table.at.contains(&BEYOND_CACHES_BYTES);
            given.then(|| table.interval(BEYOND_CACHES_BYTES).typ)
        };
        logs.push((rate(a)? / rate(b)?).ln());
    }
    let count = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / count;
    let variance = logs.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let error = (variance / count).sqrt();
    let citation =
        format!("geometric mean over the kinds of access in {BEYOND_CACHES_BYTES} bytes");
    Some(Quantity {
        low: Some((mean - error).exp()),
        high: Some((mean + error).exp()),
        facts,
        citation: Some(citation),
        ..Quantity::number(mean.exp(), Unit::Count)
    })
}

/// Fits the law of scaling to the first profile that gives a scan by cores.
fn scaling(library: &Library, evidence: &mut Evidence) {
    let fitted = library.profiles().iter().find_map(|profile| {
        let known = profile.evidence();
        let fit = Fit::of(&points(&known, "scan.speedup"))?;
        Some((&profile.name, known.get("scan.speedup")?.facts().to_vec(), fit))
    });
    let Some((profile, facts, fit)) = fitted else {
        return;
    };
    let Scaling { sigma, kappa } = fit.scaling;
    for (name, value) in [("one-core", fit.one_core), ("sigma", sigma), ("kappa", kappa)] {
        let known = Quantity {
            facts: facts.clone(),
            citation: Some(format!("fitted to scan.speedup of {profile}")),
            ..Quantity::number(value, Unit::Count)
        };
        evidence.insert(format!("scan.{name}"), known);
    }
    for name in ACCESSES {
        if let Some(known) = library.profile(profile).and_then(|one| one.tables.get(name)) {
            evidence.insert(format!("scan/{name}"), known.clone());
        }
    }
}

/// Returns the speed of `cores` cores together, over that of one core.
fn cores_worth(values: &Values<'_>, cores: f64) -> Evaluation {
    let (sigma, kappa) = (values.get("scan.sigma")?, values.get("scan.kappa")?);
    Ok(Scaling { sigma, kappa }.capacity(cores))
}

/// Returns the speed at which `cores` of `machine`, or all of them, read data that fits no cache,
/// over that of one core of `other`.
fn power(values: &Values<'_>, machine: &str, cores: Option<f64>, other: &str) -> Evaluation {
    let cores = match cores {
        Some(cores) => cores,
        None => all_cores(values, machine)?,
    };
    let speed = values.get(&format!("{machine}/scan.speed-over-{other}"))?;
    Ok(speed * cores_worth(values, cores)?)
}

/// Cores of a machine.
pub(crate) fn all_cores(values: &Values<'_>, machine: &str) -> Evaluation {
    values.get(&format!("{machine}/cpu.cores"))
}

/// Returns the look-ups that `cores` of a card, or all of them, add in an index that card and host
/// share. They are given as a share of the look-ups of all cores of the host.
pub(crate) fn index_gain(
    values: &Values<'_>,
    card: &str,
    cores: Option<f64>,
    host: &str,
) -> Evaluation {
    let host_cores = all_cores(values, host)?;
    Ok(power(values, card, cores, host)? / cores_worth(values, host_cores)?)
}

/// A query, or all of them, at a scale factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TpchQuery {
    /// Number of the query; all 22 if absent.
    pub query: Option<u32>,
    /// Scale factor of the data.
    pub scale: f64,
    /// The data is on storage yet.
    pub cold: bool,
    /// Cores; all if absent.
    pub cores: Option<f64>,
}

impl TpchQuery {
    fn queries(&self) -> impl Iterator<Item = &'static Query> {
        (MEASURED.queries.iter()).filter(|one| self.query.is_none_or(|asked| one.query == asked))
    }

    fn factor(&self) -> f64 {
        self.scale / MEASURED.scale
    }

    /// Time of the cores in nanoseconds.
    fn computing_ns(&self, values: &Values<'_>, machine: &str) -> Evaluation {
        let cores = match self.cores {
            Some(cores) => cores,
            None => all_cores(values, machine)?,
        };
        let worth = cores_worth(values, cores)?;
        let speed = values.get(&format!("{machine}/scan.speed-over-work"))?;
        let parts = self.queries().flat_map(|query| &query.parts);
        let spent = parts.map(|part| {
            let part = part.grown(self.factor());
            part.cpu_s * 1e9 / worth.min(part.groups())
        });
        Ok(spent.sum::<f64>() / speed)
    }

    /// Returns the memory in bytes that the queries need to be hot, one after the other: all that
    /// they read, and the most that one of them builds.
    pub(crate) fn memory_bytes(&self) -> f64 {
        let read_bytes = match self.query {
            None => MEASURED.read_together_bytes,
            Some(_) => self.queries().map(|query| query.read_bytes).fold(0.0, f64::max),
        };
        let built_bytes = self.queries().map(|query| query.built_bytes).fold(0.0, f64::max);
        (read_bytes + built_bytes) * self.factor()
    }

    /// Refuses work that does not fit into memory, if its size is known.
    fn fits_memory(&self, values: &Values<'_>, machine: &str) -> Evaluation<()> {
        let size = format!("{machine}/memory.size");
        if !values.has(&size) {
            return Ok(());
        }
        let memory_bytes = values.get(&size)?;
        let needed_bytes = self.memory_bytes();
        if needed_bytes <= memory_bytes {
            return Ok(());
        }
        let gb = |bytes: f64| format!("{:.0} GB", bytes / 1e9);
        Err(MissingParameter::nothing(
            format!(
                "{} of data and what queries build of it do not fit into {machine}'s memory of {}",
                gb(needed_bytes),
                gb(memory_bytes)
            ),
            "ask with data=cold, or a smaller scale",
        ))
    }

    /// Returns the run time on `machine` in nanoseconds.
    pub(crate) fn time_ns(&self, values: &Values<'_>, machine: &str) -> Evaluation<Outcome> {
        if !self.cold {
            self.fits_memory(values, machine)?;
        }
        let computing = self.computing_ns(values, machine)?;
        let reading = if self.cold {
            let rate = values.at(&format!("{machine}/storage.random-read"), BLOCK_BYTES)?;
            let bytes: f64 = self.queries().map(|query| query.read_bytes).sum();
            bytes * self.factor() / rate * 1e9
        } else {
            0.0
        };
        let bottleneck = if reading > computing { "storage" } else { "cores" };
        Ok(Outcome {
            value: reading + computing,
            bottleneck: Some(format!("{machine}: {bottleneck}")),
        })
    }
}

/// Returns the speed at which `cores` of `machine` scan a table where it is stored, keeping a
/// hundredth of it, over that of a host that pulls the whole table.
pub(crate) fn pushdown_speedup(
    values: &Values<'_>,
    machine: &str,
    cores: Option<f64>,
) -> Evaluation {
    let one_core = values.get("scan.one-core")?;
    Ok(one_core * power(values, machine, cores, "scan")?)
}

/// Scanning a table on some cores of a card, or all of them.
#[derive(Clone, Debug)]
pub(crate) struct Pushdown<'a> {
    machine: &'a str,
    cores: Option<f64>,
    /// Parameter that gives the speed-up directly.
    given: Option<String>,
    /// Closeness of the evidence for the speed-up.
    pub closeness: EvidenceLevel,
}

impl<'a> Pushdown<'a> {
    pub(crate) fn of(evidence: &Evidence, machine: &'a str, cores: Option<f64>) -> Self {
        let name = format!("{machine}/scan.speedup");
        let known = cores.and_then(|cores| coverage(evidence, &name, cores));
        let (given, closeness) = match known {
            Some(Coverage::Given) => (Some(name), EvidenceLevel::Same),
            _ if evidence.get(&name).is_some() => (None, EvidenceLevel::Card),
            _ => (None, EvidenceLevel::Application),
        };
        Self { machine, cores, given, closeness }
    }

    /// Returns the speed-up over a host that pulls the table.
    pub(crate) fn speedup(&self, values: &Values<'_>) -> Evaluation {
        match (&self.given, self.cores) {
            (Some(name), Some(cores)) => values.at(name, cores),
            _ => pushdown_speedup(values, self.machine, self.cores),
        }
    }
}
