//! Reports of scenarios: rows of figures, their facts, and missing parameters.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ComparedRows, Point, Row, Scenario};
use crate::Library;

/// A figure that could not be predicted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Missing {
    /// The figure's name.
    pub figure: String,
    /// Reason why there is no prediction.
    pub why: String,
    /// Measurement or other step that would give a prediction.
    pub remedy: String,
}

/// Answers of a scenario to all points of a question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// `"scenario-report/1"`.
    pub schema: &'static str,
    /// The scenario.
    pub scenario: String,
    /// Description of the question, from its file or from the scenario.
    pub about: String,
    /// `"modelled"`, always: nothing here was measured.
    pub provenance: &'static str,
    /// The values that all rows share.
    pub common: BTreeMap<String, String>,
    /// Rows with their baselines; absent if the scenario has no baseline, or it was not asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<ComparedRows>,
    /// Figure whose best and worst row come first where nothing is compared; absent if it is the
    /// first of the rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lead: Option<String>,
    /// A line for each point, or several.
    pub rows: Vec<Row>,
    /// Notes that a reader of the report needs.
    pub notes: Vec<String>,
    /// Statement and source of each fact that figures rest on, by the fact's identifier.
    pub facts: BTreeMap<String, String>,
    /// Figures that could not be predicted, and the measurements to take.
    pub missing: Vec<Missing>,
}

impl Report {
    /// Builds the report from the rows of each point, in order.
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
            lead: scenario.lead.clone(),
            rows: Vec::new(),
            notes: Vec::new(),
            facts: BTreeMap::new(),
            missing: Vec::new(),
        };
        if let Some((first, _)) = points.first() {
            for (key, text) in first.iter() {
                if points.iter().all(|(point, _)| point.word_if_set(key) == Some(text)) {
                    report.common.insert(key.into(), text.into());
                }
            }
        }
        for (point, rows) in points {
            for mut row in rows {
                let own = point.iter().filter(|(key, _)| !report.common.contains_key(*key));
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

    /// Collects the facts and missing parameters of a row.
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
