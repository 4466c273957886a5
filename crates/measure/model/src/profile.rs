//! The profile file: one card, one host link, one mode of use.

mod missing;
mod validate;

use std::collections::{BTreeMap, BTreeSet};

use overside_config::{Document, Error, Limits};
use overside_ops::{Format, Operation};
use serde::{Deserialize, Serialize};

use crate::{CostError, Dimension, Evidence, Interval, Quantity, Sweep, Table};

pub use missing::Missing;

/// Required `schema` of a profile.
const PROFILE_SCHEMA: &str = "profile/1";
pub(crate) const LIMITS: Limits = Limits::bytes(1 << 20);

/// One card behind one host link in one mode of use (not a generation of cards). Values that it
/// lacks are unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// `"profile/1"`.
    pub schema: String,
    /// Name of the profile: lower-case letters, digits and `-`, the same as the file's.
    pub name: String,
    /// The card.
    pub card: String,
    /// Description of the card's link to the host.
    pub host_link: String,
    /// Machine that submits jobs, and the software that it uses.
    pub mode: String,
    /// Machine whose cores submit jobs.
    #[serde(default)]
    pub initiator: Initiator,
    /// Processor that does the jobs: the card's engines or its cores.
    #[serde(default, skip_serializing_if = "Processor::is_engine")]
    pub processor: Processor,
    /// Profile of the same card and mode with newer software, which stands for it unless this one is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newer: Option<String>,
    /// Source of the values: published, measured or emulated.
    #[serde(default, skip_serializing_if = "ProfileProvenance::is_published")]
    pub provenance: ProfileProvenance,
    /// Notes that a reader needs in addition to the values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Reasons why the device does not do an operation (`compress-deflate`), or any of a kind
    /// (`compress`) except those in `operations`: a sentence each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub absent: BTreeMap<String, String>,
    /// Full citations, by the first part of a fact's id.
    pub sources: BTreeMap<String, String>,
    /// Place in its source and statement of each cited fact, by the fact's identifier.
    pub facts: BTreeMap<String, String>,
    /// Facts that identify the card, and values that belong to all of it.
    pub device: DeviceFacts,
    /// Cost of changing a context beyond initialising the new one: ending the old one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reconfiguration: Option<Quantity>,
    /// The link between host and device.
    #[serde(default)]
    pub link: Link,
    /// Operations that the card's engines can do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<OperationProfile>,
    /// Other known values, by name, such as `tcp.stream.rate`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Quantity>,
    /// Other known values by size, depth or number of cores, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, Table>,
}

/// Source of the values of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProfileProvenance {
    /// Figures that others published.
    #[default]
    Published,
    /// Measured on a real device.
    Measured,
    /// Measured on an emulated one: the values are those of its profile, and nothing about a card.
    Emulated,
}

impl ProfileProvenance {
    fn is_published(&self) -> bool {
        *self == Self::Published
    }
}

/// Machine whose cores submit jobs to a card's engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Initiator {
    /// The host's.
    #[default]
    Host,
    /// The card's own.
    Soc,
}

/// Processor that does a card's jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Processor {
    /// The card's engines.
    #[default]
    Engine,
    /// Software on its own cores, each of which counts as an engine.
    Cores,
}

impl Processor {
    fn is_engine(&self) -> bool {
        *self == Self::Engine
    }
}

/// Facts that identify the card, and values that belong to all of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceFacts {
    /// Facts that identify it.
    #[serde(default)]
    pub facts: Vec<String>,
    /// Engines that work at the same time; one if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engines: Option<Quantity>,
    /// Jobs that its queue holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<Quantity>,
    /// Initialising a context.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_init: Option<Quantity>,
}

/// Rates of the link, a direction each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Rate from the host's memory to the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_device: Option<Quantity>,
    /// Rate from the device to the host's memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_device: Option<Quantity>,
}

/// The side of an operation that a rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Bytes of the compressed side.
    Compressed,
    /// Bytes of the uncompressed side.
    Uncompressed,
}

/// Operations that share an engine and its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationProfile {
    /// Names of the operations, as in `compress-deflate`.
    pub does: Vec<String>,
    /// The side that `rate` counts.
    pub basis: Basis,
    /// Operations of `does` that take longer than the figures say, by an unknown time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_least: Vec<String>,
    /// Facts that show that the device does it.
    #[serde(default)]
    pub facts: Vec<String>,
    /// The longest source of one job.
    pub max_source: Quantity,
    /// The longest destination of one job; as `max_source` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_destination: Option<Quantity>,
    /// The engine's rate; absent where it depends on the pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Quantity>,
    /// `true` if the ends of `rate` are its spread over inputs, which is not the doubt about their
    /// mean.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rate_is_spread: bool,
    /// Compressed bytes / uncompressed bytes at which the typical rate begins to fall, and at which it has fallen to
    /// `low`, in a straight line. Absent: all data have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratios: Option<[f64; 2]>,
    /// The fastest that results come, in bytes of the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_rate: Option<Quantity>,
    /// The engine's own cost of one job, independent of its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_job: Option<Quantity>,
    /// Cost of a doorbell for the engine. The jobs that it hands over share it; rates are those of
    /// many jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_doorbell: Option<Quantity>,
    /// Time from the doorbell to the engine and back. Jobs in flight share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Quantity>,
    /// Length of the uncompressed side from which on a job has no latency; it falls in a straight line up to there.
    /// Absent: it is independent of the length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_until: Option<Quantity>,
    /// Rates with one job at a time, everything included, by length of the source: no job takes
    /// longer. They count the side that `basis` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_at_a_time: Option<Sweep>,
    /// Rates by pattern; matching only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<PatternProfile>,
}

/// The engine's rate for one pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatternProfile {
    /// Name of the pattern in its source, such as `Q1`.
    pub name: String,
    /// The regular expression.
    pub pattern: String,
    /// One rate for all sizes, or
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Quantity>,
    /// a rate for each of several sizes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<Sweep>,
}

impl PatternProfile {
    /// Nanoseconds of the engine for `bytes`, whether that is only a lower bound, and the facts.
    pub(crate) fn time_ns(&self, bytes: u64) -> (Interval, bool, &[String]) {
        if let Some(sweep) = &self.sweep {
            let (time, limit) = sweep.time_ns(bytes);
            return (time, limit, &sweep.facts);
        }
        match &self.rate {
            Some(rate) => {
                (rate.interval().divide(bytes as f64 * 1e9), rate.is_limit(), &rate.facts)
            }
            None => (Interval::exactly(0.0), true, &[]),
        }
    }
}

impl OperationProfile {
    /// Returns the entry's key in messages: `operations.` and the first operation that it does.
    pub(crate) fn key(&self) -> String {
        format!("operations.{}", self.does.first().map_or("?", String::as_str))
    }

    /// Returns `true` if the entry names `operation`.
    pub fn covers(&self, operation: Operation) -> bool {
        let name = operation.to_string();
        self.does.contains(&name)
    }

    /// The longest source of one job in bytes.
    pub fn max_source_bytes(&self) -> u64 {
        self.max_source.interval().typ as u64
    }

    /// The longest destination of one job in bytes.
    pub fn max_destination_bytes(&self) -> u64 {
        self.max_destination.as_ref().unwrap_or(&self.max_source).interval().typ as u64
    }

    /// The rate of a pattern that was published.
    pub fn pattern(&self, patterns: &[String]) -> Option<&PatternProfile> {
        match patterns {
            [one] => self.patterns.iter().find(|known| known.pattern == *one),
            _ => None,
        }
    }
}

impl Profile {
    /// Reads and checks a profile; `file` is for messages.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        Self::check(file, text).map_err(|mut errors| errors.swap_remove(0))
    }

    /// Reads and checks a profile like [`Profile::parse`], but reports everything that is wrong.
    ///
    /// # Errors
    /// At least one.
    pub fn check(file: &str, text: &str) -> Result<Self, Vec<Error>> {
        let read = |text| {
            let document = Document::toml(file, text, LIMITS)?;
            document.schema(PROFILE_SCHEMA)?;
            let profile: Self = document.read()?;
            Ok((document, profile))
        };
        let (document, profile) = read(text).map_err(|error| vec![error])?;
        let problems = validate::problems(&profile);
        if problems.is_empty() {
            return Ok(profile);
        }
        Err((problems.into_iter()).map(|one| document.locate(one)).collect())
    }

    /// Engines that work at the same time; one if it is not known.
    pub fn engines(&self) -> usize {
        let engines = self.device.engines.as_ref();
        engines.map_or(1, |engines| engines.interval().typ as usize)
    }

    /// Returns the number of the machine's cores; `None` if it is not known.
    pub fn cores(&self) -> Option<f64> {
        Some(self.values.get("cpu.cores")?.interval().typ)
    }

    /// Returns the entry for `operation`; `None` if the device cannot do it.
    pub fn operation(&self, operation: Operation) -> Option<&OperationProfile> {
        self.operations.iter().find(|entry| entry.covers(operation))
    }

    /// Returns the time to end a context of `operation`: seen with this operation by this
    /// initiator, otherwise with another one of the same engine, otherwise over all paths to such
    /// cards. `None` if none is known.
    pub fn context_end(&self, operation: Operation) -> Option<&Quantity> {
        let engine = operation.family().engine;
        let others = (Operation::all().into_iter())
            .filter(|other| engine.is_some() && other.family().engine == engine);
        let of_engine = others.map(|other| other.to_string());
        let names = [operation.to_string(), "all".into()].into_iter().chain(of_engine);
        let own = names.filter_map(|name| self.time(&format!("context.end.{name}")));
        own.chain(&self.reconfiguration).next()
    }

    /// Returns the time to initialise a context of `operation`: with this operation, otherwise with
    /// any. `None` if none is known.
    pub fn context_init(&self, operation: Operation) -> Option<&Quantity> {
        let own = self.time(&format!("context.init.{operation}"));
        own.or(self.device.context_init.as_ref())
    }

    /// A time among the other values.
    fn time(&self, name: &str) -> Option<&Quantity> {
        let value = self.values.get(name);
        value.filter(|one| one.unit.dimension() == Dimension::Time)
    }

    /// Returns the entry for `operation`, or for the same operation without its framing.
    ///
    /// # Errors
    /// [`CostError::Unsupported`], [`CostError::Unpublished`].
    pub(crate) fn able(&self, operation: Operation) -> Result<&OperationProfile, CostError> {
        (self.operation(operation))
            .or_else(|| self.operation(without_framing(operation)))
            .ok_or_else(|| {
                let profile = self.name.clone();
                if self.is_unpublished(operation) {
                    return CostError::Unpublished { profile, operation };
                }
                let why = self.why_absent(operation).map(Into::into);
                CostError::Unsupported { profile, operation, why }
            })
    }

    /// Returns the reason why the device does not do `operation`; `None` if it does, or if the
    /// profile gives no reason.
    pub fn why_absent(&self, operation: Operation) -> Option<&str> {
        if self.operation(operation).is_some() {
            return None;
        }
        let why = (self.absent.get(&operation.to_string()))
            .or_else(|| self.absent.get(operation.family().verb))?;
        Some(why)
    }

    /// Returns `true` if the profile says nothing about the engine that `operation` needs. A card whose
    /// engine does other operations does not do this one.
    pub(crate) fn is_unpublished(&self, operation: Operation) -> bool {
        let engine = operation.family().engine;
        let mut of_engine =
            Operation::all().into_iter().filter(|one| one.family().engine == engine);
        let is_unknown = |one| self.operation(one).is_none() && self.why_absent(one).is_none();
        engine.is_some() && of_engine.all(is_unknown)
    }

    /// Returns the reason why no device can be emulated from the profile; `None` if one can.
    pub fn why_not_emulated(&self) -> Option<String> {
        if !self.operations.is_empty() {
            return None;
        }
        let why: BTreeSet<&str> = self.absent.values().map(String::as_str).collect();
        let why: Vec<&str> = why.into_iter().collect();
        let why = if why.is_empty() {
            "the profile has no operations".to_owned()
        } else {
            why.join("; ")
        };
        Some(format!("nothing of {} can be emulated: {why}", self.name))
    }

    /// All values, by their keys.
    pub fn quantities(&self) -> Vec<(String, &Quantity)> {
        let device = [
            ("reconfiguration", self.reconfiguration.as_ref()),
            ("device.engines", self.device.engines.as_ref()),
            ("device.queue_depth", self.device.queue_depth.as_ref()),
            ("device.context_init", self.device.context_init.as_ref()),
            ("link.to_device", self.link.to_device.as_ref()),
            ("link.from_device", self.link.from_device.as_ref()),
        ]
        .map(|(key, quantity)| (key.to_owned(), quantity));
        let operations = self.operations.iter().flat_map(|entry| {
            let key = entry.key();
            let own = [
                ("max_source", Some(&entry.max_source)),
                ("max_destination", entry.max_destination.as_ref()),
                ("rate", entry.rate.as_ref()),
                ("output_rate", entry.output_rate.as_ref()),
                ("per_job", entry.per_job.as_ref()),
                ("per_doorbell", entry.per_doorbell.as_ref()),
                ("latency", entry.latency.as_ref()),
                ("latency_until", entry.latency_until.as_ref()),
            ]
            .map(|(name, quantity)| (format!("{key}.{name}"), quantity));
            let patterns = (entry.patterns.iter())
                .map(move |one| (format!("{key}.patterns.{}.rate", one.name), one.rate.as_ref()));
            own.into_iter().chain(patterns)
        });
        let values = self.values.iter();
        let values = values.map(|(name, one)| (format!("values.{name}"), Some(one)));
        (device.into_iter().chain(operations).chain(values))
            .filter_map(|(key, quantity)| Some((key, quantity?)))
            .collect()
    }

    /// All rates by buffer size, by their keys.
    pub fn sweeps(&self) -> Vec<(String, &Sweep)> {
        (self.operations.iter())
            .flat_map(|entry| {
                let single = (entry.one_at_a_time.as_ref())
                    .map(|sweep| (format!("{}.one_at_a_time", entry.key()), sweep));
                let of_patterns = entry.patterns.iter().filter_map(|one| {
                    let sweep = one.sweep.as_ref()?;
                    Some((format!("{}.patterns.{}.sweep", entry.key(), one.name), sweep))
                });
                single.into_iter().chain(of_patterns)
            })
            .collect()
    }

    /// Returns the profile as the text of a TOML file.
    pub fn to_toml(&self) -> String {
        // Maps with text as keys, numbers and texts: all of it has a form in TOML.
        toml::to_string(self).unwrap_or_default()
    }

    /// Lists the values that the profile lacks and something could supply: those of its device and
    /// operations that are absent, and the parameters that `overside calibrate` measures.
    pub fn gaps(&self) -> Vec<Missing> {
        missing::missing(self)
    }

    /// Returns the parameters that formulas may read: `values` and `tables` by their names.
    pub fn evidence(&self) -> Evidence {
        let mut evidence = Evidence::new();
        for (name, quantity) in &self.values {
            evidence.insert(name, quantity.clone());
        }
        for (name, table) in &self.tables {
            evidence.insert(name, table.clone());
        }
        evidence
    }

    /// Returns the statement of a fact and its source; `None` if the profile does not cite it.
    pub fn citation(&self, fact: &str) -> Option<String> {
        let source = self.sources.get(fact.split('.').next()?)?;
        Some(format!("{} ({source})", self.facts.get(fact)?))
    }
}

/// Returns the part of the operation that an engine does. The headers and checksums around DEFLATE
/// (RFC 1950 and 1952) and around LZ4 blocks are some bytes that the host adds.
pub(crate) fn without_framing(operation: Operation) -> Operation {
    let inner = |format| match format {
        Format::Gzip | Format::Zlib => Format::Deflate,
        Format::Lz4 => Format::Lz4Block,
        other => other,
    };
    match operation {
        Operation::Compress(format) => Operation::Compress(inner(format)),
        Operation::Decompress(format) => Operation::Decompress(inner(format)),
        other => other,
    }
}
