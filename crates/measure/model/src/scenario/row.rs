//! Rows of figures, each an interval or the reason for having none.

use serde::{Deserialize, Serialize, Serializer};

use super::Point;
use crate::{Answer, EvidenceLevel, Interval, Prediction, Unit};

/// Method by which figures were obtained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// A formula.
    #[default]
    ClosedForm,
    /// Events in virtual time.
    Simulated,
}

/// Direction in which a figure gets better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither.
    Neither,
}

/// A figure that rows may have.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricKind {
    /// Name of the figure, such as `throughput`.
    pub name: String,
    /// Unit in which the figure is shown.
    pub unit: Unit,
    /// Direction in which it gets better.
    pub better: Better,
}

/// A figure of a row. It is modelled, always.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Name and unit of the figure, and which way it gets better.
    pub kind: &'static MetricKind,
    /// Figure in base units, or the reason for having none.
    pub answer: Answer,
}

impl Metric {
    /// Limits the figure to `most`, in base units, as for a share.
    #[must_use]
    pub fn at_most(mut self, most: f64) -> Self {
        if let Ok(known) = &mut self.answer {
            let interval = &mut known.interval;
            interval.high = interval.high.min(most).max(interval.typ);
        }
        self
    }
}

impl Point {
    /// A figure that was predicted.
    ///
    /// # Panics
    /// If the scenario declares no such metric, which is a mistake in the scenario.
    pub(super) fn metric(&self, name: &str, answer: Answer) -> Metric {
        let kind = self.scenario.metrics.iter().find(|one| one.name == name);
        let kind = kind.unwrap_or_else(|| panic!("the scenario has no metric {name}"));
        Metric { kind, answer }
    }

    /// A figure that follows only from the question, such as the cores that it names: there is no
    /// doubt about it. `value` is in base units.
    pub(super) fn given(&self, name: &str, value: f64) -> Metric {
        self.metric(name, Ok(Prediction::given(Interval::exactly(value))))
    }
}

/// Figure as it is written for programs: numbers in `unit`.
#[derive(Serialize)]
struct Written<'a> {
    name: &'a str,
    unit: &'static str,
    better: Better,
    provenance: &'static str,
    #[serde(flatten)]
    answer: WrittenAnswer<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum WrittenAnswer<'a> {
    Known {
        low: f64,
        typ: f64,
        high: f64,
        closeness: EvidenceLevel,
        influences: &'a [crate::Influence],
        facts: &'a [String],
    },
    Unknown {
        no_prediction: &'a crate::NoPrediction,
    },
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let answer = match &self.answer {
            Ok(known) => {
                let Interval { low, typ, high } =
                    known.interval.scale(1.0 / self.kind.unit.in_base());
                WrittenAnswer::Known {
                    low,
                    typ,
                    high,
                    closeness: known.closeness,
                    influences: &known.influences,
                    facts: &known.facts,
                }
            }
            Err(no_prediction) => WrittenAnswer::Unknown { no_prediction },
        };
        Written {
            name: &self.kind.name,
            unit: self.kind.unit.symbol(),
            better: self.kind.better,
            provenance: "modelled",
            answer,
        }
        .serialize(serializer)
    }
}

/// One line of a report.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// Labels that the scenario adds to the values of the point, such as `("time", "3 s")`.
    pub labels: Vec<(String, String)>,
    /// Method by which the figures were obtained.
    pub method: Method,
    /// Work done a second.
    pub throughput: Option<Metric>,
    /// Time that one piece of work takes.
    pub latency: Option<Metric>,
    /// The host's cores that it keeps busy.
    pub host_cores: Option<Metric>,
    /// Other figures.
    pub more: Vec<Metric>,
    /// Resource that limits the row. If it is not set, that of the throughput, otherwise of the
    /// latency, is used.
    pub bottleneck: Option<String>,
    /// Notes that a reader of the row needs.
    pub notes: Vec<String>,
}

impl Row {
    /// All its figures.
    pub fn shown(&self) -> impl Iterator<Item = &Metric> {
        [&self.throughput, &self.latency, &self.host_cores].into_iter().flatten().chain(&self.more)
    }

    /// The resource that limits its throughput or latency.
    pub(super) fn limit(&self) -> Option<String> {
        [&self.throughput, &self.latency]
            .into_iter()
            .flatten()
            .find_map(|shown| shown.answer.as_ref().ok()?.bottleneck.clone())
    }
}
