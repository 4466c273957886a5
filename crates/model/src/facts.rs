//! Facts: figures that others have published, with their conditions.
//!
//! `facts/published.yaml` is the collection. A fact holds one figure or several (by device, size,
//! number of cores); [`Fact::figures`] gives them one by one. A corrected fact says what is right;
//! a suspect one without correction counts for orderings only.

mod basis;
mod keys;
mod search;
mod value;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use overside_config::{Error, Source, parse_yaml, quoted, read_text};
use serde::{Deserialize, Serialize};

use crate::questions::{self, OrderingQuestion, Question};

pub use search::{FigureText, Query, Record, SearchResult};
pub use value::{Figure, FigureValue};

/// The collection that is built in.
const PUBLISHED: &str = include_str!("../../../facts/published.yaml");

/// The longest collection that is read.
const BYTES_MAX: u64 = 4 << 20;

/// The longest name of a fact.
const NAME_BYTES_MAX: usize = 120;

/// All facts and orderings of a collection.
#[derive(Clone, Debug, Deserialize)]
pub struct Facts {
    /// Where they are from, and how to read them.
    pub meta: Meta,
    /// The facts.
    pub facts: Vec<Fact>,
    /// What is larger than what, whatever the magnitudes.
    #[serde(default)]
    pub orderings: Vec<Ordering>,
}

/// Where facts are from, and how to read them.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Meta {
    /// Full citations, by [`Fact::paper`].
    #[serde(default)]
    pub citations: BTreeMap<String, String>,
    /// What a reader has to know, by subject.
    #[serde(default)]
    pub notes: BTreeMap<String, String>,
}

/// What a fact may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// Parameters may be taken from it.
    Calibrate,
    /// It judges the model; no parameter may rest on it.
    Validate,
    /// It explains others.
    Context,
}

/// How a fact was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A figure that was measured.
    Measured,
    /// One figure over another.
    Ratio,
    /// What a maker says.
    Spec,
    /// No number.
    Qualitative,
    /// Computed from others.
    Derived,
}

/// What to beware of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flag {
    /// Its number is doubtful: for orderings only, unless it was corrected.
    Suspect,
    /// Read its note first.
    Check,
}

/// A published fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fact {
    /// Its name, as in `coproc.co.comp.f70`.
    pub id: String,
    /// The study, a key of [`Meta::citations`].
    pub paper: String,
    /// Where in it.
    #[serde(default)]
    pub section: String,
    /// What was measured.
    pub device: String,
    /// What it did.
    pub workload: String,
    /// Which figure.
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
    /// Its unit, as the source prints it.
    #[serde(default)]
    pub unit: String,
    /// Under which conditions.
    #[serde(default)]
    pub conditions: String,
    /// How it was obtained.
    pub kind: Kind,
    /// Text, table, artifact or derived.
    #[serde(default)]
    pub origin: String,
    /// What it may be used for.
    #[serde(rename = "use")]
    pub purpose: Use,
    /// What to beware of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flag: Option<Flag>,
    /// What a reader has to know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What stands instead of a number that is wrong in print: `value`, `range` or `values`, and
    /// perhaps `unit` and `conditions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corrected: Option<serde_yaml_ng::Value>,
    /// What it asks of a scenario; one of the collection that is built in has it in
    /// `facts/questions.yaml`.
    #[serde(default, skip_serializing)]
    pub ask: Option<Question>,
}

/// What is larger than what.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ordering {
    /// Its name, as in `ord.D1a`.
    pub id: String,
    /// The study.
    pub paper: String,
    /// Where in it.
    #[serde(default)]
    pub section: String,
    /// In words.
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
    /// Where it holds.
    #[serde(default)]
    pub conditions: String,
    /// How firmly.
    #[serde(default)]
    pub level: String,
    /// What it asks of scenarios, as [`Fact::ask`].
    #[serde(default, skip_serializing)]
    pub ask: Option<OrderingQuestion>,
}

impl Facts {
    /// Those that are built in, read once.
    ///
    /// # Panics
    /// Never: a test reads them.
    pub fn published() -> &'static Self {
        static FACTS: std::sync::LazyLock<Facts> = std::sync::LazyLock::new(|| {
            let mut facts = Facts::parse("published.yaml", PUBLISHED)
                .expect("the built-in facts are read by a test");
            for (id, why) in questions::suspects() {
                let found = facts.facts.iter_mut().find(|fact| fact.id == id);
                let fact = found.expect("a test reads the built-in doubts");
                fact.flag = Some(Flag::Suspect);
                fact.note = Some(why);
            }
            facts
        });
        &FACTS
    }

    /// Reads a collection; `file` is for messages.
    ///
    /// # Errors
    /// [`Error`], with the line: not YAML, a key that is missing or misspelt, a name twice or not of
    /// letters, digits, `.`, `_` and `-`, a figure that is not finite, a question that no scenario
    /// answers or that stands beside no number, or more than there may be.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let facts: Self = parse_yaml(file, text, BYTES_MAX)?;
        let place = |id: &str, error: Error| {
            questions::at_line(error.within(file), text, &format!("id: {id}"))
        };
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
            let Some(ask) = &fact.ask else { continue };
            let mut figures = fact.figures().into_iter();
            figures
                .try_for_each(|one| ask.check_figure(&one))
                .map_err(|error| place(&fact.id, error))?;
        }
        for ordering in &facts.orderings {
            let Some(ask) = &ordering.ask else { continue };
            ask.check().map_err(|error| place(&ordering.id, error))?;
        }
        Ok(facts)
    }

    /// Reads a collection's file.
    ///
    /// # Errors
    /// As [`Facts::parse`]; and where the file is not a regular one, or cannot be read.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = read_text(path, BYTES_MAX, Source::Regular)?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// The fact of that name.
    pub fn get(&self, id: &str) -> Option<&Fact> {
        self.facts.iter().find(|fact| fact.id == id)
    }
}

impl Fact {
    /// Whether its number is too doubtful for anything but orderings.
    pub fn is_doubtful(&self) -> bool {
        self.flag == Some(Flag::Suspect) && self.corrected.is_none()
    }
}
