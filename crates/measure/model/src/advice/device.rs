//! One device beside one CPU, as parameters that formulas read.

use overside_ops::Operation;

use super::completion;
use super::question::CpuRate;
use crate::outlook::longest;
use crate::{
    Answer, CostError, Evaluation, Evidence, EvidenceLevel, Interval, NoPrediction, Outcome,
    Profile, Quantity, Setting, Span, Unit, Values, Work, cost,
};

/// The shortest buffers that studies gave rates for without the cost of one job: their rates hold
/// from here on (the smallest input of the co-processing study, section 5.9).
pub(crate) const RATES_FROM_BYTES: u64 = 2 << 20;

const CPU: &str = "cpu.rate";
const CORE: &str = "cpu.core";
const DEVICE: &str = "device.rate";
const DEVICE_CORE: &str = "device.host_core";

/// A device and a CPU at one size of buffers.
pub(super) struct Pair {
    evidence: Evidence,
    source: Source,
    /// Reason why the device's rate is not known, though it may be bounded; `None` if it is known.
    unknown: Option<NoPrediction>,
    /// No part that is not known can make the device faster.
    pub bounded: bool,
    /// The share of the CPU's rate that is left while a thread of its own drives the device.
    beside: f64,
}

/// Source of the device's rate: a measurement or a profile.
enum Source {
    /// The rate was measured.
    Measured,
    /// Times of a profile.
    Profile(Names),
}

/// Names of a profile's parameters; each is the time of one job in nanoseconds, but for `engines`
/// and `closeness`.
struct Names {
    bytes: f64,
    engine: Option<String>,
    per_job: Option<String>,
    link_in: Option<String>,
    link_out: Option<String>,
    engines: Option<String>,
    closeness: String,
}

/// One operation on a buffer of `bytes` bytes of the uncompressed side.
pub(super) fn work(operation: Operation, patterns: &[String], ratio: f64, bytes: u64) -> Work {
    let (source, destination) = operation.job_bytes(bytes, ratio);
    Work { patterns: patterns.to_vec(), ..Work::new(operation, source, destination) }
}

impl Pair {
    /// Creates the pair for a device that was measured. `host_core`: bytes a second of the host's
    /// CPU time, if that was measured.
    pub(super) fn measured(rate: Interval, host_core: Option<Interval>) -> Self {
        let mut evidence = Evidence::new();
        insert_rate(&mut evidence, DEVICE, rate);
        if let Some(host_core) = host_core {
            insert_rate(&mut evidence, DEVICE_CORE, host_core);
        }
        Self { evidence, source: Source::Measured, unknown: None, bounded: true, beside: 1.0 }
    }

    /// Creates the pair for a profile's card, for buffers of `bytes` on the uncompressed side.
    ///
    /// # Errors
    /// [`CostError`]: it cannot do this, or not with such buffers.
    pub(super) fn modelled(
        profile: &Profile,
        operation: Operation,
        patterns: &[String],
        ratio: f64,
        bytes: u64,
    ) -> Result<Self, CostError> {
        let mut work = work(operation, patterns, ratio, bytes);
        // A calibrated profile knows what a job costs by how it is waited for.
        work.completion = Some(completion::published(bytes).mode);
        let found = cost(profile, &work)?;
        let mut evidence = Evidence::new();
        let mut time = |key: String, span: Option<Span>, facts: &[String]| {
            let name = format!("{}/{key}", profile.name);
            insert_time(&mut evidence, &name, span?, facts);
            Some(name)
        };
        let facts_of = |quantity: Option<&Quantity>| {
            quantity.map_or_else(Vec::new, |quantity| quantity.facts.clone())
        };
        let of = format!("operations.{operation}");
        let parts = &found.parts;
        let entry = profile.able(operation).ok();
        let is_spread = entry.is_some_and(|entry| entry.rate_is_spread);
        let engine = parts.engine.map(|time| if is_spread { mean(time) } else { time });
        let per_job = facts_of(entry.and_then(|entry| entry.per_job.as_ref()));
        let (to, from) = (&profile.link.to_device, &profile.link.from_device);
        let returns = parts.link_out.filter(|_| work.destination_bytes > 0);
        let mut names = Names {
            bytes: bytes as f64,
            // All that the engine's time rests on, patterns included.
            engine: time(format!("{of}.rate"), engine, &found.facts),
            per_job: time(format!("{of}.per_job"), parts.per_job, &per_job),
            link_in: time("link.to_device".into(), parts.link_in, &facts_of(to.as_ref())),
            link_out: time("link.from_device".into(), returns, &facts_of(from.as_ref())),
            engines: None,
            closeness: format!("{}/likeness to what was published", profile.name),
        };
        if let Some(engines) = &profile.device.engines {
            let name = format!("{}/device.engines", profile.name);
            evidence.insert(&name, engines.clone());
            names.engines = Some(name);
        }
        let factor = EvidenceLevel::Card.factor();
        let doubt = Interval { low: 1.0 / factor, typ: 1.0, high: factor };
        insert_number(&mut evidence, &names.closeness, doubt);
        let certain = certain_from(profile, operation, patterns, ratio)?;
        let unknown = certain.map_or_else(
            || Some(no_pattern(profile)),
            |from| {
                (bytes < from && found.parts.per_job.is_none()).then(|| no_job_cost(profile, from))
            },
        );
        Ok(Self {
            evidence,
            source: Source::Profile(names),
            unknown,
            bounded: profile.device.engines.is_some() && certain.is_some(),
            beside: 1.0,
        })
    }

    /// Adds the CPU's rate at that size, and the rate of one core. `beside` is the fraction of its rate that
    /// is left while it drives the device.
    pub(super) fn with_cpu(mut self, cpu: &CpuRate, beside: f64) -> Self {
        let mut rate = |name, of: Interval| {
            let of = of.scale(1.0 / Unit::MBPerS.in_base());
            insert(&mut self.evidence, name, of, Unit::MBPerS, cpu.facts.clone());
        };
        rate(CPU, cpu.bytes_per_s);
        if let Some(core) = cpu.core_bytes_per_s {
            rate(CORE, core);
        }
        self.beside = beside;
        self
    }

    fn device(&self, v: &Values<'_>) -> Evaluation<Outcome> {
        let names = match &self.source {
            Source::Measured => return v.get(DEVICE).map(Into::into),
            Source::Profile(names) => names,
        };
        let get = |name: &Option<String>| name.as_ref().map_or(Ok(0.0), |name| v.get(name));
        let engines = names.engines.as_ref().map_or(Ok(1.0), |name| v.get(name))?;
        let servers = [
            ("the engine", (get(&names.engine)? + get(&names.per_job)?) / engines),
            ("the link to the device", get(&names.link_in)?),
            ("the link from the device", get(&names.link_out)?),
        ];
        let slowest = servers.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let (name, time_ns) = slowest.unwrap_or(("the engine", 1.0));
        Ok(Outcome {
            value: names.bytes * 1e9 / time_ns.max(1.0) * v.get(&names.closeness)?,
            bottleneck: Some(name.into()),
        })
    }

    fn known(&self) -> Result<(), NoPrediction> {
        self.unknown.clone().map_or(Ok(()), Err)
    }

    /// Predicts a formula over the device's rate and the CPU's, both in bytes a second. Fails if
    /// the device's rate is not known.
    fn predict(&self, formula: impl Fn(f64, f64, &Values<'_>) -> Evaluation) -> Answer {
        self.known()?;
        self.bound(formula)
    }

    /// Variant of `predict`, also with unknown rates: only the upper end of the answer is valid then.
    fn bound(&self, formula: impl Fn(f64, f64, &Values<'_>) -> Evaluation) -> Answer {
        self.evidence.predict(EvidenceLevel::Same, |v| {
            let device = self.device(v)?;
            Ok(Outcome {
                value: formula(device.value, v.get(CPU)?, v)?,
                bottleneck: device.bottleneck,
            })
        })
    }

    /// The device alone, in bytes of the uncompressed side a second.
    pub(super) fn alone(&self) -> Answer {
        self.known()?;
        self.evidence.predict(EvidenceLevel::Same, |v| self.device(v))
    }

    /// Returns the upper bound of the device's rate in bytes a second; `None` if nothing bounds it.
    pub(super) fn at_most(&self) -> Option<f64> {
        let found = self.evidence.predict(EvidenceLevel::Same, |v| self.device(v));
        self.bounded.then(|| found.ok().map(|one| one.interval.high))?
    }

    /// The device alone over the CPU alone.
    pub(super) fn speedup(&self) -> Answer {
        self.predict(|device, cpu, _| Ok(device / cpu))
    }

    /// Both together, each with the share that lets them end together.
    pub(super) fn together(&self) -> Answer {
        self.predict(|device, cpu, _| Ok(device + cpu * self.beside))
    }

    /// Both together over the CPU alone.
    pub(super) fn gain(&self) -> Answer {
        self.predict(|device, cpu, _| Ok((device + cpu * self.beside) / cpu))
    }

    /// Both together over the better one alone.
    pub(super) fn split_gain(&self) -> Answer {
        self.predict(|device, cpu, _| Ok((device + cpu * self.beside) / device.max(cpu)))
    }

    /// An upper bound of the device over the CPU.
    pub(super) fn speedup_at_most(&self) -> Option<f64> {
        let found = self.bound(|device, cpu, _| Ok(device / cpu));
        self.bounded.then(|| found.ok().map(|one| one.interval.high))?
    }

    /// The share of the bytes for the device that lets both sides end together.
    pub(super) fn fraction(&self) -> Option<Interval> {
        let odds = self.predict(|device, cpu, _| Ok(device / (cpu * self.beside).max(1.0)));
        let odds = odds.ok()?.interval;
        Some(odds.map(|odds| odds / (1.0 + odds)))
    }

    /// The host's CPU time with a share of the bytes on the device over that without. A core that
    /// polls is busy all the time; one that waits for events is taken to cost nothing, which makes
    /// this the least there can be.
    pub(super) fn host_time(&self, fraction: f64, polls: bool) -> Option<Interval> {
        let measured = self.evidence.get(DEVICE_CORE).is_some();
        let found = self.predict(|device, cpu, v| {
            let core = v.get(CORE)?;
            let elapsed_s =
                (fraction / device).max((1.0 - fraction) / (cpu * self.beside).max(1.0));
            let driving = match (measured, polls) {
                (true, _) => fraction * core / v.get(DEVICE_CORE)?,
                (false, true) => core * elapsed_s,
                (false, false) => 0.0,
            };
            Ok((1.0 - fraction + driving).max(1e-6))
        });
        found.ok().map(|one| one.interval)
    }
}

/// The mean time of jobs whose times are spread like that: those of other data lie as far from what
/// was published as another application's.
fn mean(spread: Span) -> Span {
    let Interval { low, typ, high } = spread.interval();
    let factor = EvidenceLevel::Application.factor();
    Span::of(Interval { low: low.max(typ / factor), typ, high: high.min(typ * factor) })
}

/// The least size at which a profile's rate holds as it stands, no longer than the longest that
/// it takes of such data; `None` if no rate was published for these patterns.
fn certain_from(
    profile: &Profile,
    operation: Operation,
    patterns: &[String],
    ratio: f64,
) -> Result<Option<u64>, CostError> {
    let entry = profile.able(operation)?;
    let longest = longest(entry, operation, ratio);
    let from = if entry.patterns.is_empty() {
        Some(RATES_FROM_BYTES)
    } else {
        let sweep = entry.pattern(patterns).map(|known| known.sweep.as_ref());
        sweep.map(|sweep| sweep.map_or(0, |sweep| sweep.source_bytes[0]))
    };
    Ok(from.map(|from| from.min(longest)))
}

fn no_pattern(profile: &Profile) -> NoPrediction {
    NoPrediction {
        why: format!(
            "the rate of {}'s engine depends on the patterns, and these were not published",
            profile.name
        ),
        remedy: "measure them with a box on such a card".into(),
    }
}

/// The reason why nothing is known of jobs shorter than `from_bytes`.
pub(crate) fn no_job_cost(profile: &Profile, from_bytes: u64) -> NoPrediction {
    NoPrediction {
        why: format!(
            "what one job costs on {} is not published, which counts below {from_bytes} bytes",
            profile.name
        ),
        remedy: "`overside calibrate` measures it on such a card".into(),
    }
}

/// Adds a parameter.
pub(super) fn insert(
    evidence: &mut Evidence,
    name: &str,
    of: Interval,
    unit: Unit,
    facts: Vec<String>,
) {
    let quantity = Quantity {
        low: Some(of.low),
        high: Some(of.high),
        facts,
        ..Quantity::number(of.typ, unit)
    };
    evidence.insert(name, quantity);
}

/// Adds a rate in bytes a second that was measured here.
pub(super) fn insert_rate(evidence: &mut Evidence, name: &str, rate: Interval) {
    let rate = rate.scale(1.0 / Unit::MBPerS.in_base());
    insert(evidence, name, rate, Unit::MBPerS, Vec::new());
}

/// Adds a plain number.
pub(super) fn insert_number(evidence: &mut Evidence, name: &str, number: Interval) {
    insert(evidence, name, number, Unit::Count, Vec::new());
}

/// Adds a time, unless it is 0, which cannot be divided by.
fn insert_time(evidence: &mut Evidence, name: &str, time: Span, facts: &[String]) {
    let interval = time.interval().map(|end| end.max(1.0));
    insert(evidence, name, interval, Unit::Ns, facts.to_vec());
}

/// Setting up a context for each buffer over keeping it, one buffer at a time.
pub(super) fn kept(profile: &Profile, work: &Work) -> Answer {
    let of = |setting| {
        let mut work = work.clone();
        work.setting = setting;
        cost(profile, &work).map_err(|error| NoPrediction {
            why: error.to_string(),
            remedy: "choose another device".into(),
        })
    };
    let (fixed, anew) = (of(Setting::Static)?, of(Setting::Reconfiguration)?);
    if anew.parts.reconfiguration.is_none() && anew.parts.context_init.is_none() {
        return Err(NoPrediction {
            why: "what setting up a context costs is not published".into(),
            remedy: "`overside calibrate` measures it on such a card".into(),
        });
    }
    let mut evidence = Evidence::new();
    let job = format!("{}/one job", profile.name);
    let change = format!("{}/reconfiguration", profile.name);
    insert_time(&mut evidence, &job, fixed.span(), &fixed.facts);
    let setting_up = Span::sum([anew.parts.reconfiguration, anew.parts.context_init]);
    insert_time(&mut evidence, &change, setting_up, &anew.facts);
    evidence.predict(EvidenceLevel::Card, |v| {
        let job = v.get(&job)?;
        Ok((job + v.get(&change)?) / job)
    })
}
