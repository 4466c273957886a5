//! The closed-form cost of one operation.

use overside_ops::Operation;
use serde::{Deserialize, Serialize};

use crate::engine::JobBytes;
use crate::{CostError, Dimension, Interval, OperationProfile, Profile, Quantity};

/// Lifetime of contexts: set up once, or for each job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Setting {
    /// Contexts and buffers are set up once and reused.
    #[default]
    Static,
    /// Contexts and buffers are torn down and set up again before each job, as when the buffer size changes.
    Reconfiguration,
}

/// Way in which a caller learns that a job is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Completion {
    /// The submitter polls without pause.
    Poll,
    /// The submitter sleeps until an event.
    Event,
}

impl Completion {
    /// Returns the name in which parameters end: `poll` or `event`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Event => "event",
        }
    }
}

/// One operation on one buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// Operation that is done on the buffer.
    pub operation: Operation,
    /// Regular expressions; matching only.
    pub patterns: Vec<String>,
    /// Length of the source in bytes.
    pub source_bytes: u64,
    /// Length of the result in bytes.
    pub destination_bytes: u64,
    /// Lifetime of the context: reused, or set up for this job.
    pub setting: Setting,
    /// Way in which the caller waits. With `None` the caller's own part is not asked for: none of
    /// its terms counts or is called missing.
    pub completion: Option<Completion>,
}

impl Work {
    /// Returns a job in the static setting, without patterns.
    pub fn new(operation: Operation, source_bytes: u64, destination_bytes: u64) -> Self {
        Self {
            operation,
            patterns: Vec::new(),
            source_bytes,
            destination_bytes,
            setting: Setting::Static,
            completion: None,
        }
    }
}

/// A time between two bounds, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The shortest.
    pub low_ns: u64,
    /// Typical time.
    pub typ_ns: u64,
    /// The longest.
    pub high_ns: u64,
}

impl Span {
    pub(crate) fn of(interval: Interval) -> Self {
        // `as` saturates: an absurd profile gives an absurd time, not a wrong one.
        Self {
            low_ns: interval.low.floor() as u64,
            typ_ns: interval.typ.round() as u64,
            high_ns: interval.high.ceil() as u64,
        }
    }

    /// Returns the interval in nanoseconds.
    pub(crate) fn interval(self) -> Interval {
        Interval { low: self.low_ns as f64, typ: self.typ_ns as f64, high: self.high_ns as f64 }
    }

    /// Returns the cost of steps that follow each other.
    pub(crate) fn sum(all: impl IntoIterator<Item = Option<Self>>) -> Self {
        (all.into_iter().flatten()).fold(Self::default(), |sum, one| Self {
            low_ns: sum.low_ns + one.low_ns,
            typ_ns: sum.typ_ns + one.typ_ns,
            high_ns: sum.high_ns + one.high_ns,
        })
    }
}

impl Cost {
    /// Returns the span from the shortest to the longest time.
    pub(crate) fn span(&self) -> Span {
        Span { low_ns: self.low_ns, typ_ns: self.typ_ns, high_ns: self.high_ns }
    }

    /// Nanoseconds a job with many in flight: the slowest of the servers sets the pace.
    pub(crate) fn sustained_ns(&self, engines: Interval) -> Interval {
        let parts = &self.parts;
        let spans = |time: fn(Span) -> u64, engines: f64| {
            let of = |part: Option<Span>| part.map_or(0, time) as f64;
            let engine = (of(parts.engine) + of(parts.per_job)) / engines;
            // A device without any known rate is infinitely fast; one nanosecond keeps it finite.
            of(parts.link_in).max(engine).max(of(parts.link_out)).max(1.0)
        };
        Interval {
            low: spans(|span| span.low_ns, engines.high),
            typ: spans(|span| span.typ_ns, engines.typ),
            high: spans(|span| span.high_ns, engines.low),
        }
    }

    /// Returns bounds of the nanoseconds a job with up to `depth` jobs in flight on an otherwise idle device. Doorbells
    /// are not counted.
    pub fn each_ns(&self, profile: &Profile, depth: usize) -> Interval {
        let engines = profile.device.engines.as_ref();
        let engines = engines.map_or(Interval::exactly(1.0), Quantity::interval);
        let in_turn = self.span().interval().scale(1.0 / depth.max(1) as f64);
        in_turn.with(self.sustained_ns(engines), f64::max)
    }
}

/// Parts that a cost is made of; a part is absent where the profile has no value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// Letting the old context go; in the reconfiguration setting only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconfiguration: Option<Span>,
    /// Initialising the new context; in the reconfiguration setting only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_init: Option<Span>,
    /// The doorbell, where an engine's is known or the caller's part is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub submit: Option<Span>,
    /// Time from the doorbell to the engine and back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Span>,
    /// Time of the link for all packets of the job, independent of their length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<Span>,
    /// Moving the source to the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_in: Option<Span>,
    /// Cost of the job, independent of its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_job: Option<Span>,
    /// The engine's time for the bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<Span>,
    /// Moving the result back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_out: Option<Span>,
}

impl Parts {
    fn spans(&self) -> impl Iterator<Item = Span> {
        [self.reconfiguration, self.context_init, self.submit, self.latency, self.packets]
            .into_iter()
            .chain([self.link_in, self.per_job, self.engine, self.link_out])
            .flatten()
    }
}

/// Time of one operation on an idle device.
///
/// `low_ns` lets the transfers overlap with the engine, as if the engine reads the host's memory
/// itself; `typ_ns` and `high_ns` add the parts up, except that `high_ns` is what whole jobs were measured
/// to take one at a time, where they were. If a part is unknown, all three are lower bounds; if only a limit of
/// a time is known, only `low_ns` is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The shortest time in nanoseconds.
    pub low_ns: u64,
    /// Typical time in nanoseconds.
    pub typ_ns: u64,
    /// The longest time in nanoseconds, of the terms that are known.
    pub high_ns: u64,
    /// Parts that the time is made of.
    pub parts: Parts,
    /// Terms without a fact; they count as zero, or stand at their published limit.
    pub missing: Vec<String>,
    /// The facts that it rests on.
    pub facts: Vec<String>,
}

/// The cost of one operation.
///
/// # Errors
/// [`CostError::Unsupported`], [`CostError::TooLong`].
pub fn cost(profile: &Profile, work: &Work) -> Result<Cost, CostError> {
    let entry = profile.able(work.operation)?;
    for (what, asked_bytes, limit_bytes) in [
        ("a source", work.source_bytes, entry.max_source_bytes()),
        ("a destination", work.destination_bytes, entry.max_destination_bytes()),
    ] {
        if asked_bytes > limit_bytes {
            let profile = profile.name.clone();
            return Err(CostError::TooLong { profile, what, limit_bytes, asked_bytes });
        }
    }
    Ok(Sum::new(profile, entry, work).finish())
}

impl Profile {
    /// Returns the terms of the timing of `operation` without a value in this profile, for any setting; empty
    /// if the device cannot do it.
    pub fn missing(&self, operation: Operation) -> Vec<String> {
        let Some(entry) = self.operation(operation) else {
            return Vec::new();
        };
        let mut work = Work::new(operation, entry.max_source_bytes(), 0);
        work.setting = Setting::Reconfiguration;
        Sum::new(self, entry, &work).finish().missing
    }
}

/// Adds up a cost, with its facts and its missing terms.
struct Sum<'a> {
    profile: &'a Profile,
    entry: &'a OperationProfile,
    work: &'a Work,
    missing: Vec<String>,
    facts: Vec<String>,
}

impl<'a> Sum<'a> {
    fn new(profile: &'a Profile, entry: &'a OperationProfile, work: &'a Work) -> Self {
        let mut sum = Self { profile, entry, work, missing: Vec::new(), facts: Vec::new() };
        sum.rest_on(&profile.device.facts);
        sum.rest_on(&entry.facts);
        sum.rest_on(&entry.max_source.facts);
        sum
    }

    fn rest_on(&mut self, facts: &[String]) {
        for fact in facts {
            if !self.facts.contains(fact) {
                self.facts.push(fact.clone());
            }
        }
    }

    fn lacks(&mut self, term: impl Into<String>) {
        let term = term.into();
        if !self.missing.contains(&term) {
            self.missing.push(term);
        }
    }

    /// A time that a profile gives, or one more missing term. Below a limit it may be anything.
    fn fixed(&mut self, quantity: Option<&Quantity>, term: &str) -> Option<Interval> {
        let time = self.known(quantity, term)?;
        let low = match quantity {
            Some(limit) if limit.is_limit() => 0.0,
            _ => time.low,
        };
        Some(Interval { low, ..time })
    }

    /// Returns a value of the profile as an interval. Without the value, adds `term` to the missing
    /// terms and returns `None`.
    fn known(&mut self, quantity: Option<&Quantity>, term: &str) -> Option<Interval> {
        let Some(quantity) = quantity else {
            self.lacks(term);
            return None;
        };
        self.rest_on(&quantity.facts);
        if quantity.is_limit() {
            self.lacks(format!("{term}: only a limit is known"));
        }
        Some(quantity.interval())
    }

    /// The time for `bytes` at a rate that a profile gives.
    fn moved(&mut self, rate: Option<&Quantity>, bytes: u64, term: &str) -> Option<Interval> {
        self.known(rate, term).map(|rate| rate.divide(bytes as f64 * 1e9))
    }

    /// A time among the profile's other values, by name, or one more missing term.
    fn value(&mut self, name: &str, term: &str) -> Option<Interval> {
        let value = self.profile.values.get(name);
        let value = value.filter(|one| one.unit.dimension() == Dimension::Time);
        self.fixed(value, term)
    }

    /// A time under `stem.OPERATION`, and `.poll` or `.event` where that is asked for.
    fn callers(&mut self, stem: &str, term: &str) -> Option<Interval> {
        let completion = self.work.completion?;
        let name = format!("{stem}.{}.{}", self.work.operation, completion.name());
        self.value(&name, term)
    }

    /// The doorbell: the engine's part, or else a caller's measurement.
    fn submit(&mut self) -> Option<Interval> {
        let term = "cost of a doorbell";
        match self.entry.per_doorbell.as_ref() {
            None => self.callers("batch.cost", term),
            own => self.fixed(own, term),
        }
    }

    /// Returns the cost of the job independent of its size: the engine's, or otherwise a caller's
    /// measurement.
    fn per_job(&mut self) -> Option<Interval> {
        let term = "the engine's cost of one job";
        let own = self.entry.per_job.as_ref();
        match own {
            None if self.work.completion.is_some() => self.callers("job.cost", term),
            own => self.fixed(own, term),
        }
    }

    fn latency(&mut self) -> Option<Interval> {
        let term = "latency from the doorbell to the engine";
        let entry = self.entry;
        match entry.latency.as_ref() {
            None if self.work.completion.is_some() => self.callers("job.latency", term),
            own => {
                self.rest_on(entry.latency_until.as_ref().map_or(&[][..], |until| &until.facts));
                Some(self.fixed(own, term)?.scale(entry.latency_share(self.job())))
            }
        }
    }

    fn job(&self) -> JobBytes {
        let work = self.work;
        JobBytes {
            operation: work.operation,
            source: work.source_bytes,
            destination: work.destination_bytes,
        }
    }

    /// Returns the time that the link takes for its packets beyond that for their bytes. `None` if
    /// the caller's part is not asked for or the profile lacks a value.
    fn packets(&mut self) -> Option<Interval> {
        self.work.completion?;
        let profile = self.profile;
        let packet_bytes = (profile.values.get("pcie.packet.bytes"))
            .filter(|one| one.unit.dimension() == Dimension::Size);
        let Some(size) = packet_bytes else {
            self.lacks("cost of a packet on the link");
            return None;
        };
        let one = self.value("pcie.packet.time", "cost of a packet on the link")?;
        self.rest_on(&size.facts);
        let longest = size.interval().typ;
        let count = |bytes: u64| (bytes as f64 / longest).ceil();
        let packets = count(self.work.source_bytes) + count(self.work.destination_bytes);
        Some(one.scale(packets))
    }

    /// Returns the times to end the old context and to initialize the new one. The figure for the first is of
    /// this operation and initiator, and its bounds are of all paths: they differ by more than is known.
    fn contexts(&mut self) -> (Option<Interval>, Option<Interval>) {
        let (profile, operation) = (self.profile, self.work.operation);
        let mut end = self.fixed(profile.context_end(operation), "end of a context");
        if let (Some(end), Some(all)) = (&mut end, &profile.reconfiguration) {
            self.rest_on(&all.facts);
            end.low = end.low.min(all.interval().low);
            end.high = end.high.max(all.interval().high);
        }
        let init = profile.context_init(operation);
        (end, self.fixed(init, "initialisation of a context"))
    }

    fn engine(&mut self) -> Option<Interval> {
        let (entry, job) = (self.entry, self.job());
        let operation = self.work.operation.to_string();
        if entry.at_least.contains(&operation) {
            self.lacks(format!("what {operation} takes longer than other jobs of the engine"));
        }
        if !entry.patterns.is_empty() {
            return self.matching(entry.counted_bytes(job));
        }
        let rate = self.known(entry.rate.as_ref(), "rate of the engine")?;
        self.rest_on(entry.output_rate.as_ref().map_or(&[][..], |most| &most.facts));
        Some(entry.engine_ns(rate, job))
    }

    /// The published pattern's time, or the range over all published ones.
    fn matching(&mut self, bytes: u64) -> Option<Interval> {
        let (entry, one) = (self.entry, self.entry.pattern(&self.work.patterns));
        let candidates = match one {
            Some(one) => std::slice::from_ref(one),
            None => {
                self.lacks("rate of the engine for these patterns: the range of published ones");
                &entry.patterns
            }
        };
        let mut hull: Option<Interval> = None;
        for candidate in candidates {
            let (time, limit, facts) = candidate.time_ns(bytes);
            self.rest_on(facts);
            if limit {
                self.lacks(format!("rate of the engine for {}: only a limit", candidate.name));
            }
            hull = Some(hull.map_or(time, |hull| crate::pace::hull(hull, time)));
        }
        hull
    }

    fn finish(mut self) -> Cost {
        let (profile, work) = (self.profile, self.work);
        let engine = self.engine();
        let (link, source, result) = (&profile.link, work.source_bytes, work.destination_bytes);
        let link_in = self.moved(link.to_device.as_ref(), source, "rate of the link to the device");
        let link_out =
            self.moved(link.from_device.as_ref(), result, "rate of the link from the device");
        let (per_job, latency) = (self.per_job(), self.latency());
        let (submit, packets) = (self.submit(), self.packets());
        let (mut reconfiguration, mut context_init) = (None, None);
        if work.setting == Setting::Reconfiguration {
            (reconfiguration, context_init) = self.contexts();
        }
        match &profile.device.engines {
            Some(engines) => self.rest_on(&engines.facts),
            None => self.lacks("number of engines: one is assumed"),
        }
        let span = |part: Option<Interval>| part.map(Span::of);
        let parts = Parts {
            reconfiguration: span(reconfiguration),
            context_init: span(context_init),
            submit: span(submit),
            latency: span(latency),
            packets: span(packets),
            link_in: span(link_in),
            per_job: span(per_job),
            engine: span(engine),
            link_out: span(link_out),
        };
        let add = |time: fn(Span) -> u64| parts.spans().map(time).fold(0, u64::saturating_add);
        let (typ_ns, mut high_ns) = (add(|span| span.typ_ns), add(|span| span.high_ns));
        if let Some(whole) = &self.entry.one_at_a_time {
            self.rest_on(&whole.facts);
            let (job, _) = whole.time_ns(work.source_bytes);
            let set_up = Span::sum([parts.reconfiguration, parts.context_init]).high_ns;
            high_ns = typ_ns.max(set_up.saturating_add(job.high.ceil() as u64));
        }
        let low = |part: Option<Span>| part.map_or(0, |span| span.low_ns);
        let overlapped =
            [parts.link_in, parts.engine, parts.link_out].map(low).into_iter().max().unwrap_or(0);
        let in_sequence =
            [parts.reconfiguration, parts.context_init, parts.submit, parts.latency, parts.per_job]
                .map(low);
        Cost {
            low_ns: in_sequence.into_iter().fold(overlapped, u64::saturating_add),
            typ_ns,
            high_ns,
            parts,
            missing: self.missing,
            facts: self.facts,
        }
    }
}
