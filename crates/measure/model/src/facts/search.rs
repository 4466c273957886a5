//! Search of facts, with the notes that a reader needs.

use serde::Serialize;

use super::{Fact, Facts, Figure, FigureValue, Flag, Kind, Ordering, Use};
use crate::questions::{AskedFigure, Questions};
use crate::{Basis, Dimension};

/// Conditions of a search. A fact must meet all that are set.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Words that occur in the fact, in any case.
    pub words: Vec<String>,
    /// Part of the study's name, or the first part of its facts' names: `coproc`.
    pub paper: Option<String>,
    /// A device that it is about: `bf2`, `BF-2`, `octeon`.
    pub device: Option<String>,
    /// Permitted use that the facts must have.
    pub purpose: Option<Use>,
}

/// A fact with the notes that a reader needs.
#[derive(Clone, Debug, Serialize)]
pub struct Record {
    /// Identifier of the fact in the collection.
    pub id: String,
    /// Device that was measured.
    pub device: String,
    /// Workload that the device ran.
    pub workload: String,
    /// Name of the figure.
    pub metric: String,
    /// Figures of the fact; the corrected ones if it was corrected.
    pub figures: Vec<FigureText>,
    /// Figures that the study prints, if the fact was corrected; otherwise empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub printed: Vec<FigureText>,
    /// Conditions of the figure; those of the correction first.
    pub conditions: String,
    /// Way in which the fact was obtained, such as measured or derived.
    pub kind: Kind,
    /// Text, table, artifact or derived.
    pub origin: String,
    /// Permitted use of the fact: calibration, validation or context.
    pub purpose: Use,
    /// `true` if the fact's number is too doubtful for anything but orderings.
    pub doubtful: bool,
    /// Warning about the fact, in words; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flag: Option<&'static str>,
    /// The side whose bytes a rate counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<Basis>,
    /// Note that a reader of the fact needs; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Notes of the collection that apply to the fact: subject and text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<(String, String)>,
    /// The study, in full, and where in it.
    pub citation: String,
}

/// One figure, as text.
#[derive(Clone, Debug, Serialize)]
pub struct FigureText {
    /// Keys of the figure inside the fact.
    pub path: Vec<String>,
    /// Value as text, with its sign for a bound.
    pub value: String,
    /// Unit, as the source prints it.
    pub unit: String,
    /// Question that the figure asks of a scenario; `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<AskedFigure>,
    /// Both ends in bytes a second, where it is such a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<[f64; 2]>,
}

/// Facts and orderings that a search found.
#[derive(Clone, Debug, Serialize)]
pub struct SearchResult {
    /// Facts, in the collection's order.
    pub facts: Vec<Record>,
    /// Orderings that hold the words; none where a device or a use was asked for.
    pub orderings: Vec<Ordering>,
}

/// `BF-2`, `bf2` and `Bf 2` are the same.
fn plain(text: &str) -> String {
    (text.to_lowercase().chars()).filter(|at| at.is_alphanumeric()).collect()
}

/// Both ends of a rate in bytes a second.
fn bytes_per_s(figure: &Figure<'_>) -> Option<[f64; 2]> {
    let unit = (figure.known_unit()).filter(|unit| unit.dimension() == Dimension::Rate)?;
    let (low, high) = match figure.value {
        FigureValue::Number(one) => (one, one),
        FigureValue::Range(low, high) => (low, high),
        _ => return None,
    };
    Some([low * unit.in_base(), high * unit.in_base()])
}

fn says(figures: Vec<Figure<'_>>) -> Vec<FigureText> {
    (figures.into_iter())
        .map(|figure| FigureText {
            ask: Questions::published().of(&figure).map(|question| question.asked()),
            bytes_per_s: bytes_per_s(&figure),
            value: figure.value.to_string(),
            unit: figure.unit.to_owned(),
            path: figure.path,
        })
        .collect()
}

impl Facts {
    /// The facts and orderings that a query asks for.
    pub fn search(&self, query: &Query) -> SearchResult {
        let facts = (self.facts.iter())
            .filter(|fact| self.matches(fact, query))
            .map(|fact| self.record(fact))
            .collect();
        let whole = query.device.is_none() && query.purpose.is_none();
        let orderings = (self.orderings.iter())
            .filter(|one| {
                let text =
                    [&one.id, &one.statement, &one.lhs, &one.rhs, &one.conditions, &one.paper];
                whole && of_paper(&one.paper, &one.id, query) && holds(&text, &query.words)
            })
            .cloned()
            .collect();
        SearchResult { facts, orderings }
    }

    fn matches(&self, fact: &Fact, query: &Query) -> bool {
        let devices = || (fact.figures().iter()).any(|one| about(one.device(), query));
        let keys: Vec<String> = (fact.figures().into_iter())
            .flat_map(|figure| figure.path.into_iter().chain([figure.value.to_string()]))
            .collect();
        let empty = String::new();
        let mut text = vec![
            &fact.id,
            &fact.device,
            &fact.workload,
            &fact.metric,
            &fact.conditions,
            &fact.unit,
            fact.note.as_ref().unwrap_or(&empty),
            &fact.paper,
            self.meta.citations.get(&fact.paper).unwrap_or(&empty),
        ];
        text.extend(&keys);
        query.purpose.is_none_or(|purpose| fact.purpose == purpose)
            && of_paper(&fact.paper, &fact.id, query)
            && (about(&fact.device, query) || devices())
            && holds(&text, &query.words)
    }

    /// The fact with the notes that a reader needs.
    pub fn record(&self, fact: &Fact) -> Record {
        let corrected = |key: &str| fact.corrected.as_ref()?.get(key)?.as_str();
        let as_printed = Fact { corrected: None, ..fact.clone() };
        let conditions = match corrected("conditions") {
            Some(correct) if fact.conditions.is_empty() => correct.to_owned(),
            Some(correct) => format!("{correct}; printed: {}", fact.conditions),
            None => fact.conditions.clone(),
        };
        Record {
            id: fact.id.clone(),
            device: fact.device.clone(),
            workload: fact.workload.clone(),
            metric: fact.metric.clone(),
            figures: says(fact.figures()),
            printed: (fact.corrected.as_ref()).map_or(Vec::new(), |_| says(as_printed.figures())),
            conditions,
            kind: fact.kind,
            origin: fact.origin.clone(),
            purpose: fact.purpose,
            doubtful: fact.is_doubtful(),
            flag: fact.flag_in_words(),
            basis: fact.basis(&self.meta),
            note: fact.note.clone(),
            notes: self.notes(fact),
            citation: self.citation(fact),
        }
    }

    fn citation(&self, fact: &Fact) -> String {
        let study = self.meta.citations.get(&fact.paper).unwrap_or(&fact.paper);
        match (fact.section.as_str(), fact.section.starts_with(|at: char| at.is_ascii_digit())) {
            ("", _) => study.clone(),
            (section, true) => format!("section {section} of {study}"),
            (section, false) => format!("{section} of {study}"),
        }
    }

    /// The collection's notes that apply to a fact.
    fn notes(&self, fact: &Fact) -> Vec<(String, String)> {
        let text = plain(&format!("{} {} {}", fact.workload, fact.metric, fact.conditions));
        let applies = |subject: &str| match subject {
            "basis" => fact.basis(&self.meta).is_some(),
            "reconf" => text.contains("reconf") || text.contains("contextend"),
            "agg" => text.contains("mean") || text.contains("ratiooftotals"),
            "profiles" => plain(&fact.device).contains("bf"),
            "loader_rule" => fact.flag.is_some(),
            _ => false,
        };
        (self.meta.notes.iter())
            .filter(|(subject, _)| applies(subject))
            .map(|(subject, text)| (subject.clone(), text.clone()))
            .collect()
    }
}

fn of_paper(paper: &str, id: &str, query: &Query) -> bool {
    query.paper.as_ref().is_none_or(|wanted| {
        let wanted = plain(wanted);
        plain(paper).contains(&wanted)
            || id.split('.').next().is_some_and(|first| plain(first) == wanted)
    })
}

fn about(device: &str, query: &Query) -> bool {
    (query.device.as_ref()).is_none_or(|wanted| plain(device).contains(&plain(wanted)))
}

fn holds(texts: &[&String], words: &[String]) -> bool {
    words.iter().all(|word| {
        let (lower, plain_word) = (word.to_lowercase(), plain(word));
        texts.iter().any(|text| {
            text.to_lowercase().contains(&lower)
                || (!plain_word.is_empty() && plain(text).contains(&plain_word))
        })
    })
}

impl Fact {
    /// Returns the warning about the fact in words; `None` if there is none.
    pub fn flag_in_words(&self) -> Option<&'static str> {
        Some(match (self.flag?, self.corrected.is_some()) {
            (Flag::Suspect, true) => "printed wrongly; corrected",
            (Flag::Suspect, false) => "doubtful: use it for orderings only",
            (Flag::Check, _) => "read its note first",
        })
    }
}
