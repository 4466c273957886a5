//! Comparison of a scenario's options with its baseline, the beginning of a report.
//!
//! Rows that differ in nothing but one key are options of one choice. Each is compared with the
//! row of the baseline by one figure, as advice compares a device with the CPU.

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
    /// row in words.
    pub baseline: String,
    /// Figure of the same row to compare with, without a key. Without this too, the figure is a ratio itself.
    pub over: Option<String>,
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
    /// Rows in the order of the report.
    pub rows: Vec<ComparedRow>,
}

/// A row's value of a key, and its other labels.
type Choice<'a> = (Option<&'a str>, Vec<&'a (String, String)>);

impl Compare {
    /// Compares the rows that have a baseline; nothing if none has.
    pub(super) fn rows(&self, rows: &[Row]) -> Option<ComparedRows> {
        let compared: Vec<ComparedRow> = match &self.key {
            Some(_) => rows.iter().filter_map(|row| self.option(row, rows)).collect(),
            None => rows.iter().filter_map(|row| self.itself(row)).collect(),
        };
        (!compared.is_empty()).then(|| ComparedRows { by: self.clone(), rows: compared })
    }

    fn option(&self, row: &Row, rows: &[Row]) -> Option<ComparedRow> {
        let (option, conditions) = self.choice(row);
        let option = option.filter(|value| *value != self.baseline)?;
        let is_baseline =
            |other: &&Row| self.choice(other) == (Some(self.baseline.as_str()), conditions.clone());
        let baseline = rows.iter().find(is_baseline)?;
        let (mine, other) = (self.metric(row, &self.figure)?, self.metric(baseline, &self.figure)?);
        let comparison = match mine.kind.better {
            Better::Lower => Comparison::modelled(&other.answer, &mine.answer),
            Better::Higher | Better::Neither => Comparison::modelled(&mine.answer, &other.answer),
        };
        Some(ComparedRow {
            option: Some(option.into()),
            conditions: conditions.into_iter().cloned().collect(),
            settled_by: settled_by(&comparison, [&mine.answer, &other.answer]),
            comparison,
            host_cpu_saved: saved(row, baseline),
        })
    }

    fn itself(&self, row: &Row) -> Option<ComparedRow> {
        let mine = self.metric(row, &self.figure)?;
        let (comparison, other) = match &self.over {
            Some(over) => {
                let other = &self.metric(row, over)?.answer;
                (Comparison::modelled(&mine.answer, other), other)
            }
            None => (Comparison::of(&mine.answer), &mine.answer),
        };
        Some(ComparedRow {
            option: None,
            conditions: row.labels.clone(),
            settled_by: settled_by(&comparison, [&mine.answer, other]),
            comparison,
            host_cpu_saved: None,
        })
    }

    fn choice<'a>(&self, row: &'a Row) -> Choice<'a> {
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
fn settled_by(comparison: &Comparison, sides: [&Answer; 2]) -> Option<String> {
    if comparison.verdict != Verdict::CannotTell {
        return None;
    }
    if let Some(unknown) = sides.into_iter().find_map(|side| side.as_ref().err()) {
        return Some(unknown.remedy.clone());
    }
    let doubt = comparison.dominated_by.first();
    Some(doubt.map_or_else(
        || "run both on such a card: published figures do not tell them apart".into(),
        |name| Parameter::remedy(name),
    ))
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
