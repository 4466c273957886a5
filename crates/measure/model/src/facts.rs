//! Facts: figures that others have published, with their conditions.
//!
//! `facts/published.yaml` is the collection. A fact holds one figure or several (by device, size,
//! number of cores); [`Fact::figures`] gives them one by one. A corrected fact has the right value;
//! a suspect one without correction counts for orderings only.

mod basis;
mod keys;
pub(crate) mod question;
mod search;
mod value;

use std::collections::{BTreeMap, BTreeSet};

use overside_config::{Error, parse_yaml, quoted};
use serde::{Deserialize, Serialize};

use question::{OrderingQuestion, Question};

pub use search::{FigureText, Query, Record, SearchResult};
pub use value::{Figure, FigureValue};

/// The collection that is built in.
const PUBLISHED: &str = include_str!("../../../../facts/published.yaml");

/// The longest collection that is read.
pub(crate) const BYTES_MAX: u64 = 4 << 20;

/// The longest name of a fact.
const NAME_BYTES_MAX: usize = 120;

/// All facts and orderings of a collection.
#[derive(Clone, Debug, Deserialize)]
pub struct Facts {
    /// Citations of the studies, and notes on how to read the facts.
    pub meta: Meta,
    /// The facts.
    pub facts: Vec<Fact>,
    /// Published statements that one quantity is larger than another, without magnitudes.
    #[serde(default)]
    pub orderings: Vec<Ordering>,
}

/// Citations of the studies that facts come from, and notes on how to read them.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Meta {
    /// Full citations, by [`Fact::paper`].
    #[serde(default)]
    pub citations: BTreeMap<String, String>,
    /// Notes that a reader of the facts needs, by subject, such as `basis`.
    #[serde(default)]
    pub notes: BTreeMap<String, String>,
}

/// Permitted use of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// Parameters may be taken from the fact.
    Calibrate,
    /// The fact judges the model; no parameter may rest on it.
    Validate,
    /// The fact explains other facts.
    Context,
}

/// Way in which a fact was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A figure that was measured.
    Measured,
    /// One figure over another.
    Ratio,
    /// A figure that a manufacturer states.
    Spec,
    /// No number.
    Qualitative,
    /// Computed from other figures.
    Derived,
}

/// Warning about a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flag {
    /// The fact's number is doubtful: for orderings only, unless it was corrected.
    Suspect,
    /// Read its note first.
    Check,
}

/// A published fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// Identifier of the fact, such as `coproc.co.comp.f70`.
    pub id: String,
    /// The study, a key of [`Meta::citations`].
    pub paper: String,
    /// Place in the study: a section, perhaps with a table or figure.
    #[serde(default)]
    pub section: String,
    /// Device that was measured.
    pub device: String,
    /// Workload that the device ran.
    pub workload: String,
    /// Name of the figure.
    pub metric: String,
    /// One number, two ends, or numbers by device, size or count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<serde_yaml_ng::Value>,
    /// Two ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<serde_yaml_ng::Value>,
    /// Numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<serde_yaml_ng::Value>,
    /// Unit of the figures, as the source prints it.
    #[serde(default)]
    pub unit: String,
    /// Conditions of the figure.
    #[serde(default)]
    pub conditions: String,
    /// Way in which the fact was obtained, such as measured or derived.
    pub kind: Kind,
    /// Text, table, artifact or derived.
    #[serde(default)]
    pub origin: String,
    /// Permitted use of the fact: calibration, validation or context.
    #[serde(rename = "use")]
    pub purpose: Use,
    /// Warning about the fact; `None` if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flag: Option<Flag>,
    /// Note that a reader of the fact needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Correction of a number that is wrong in print: `value`, `range` or `values`, and perhaps
    /// `unit` and `conditions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected: Option<serde_yaml_ng::Value>,
    /// Question that the fact asks of a scenario. A fact of the built-in collection has its
    /// question in `facts/questions.yaml` instead.
    #[serde(default, skip_serializing)]
    pub ask: Option<Question>,
}

/// Published statement that one quantity is larger than another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ordering {
    /// Identifier of the ordering, such as `ord.D1a`.
    pub id: String,
    /// The study.
    pub paper: String,
    /// Place in the study: a section, perhaps with a table or figure.
    #[serde(default)]
    pub section: String,
    /// Statement in words.
    pub statement: String,
    /// The left side.
    #[serde(default)]
    pub lhs: String,
    /// `<`, `>`, `>=`, `~` or `in`.
    #[serde(default)]
    pub rel: String,
    /// The right side.
    #[serde(default)]
    pub rhs: String,
    /// Conditions under which the ordering holds.
    #[serde(default)]
    pub conditions: String,
    /// Firmness of the statement, such as `must`.
    #[serde(default)]
    pub level: String,
    /// Question that the ordering asks of scenarios, as for [`Fact::ask`].
    #[serde(default, skip_serializing)]
    pub ask: Option<OrderingQuestion>,
}

impl Facts {
    /// Returns the built-in collection, which is read once.
    ///
    /// # Panics
    /// Never: a test reads them.
    pub fn published() -> &'static Self {
        static FACTS: std::sync::LazyLock<Facts> = std::sync::LazyLock::new(|| {
            let mut facts = Facts::parse_with("published.yaml", PUBLISHED, |_| Ok(()))
                .expect("the built-in facts are read by a test");
            for (id, why) in question::suspects() {
                let found = facts.facts.iter_mut().find(|fact| fact.id == id);
                let fact = found.expect("a test reads the built-in doubts");
                fact.flag = Some(Flag::Suspect);
                fact.note = Some(why);
            }
            facts
        });
        &FACTS
    }

    /// Reads a collection but for the questions that stand in it: `check` refuses those of a fact.
    ///
    /// # Errors
    /// As [`Facts::parse`].
    pub(crate) fn parse_with(
        file: &str,
        text: &str,
        check: impl Fn(&Fact) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let facts: Self = parse_yaml(file, text, BYTES_MAX)?;
        let place = |id: &str, error: Error| place(file, text, id, error);
        let facts_at = facts.facts.iter().map(|fact| &fact.id);
        let orderings_at = facts.orderings.iter().map(|ordering| &ordering.id);
        let mut seen = BTreeSet::new();
        for id in facts_at.chain(orderings_at) {
            let wrong = |problem: &str, remedy: String| {
                let error = Error::of_key("id", format!("{} {problem}", quoted(id)), remedy);
                Err(place(id, error))
            };
            let is_name = (1..=NAME_BYTES_MAX).contains(&id.len())
                && (id.chars()).all(|at| at.is_ascii_alphanumeric() || "._-".contains(at));
            if !is_name {
                let remedy = format!("1 to {NAME_BYTES_MAX} letters, digits, '.', '_' and '-'");
                return wrong("is no name", remedy);
            }
            if !seen.insert(id) {
                return wrong("is there twice", "keep one of them".into());
            }
        }
        if let Some((id, error)) = keys::misspelt(file, text, &facts)? {
            return Err(place(&id, error));
        }
        for fact in &facts.facts {
            (fact.check_figures()).map_err(|error| place(&fact.id, error))?;
            check(fact).map_err(|error| place(&fact.id, error))?;
        }
        Ok(facts)
    }

    /// The fact of that name.
    pub fn get(&self, id: &str) -> Option<&Fact> {
        self.facts.iter().find(|fact| fact.id == id)
    }
}

impl Fact {
    /// Returns `true` if the fact's number is too doubtful for anything but orderings: it is
    /// suspect and not corrected.
    pub fn is_doubtful(&self) -> bool {
        self.flag == Some(Flag::Suspect) && self.corrected.is_none()
    }
}

/// The error at the line of a fact or an ordering of a collection.
pub(crate) fn place(file: &str, text: &str, id: &str, error: Error) -> Error {
    at_line(error.within(file), text, &format!("id: {id}"))
}

/// Returns the error at the line of its key, which is searched from the line that begins with `name`
/// on; each part of a key with dots from the one before it on.
pub(crate) fn at_line(error: Error, text: &str, name: &str) -> Error {
    let mut parts = error.key.split('.').map(|part| format!("{part}:")).peekable();
    let own = error.key.rsplit('.').next().unwrap_or_default().to_owned();
    let mut found = None;
    for (number, line) in text.lines().enumerate() {
        let plain = line.replace(['"', '\''], "");
        // `id: a` is neither `id: a.b` nor `bid: a`.
        let in_name = |at: char| at.is_alphanumeric() || "._-".contains(at);
        let is_name = plain.match_indices(name).any(|(at, _)| {
            !plain[..at].ends_with(in_name) && !plain[at + name.len()..].starts_with(in_name)
        });
        match found {
            None if is_name => found = Some((number, line)),
            // The next name ends the question.
            Some((first, _)) if number > first && line.trim_start() == line && !line.is_empty() => {
                break;
            }
            _ => {}
        }
        while found.is_some() && parts.peek().is_some_and(|part| line.contains(part.as_str())) {
            found = Some((number, line));
            parts.next();
        }
    }
    let Some((number, line)) = found else {
        return error;
    };
    let column = line.find(&format!("{own}:")).or_else(|| line.find(name));
    Error {
        position: Some(overside_config::Position {
            line: u32::try_from(number + 1).unwrap_or(u32::MAX),
            column: u32::try_from(column.unwrap_or(0) + 1).unwrap_or(u32::MAX),
        }),
        ..error
    }
}
