//! Comparison of a scenario's options with its baseline and with each other, the beginning of a report.
//!
//! 1. Rows that differ in nothing but one key are options of one choice. Each is compared with the
//!    row of the baseline by one figure, as advice compares a device with the CPU.
//! 2. Of each choice the best options are those that no other is typically better than. Where
//!    several are exactly equal, as designs that all carry a given load are, a second figure
//!    decides between them.
//! 3. The options that may be as good as the best are its rivals: the ratio to it reaches 1.

use serde::{Deserialize, Serialize};

use super::row::{Better, Metric, Row};
use crate::advice::Comparison;
use crate::{Answer, Interval, Parameter, Verdict};

/// Way in which rows are compared, as `scenarios.toml` declares it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Compare {
    /// The figure that decides.
    pub figure: String,
    /// The key whose values are the options.
    pub key: Option<String>,
    /// The value of the key that the others are compared with; without a key, the baseline of each
    /// row in words: the figure is a ratio to it.
    pub baseline: String,
    /// The figure that decides between options that are equal in `figure`; the less, the better.
    pub then: Option<String>,
}

/// The best of the options that share their other labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Choice {
    /// Labels that the options share.
    pub conditions: Vec<(String, String)>,
    /// The best options, the baseline among them: one, or several that are exactly equal.
    pub best: Vec<String>,
    /// Options that may be as good as the best.
    pub rivals: Vec<String>,
    /// If a second figure decided: that figure of each option that was equal in the first, in
    /// its own unit, in the order of the rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<(String, Interval)>,
}

/// A row with its baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedRow {
    /// The option; absent where rows have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// Other labels of the row, which the baseline shares.
    pub conditions: Vec<(String, String)>,
    /// Comparison of the row with its baseline: above 1, the row is better.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Part of the host's cores that it saves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_cpu_saved: Option<Interval>,
    /// The measurement that would decide an undecided comparison: of the parameter that its doubt
    /// comes from most, or that is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_by: Option<String>,
}

/// All rows with their baselines.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedRows {
    /// Figure of the comparison.
    #[serde(flatten)]
    pub by: Compare,
    /// The choices between options, in the order of the report; none without a key.
    pub choices: Vec<Choice>,
    /// Rows in the order of the report.
    pub rows: Vec<ComparedRow>,
}

/// Labels that several rows share.
type Conditions<'a> = Vec<&'a (String, String)>;

/// A row's value of a key, and its other labels.
type Labels<'a> = (Option<&'a str>, Conditions<'a>);

/// An option, and its row.
type Candidate<'a> = (&'a str, &'a Row);

impl Compare {
    /// Compares the rows that have a baseline; nothing if none has.
    pub(super) fn rows(&self, rows: &[Row]) -> Option<ComparedRows> {
        let compared: Vec<ComparedRow> = match &self.key {
            Some(_) => rows.iter().filter_map(|row| self.option(row, rows)).collect(),
            None => rows.iter().filter_map(|row| self.itself(row)).collect(),
        };
        (!compared.is_empty()).then(|| ComparedRows {
            by: self.clone(),
            choices: self.choices(rows),
            rows: compared,
        })
    }

    /// The choices that have a baseline and a figure of at least one option.
    fn choices(&self, rows: &[Row]) -> Vec<Choice> {
        let mut known: Vec<Conditions<'_>> = Vec::new();
        for (option, conditions) in rows.iter().map(|row| self.labels(row)) {
            if option == Some(self.baseline.as_str()) && !known.contains(&conditions) {
                known.push(conditions);
            }
        }
        let choice = |conditions: Conditions<'_>| {
            let option = |row| {
                let (option, own) = self.labels(row);
                Some((option.filter(|_| own == conditions)?, row))
            };
            let options: Vec<Candidate<'_>> = rows.iter().filter_map(option).collect();
            let choice = self.choice(&options)?;
            Some(Choice { conditions: conditions.into_iter().cloned().collect(), ..choice })
        };
        known.into_iter().filter_map(choice).collect()
    }

    /// The best of the options, and its rivals; `None` if there is no figure of any.
    fn choice(&self, options: &[Candidate<'_>]) -> Option<Choice> {
        // Of two that are typically equal, the one that is surer.
        let first = |one: &Candidate<'_>, other: &Candidate<'_>| {
            self.ratio(one.1, other.1).is_some_and(|ratio| {
                ratio.typ > 1.0 || ratio.typ == 1.0 && ratio.low * ratio.high > 1.0
            })
        };
        let known = options.iter().filter(|one| self.ratio(one.1, one.1).is_some());
        let best = known.reduce(|best, one| if first(one, best) { one } else { best })?;
        let to_best =
            |one: &Candidate<'_>| self.ratio(one.1, best.1).unwrap_or(Interval::exactly(0.0));
        let is_equal = |one: &&Candidate<'_>| to_best(one) == Interval::exactly(1.0);
        let equal: Vec<&Candidate<'_>> = options.iter().filter(is_equal).collect();
        let rivals = options.iter().filter(|one| !is_equal(one) && to_best(one).high >= 1.0);
        let mut choice = Choice {
            rivals: rivals.map(|(name, _)| (*name).to_owned()).collect(),
            ..Choice::default()
        };
        let second = |one: &&Candidate<'_>| {
            let metric = self.metric(one.1, self.then.as_ref()?)?;
            let interval = metric.answer.as_ref().ok()?.interval;
            Some((one.0.to_owned(), interval.scale(1.0 / metric.kind.unit.in_base())))
        };
        let seconds: Option<Vec<_>> = equal.iter().map(second).collect();
        let of_equal = |name: &str| match seconds.as_deref() {
            Some(seconds) => {
                let least = seconds.iter().map(|(_, one)| one.typ).fold(f64::INFINITY, f64::min);
                seconds.iter().any(|(other, one)| other == name && one.typ <= least)
            }
            None => true,
        };
        choice.best =
            equal.iter().filter(|one| of_equal(one.0)).map(|one| one.0.to_owned()).collect();
        choice.then = seconds.filter(|several| several.len() > 1).unwrap_or_default();
        Some(choice)
    }

    /// The ratio of two rows by the figure that decides, above 1 if the first is better; `None` if
    /// there is none.
    fn ratio(&self, row: &Row, other: &Row) -> Option<Interval> {
        self.compared(row, other)?.ratio
    }

    fn compared(&self, row: &Row, other: &Row) -> Option<Comparison> {
        let (mine, other) = (self.metric(row, &self.figure)?, self.metric(other, &self.figure)?);
        Some(match mine.kind.better {
            Better::Lower => Comparison::modelled(&other.answer, &mine.answer),
            Better::Higher | Better::Neither => Comparison::modelled(&mine.answer, &other.answer),
        })
    }

    fn option(&self, row: &Row, rows: &[Row]) -> Option<ComparedRow> {
        let (option, conditions) = self.labels(row);
        let option = option.filter(|value| *value != self.baseline)?;
        let is_baseline =
            |other: &&Row| self.labels(other) == (Some(self.baseline.as_str()), conditions.clone());
        let baseline = rows.iter().find(is_baseline)?;
        let (mine, other) = (self.metric(row, &self.figure)?, self.metric(baseline, &self.figure)?);
        let comparison = self.compared(row, baseline)?;
        Some(ComparedRow {
            option: Some(option.into()),
            conditions: conditions.into_iter().cloned().collect(),
            settled_by: settled_by(&comparison, &[&mine.answer, &other.answer]),
            comparison,
            host_cpu_saved: saved(row, baseline),
        })
    }

    fn itself(&self, row: &Row) -> Option<ComparedRow> {
        let mine = self.metric(row, &self.figure)?;
        let comparison = Comparison::of(&mine.answer);
        Some(ComparedRow {
            option: None,
            conditions: row.labels.clone(),
            settled_by: settled_by(&comparison, &[&mine.answer]),
            comparison,
            host_cpu_saved: None,
        })
    }

    fn labels<'a>(&self, row: &'a Row) -> Labels<'a> {
        let is_key = |label: &&(String, String)| self.key.as_ref() == Some(&label.0);
        let own = row.labels.iter().find(is_key).map(|(_, value)| value.as_str());
        (own, row.labels.iter().filter(|label| !is_key(label)).collect())
    }

    fn metric<'a>(&self, row: &'a Row, name: &str) -> Option<&'a Metric> {
        row.shown().find(|one| one.kind.name == name)
    }
}

/// Returns the measurement that would decide an undecided comparison; `None` if the comparison has
/// an answer.
fn settled_by(comparison: &Comparison, sides: &[&Answer]) -> Option<String> {
    if comparison.verdict != Verdict::CannotTell {
        return None;
    }
    if let Some(unknown) = sides.iter().find_map(|side| side.as_ref().err()) {
        return Some(unknown.remedy.clone());
    }
    // Some are derived: no measurement gives those.
    let is_measured =
        |name: &&String| Parameter::of(name.rsplit('/').next().unwrap_or(name)).is_some();
    let doubt = comparison.dominated_by.iter().find(is_measured);
    Some(doubt.map_or_else(|| "run both on such a machine".into(), |name| Parameter::remedy(name)))
}

/// The part of a baseline's host cores that a row does without.
fn saved(row: &Row, baseline: &Row) -> Option<Interval> {
    let cores = |row: &Row| -> Option<Interval> {
        let answer: &Answer = &row.host_cores.as_ref()?.answer;
        Some(answer.as_ref().ok()?.interval)
    };
    let (mine, other) = (cores(row)?, cores(baseline)?);
    let part = (other.low > 0.0).then(|| mine.over(other))?;
    Some(Interval { low: 1.0 - part.high, typ: 1.0 - part.typ, high: 1.0 - part.low })
}
