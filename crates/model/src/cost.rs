//! The closed-form cost of one operation.

use overside_ops::{Direction, Operation};
use serde::{Deserialize, Serialize};

use crate::{Basis, CostError, Interval, OperationProfile, Profile, Quantity};

/// Whether contexts are set up once or for each job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Setting {
    /// Contexts and buffers are set up once and reused.
    #[default]
    Static,
    /// They are torn down and set up again before each job, as when the buffer size changes.
    Reconfiguration,
}

/// One operation on one buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Work {
    /// What is done.
    pub operation: Operation,
    /// Regular expressions; matching only.
    pub patterns: Vec<String>,
    /// Length of the source in bytes.
    pub source_bytes: u64,
    /// Length of the result in bytes.
    pub destination_bytes: u64,
    /// Whether the context is set up for it.
    pub setting: Setting,
}

impl Work {
    /// In the static setting, without patterns.
    pub fn new(operation: Operation, source_bytes: u64, destination_bytes: u64) -> Self {
        Self {
            operation,
            patterns: Vec::new(),
            source_bytes,
            destination_bytes,
            setting: Setting::Static,
        }
    }
}

/// A time between two bounds, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The shortest.
    pub low_ns: u64,
    /// What stands for all.
    pub typ_ns: u64,
    /// The longest.
    pub high_ns: u64,
}

impl Span {
    fn of(interval: Interval) -> Self {
        // `as` saturates: an absurd profile gives an absurd time, not a wrong one.
        Self {
            low_ns: interval.low.floor() as u64,
            typ_ns: interval.typ.round() as u64,
            high_ns: interval.high.ceil() as u64,
        }
    }
}

/// What the cost is made of; absent where the profile has no value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// Letting the old context go; in the reconfiguration setting only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconfiguration: Option<Span>,
    /// Initialising the new context; in the reconfiguration setting only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_init: Option<Span>,
    /// From the doorbell to the engine and back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Span>,
    /// Moving the source to the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_in: Option<Span>,
    /// The engine's cost of one job.
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
        [
            self.reconfiguration,
            self.context_init,
            self.latency,
            self.link_in,
        ]
        .into_iter()
        .chain([self.per_job, self.engine, self.link_out])
        .flatten()
    }
}

/// How long one operation takes on an idle device.
///
/// `low_ns` lets the transfers overlap with the engine, as an engine that reads the host's memory
/// by itself does; `typ_ns` and `high_ns` add the parts up. Where something is missing, all three
/// are lower bounds; where only a limit of a time is known, `low_ns` is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The shortest time in nanoseconds.
    pub low_ns: u64,
    /// What stands for all, in nanoseconds.
    pub typ_ns: u64,
    /// The longest time in nanoseconds, of the terms that are known.
    pub high_ns: u64,
    /// What it is made of.
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
    let entry = profile
        .operation(work.operation)
        .ok_or_else(|| CostError::unsupported(profile, work.operation))?;
    for (what, asked_bytes, limit_bytes) in [
        ("a source", work.source_bytes, entry.max_source_bytes()),
        (
            "a destination",
            work.destination_bytes,
            entry.max_destination_bytes(),
        ),
    ] {
        if asked_bytes > limit_bytes {
            let profile = profile.name.clone();
            return Err(CostError::TooLong {
                profile,
                what,
                limit_bytes,
                asked_bytes,
            });
        }
    }
    Ok(Sum::new(profile, entry, work).finish())
}

impl Profile {
    /// Terms of the timing of `operation` for which this profile has no value, whatever the
    /// setting; empty if the device cannot do it.
    pub fn missing(&self, operation: Operation) -> Vec<String> {
        let Some(entry) = self.operation(operation) else {
            return Vec::new();
        };
        let mut work = Work::new(operation, entry.max_source_bytes(), 0);
        work.setting = Setting::Reconfiguration;
        Sum::new(self, entry, &work).finish().missing
    }
}

/// Adds a cost up, and with it what it rests on and what is missing.
struct Sum<'a> {
    profile: &'a Profile,
    entry: &'a OperationProfile,
    work: &'a Work,
    missing: Vec<String>,
    facts: Vec<String>,
}

impl<'a> Sum<'a> {
    fn new(profile: &'a Profile, entry: &'a OperationProfile, work: &'a Work) -> Self {
        let mut sum = Self {
            profile,
            entry,
            work,
            missing: Vec::new(),
            facts: Vec::new(),
        };
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

    /// What a profile gives, or one more missing term.
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
        self.known(rate, term)
            .map(|rate| rate.divide(bytes as f64 * 1e9))
    }

    fn engine(&mut self) -> Option<Interval> {
        let compressed_is_source =
            self.work.operation.uncompressed_side() == Direction::Destination;
        let counts_source = match self.entry.basis {
            Basis::Compressed => compressed_is_source,
            Basis::Uncompressed => !compressed_is_source,
        };
        let bytes = if counts_source {
            self.work.source_bytes
        } else {
            self.work.destination_bytes
        };
        if self.entry.patterns.is_empty() {
            return self.moved(self.entry.rate.as_ref(), bytes, "rate of the engine");
        }
        self.matching(bytes)
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
                self.lacks(format!(
                    "rate of the engine for {}: only a limit",
                    candidate.name
                ));
            }
            hull = Some(hull.map_or(time, |hull| crate::pace::hull(hull, time)));
        }
        hull
    }

    fn finish(mut self) -> Cost {
        let (profile, entry, work) = (self.profile, self.entry, self.work);
        let engine = self.engine();
        let (link, source, result) = (&profile.link, work.source_bytes, work.destination_bytes);
        let link_in = self.moved(
            link.to_device.as_ref(),
            source,
            "rate of the link to the device",
        );
        let link_out = self.moved(
            link.from_device.as_ref(),
            result,
            "rate of the link from the device",
        );
        let per_job = self.fixed(entry.per_job.as_ref(), "the engine's cost of one job");
        let latency = self.fixed(
            entry.latency.as_ref(),
            "latency from the doorbell to the engine",
        );
        let (mut reconfiguration, mut context_init) = (None, None);
        if work.setting == Setting::Reconfiguration {
            reconfiguration = self.fixed(profile.reconfiguration.as_ref(), "end of a context");
            let init = profile.device.context_init.as_ref();
            context_init = self.fixed(init, "initialisation of a context");
        }
        match &profile.device.engines {
            Some(engines) => self.rest_on(&engines.facts),
            None => self.lacks("number of engines: one is assumed"),
        }
        let span = |part: Option<Interval>| part.map(Span::of);
        let parts = Parts {
            reconfiguration: span(reconfiguration),
            context_init: span(context_init),
            latency: span(latency),
            link_in: span(link_in),
            per_job: span(per_job),
            engine: span(engine),
            link_out: span(link_out),
        };
        let add = |time: fn(Span) -> u64| parts.spans().map(time).fold(0, u64::saturating_add);
        let low = |part: Option<Span>| part.map_or(0, |span| span.low_ns);
        let overlapped = [parts.link_in, parts.engine, parts.link_out]
            .map(low)
            .into_iter()
            .max()
            .unwrap_or(0);
        let in_sequence = [
            parts.reconfiguration,
            parts.context_init,
            parts.latency,
            parts.per_job,
        ]
        .map(low);
        Cost {
            low_ns: in_sequence
                .into_iter()
                .fold(overlapped, u64::saturating_add),
            typ_ns: add(|span| span.typ_ns),
            high_ns: add(|span| span.high_ns),
            parts,
            missing: self.missing,
            facts: self.facts,
        }
    }
}
