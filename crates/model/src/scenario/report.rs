//! What a scenario answers: rows of figures, each an interval or the reason why there is none.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use super::compare::ComparedRows;
use super::{Point, Scenario};
use crate::{Answer, EvidenceLevel, Interval, Library, Prediction, Unit};

/// How figures were obtained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// A formula.
    #[default]
    ClosedForm,
    /// Events in virtual time.
    Simulated,
}

/// Which way a figure gets better.
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
    /// What it is, as in `throughput`.
    pub name: String,
    /// What it is shown in.
    pub unit: Unit,
    /// Which way it gets better.
    pub better: Better,
}

/// A figure of a row. It is modelled, always.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// What it is.
    pub kind: &'static MetricKind,
    /// The figure in base units, or why there is none.
    pub answer: Answer,
}

impl Metric {
    /// The same for what cannot be more than `most`, in base units, as a share cannot.
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

    /// A figure that follows from the question alone, such as the cores that it names: there is
    /// no doubt about it. `value` is in base units.
    pub(super) fn given(&self, name: &str, value: f64) -> Metric {
        self.metric(name, Ok(Prediction::given(Interval::exactly(value))))
    }
}

/// As it is written for programs: numbers in `unit`.
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
    /// What the scenario adds to the values of the point, as in `("time", "3 s")`.
    pub labels: Vec<(String, String)>,
    /// How its figures were obtained.
    pub method: Method,
    /// Work done a second.
    pub throughput: Option<Metric>,
    /// How long one piece of work takes.
    pub latency: Option<Metric>,
    /// The host's cores that it keeps busy.
    pub host_cores: Option<Metric>,
    /// Other figures.
    pub more: Vec<Metric>,
    /// What limits it; that of the throughput, or else of the latency, where it is not set.
    pub bottleneck: Option<String>,
    /// What its readers have to know.
    pub notes: Vec<String>,
}

impl Row {
    /// All its figures.
    pub fn shown(&self) -> impl Iterator<Item = &Metric> {
        [&self.throughput, &self.latency, &self.host_cores]
            .into_iter()
            .flatten()
            .chain(&self.more)
    }

    fn limit(&self) -> Option<String> {
        [&self.throughput, &self.latency]
            .into_iter()
            .flatten()
            .find_map(|shown| shown.answer.as_ref().ok()?.bottleneck.clone())
    }
}

/// Something that could not be predicted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Missing {
    /// The figure's name.
    pub figure: String,
    /// Why there is none.
    pub why: String,
    /// What to measure to have it.
    pub remedy: String,
}

/// What a scenario answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// `"scenario-report/1"`.
    pub schema: &'static str,
    /// The scenario.
    pub scenario: String,
    /// What it is about.
    pub about: String,
    /// `"modelled"`, always: nothing here was measured.
    pub provenance: &'static str,
    /// The values that all rows share.
    pub common: BTreeMap<String, String>,
    /// Its rows beside their baselines, where the scenario has one and it was asked too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<ComparedRows>,
    /// A line for each point, or several.
    pub rows: Vec<Row>,
    /// What readers have to know.
    pub notes: Vec<String>,
    /// What each fact says that figures rest on, and where it stands.
    pub facts: BTreeMap<String, String>,
    /// What could not be predicted, and what to measure.
    pub missing: Vec<Missing>,
}

impl Report {
    /// Of the rows of each point, in order.
    pub(super) fn of(
        scenario: &Scenario,
        about: &str,
        points: Vec<(Point, Vec<Row>)>,
        library: &Library,
    ) -> Self {
        let mut report = Self {
            schema: "scenario-report/1",
            scenario: scenario.name.clone(),
            about: about.into(),
            provenance: "modelled",
            common: BTreeMap::new(),
            compared: None,
            rows: Vec::new(),
            notes: Vec::new(),
            facts: BTreeMap::new(),
            missing: Vec::new(),
        };
        if let Some((first, _)) = points.first() {
            for (key, text) in first.iter() {
                if points
                    .iter()
                    .all(|(point, _)| point.word_if_set(key) == Some(text))
                {
                    report.common.insert(key.into(), text.into());
                }
            }
        }
        for (point, rows) in points {
            for mut row in rows {
                let own = point
                    .iter()
                    .filter(|(key, _)| !report.common.contains_key(*key));
                let own = own.map(|(key, text)| (key.to_owned(), text.to_owned()));
                row.labels = own.chain(row.labels).collect();
                row.bottleneck = row.bottleneck.take().or_else(|| row.limit());
                report.note(&row, library);
                report.rows.push(row);
            }
        }
        report.compared = (scenario.compare.as_ref()).and_then(|by| by.rows(&report.rows));
        report
    }

    /// Collects what a row rests on and lacks.
    fn note(&mut self, row: &Row, library: &Library) {
        for note in &row.notes {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
        for shown in row.shown() {
            match &shown.answer {
                Ok(known) => {
                    for fact in &known.facts {
                        if !self.facts.contains_key(fact)
                            && let Some(citation) = (library.profiles().iter())
                                .find_map(|profile| profile.citation(fact))
                        {
                            self.facts.insert(fact.clone(), citation);
                        }
                    }
                }
                Err(unknown) => {
                    let missing = Missing {
                        figure: shown.kind.name.clone(),
                        why: unknown.why.clone(),
                        remedy: unknown.remedy.clone(),
                    };
                    if !self.missing.contains(&missing) {
                        self.missing.push(missing);
                    }
                }
            }
        }
    }
}
