//! Questions that facts and orderings ask of the scenarios, as a file has them.

use std::collections::BTreeMap;

use overside_config::{Error, parse_yaml};
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use super::BYTES_MAX;
use crate::Unit;

/// The questions of the collection that is built in.
pub(crate) const PUBLISHED: &str = include_str!("../../../../../facts/questions.yaml");
/// Maximum number of cases that one question may speak of.
const CASES_MAX: usize = 100;

/// Question about one fact, or about one of its figures.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Question {
    /// The scenario; that of the question around it if `None`.
    pub(crate) scenario: Option<String>,
    /// Name of the scenario's figure; likewise.
    pub(crate) figure: Option<String>,
    /// A constant in base units in place of an answer; for orderings.
    pub(crate) value: Option<f64>,
    /// Reason why nothing is asked; `None` if there is a question.
    pub(crate) not_modelled: Option<String>,
    /// The answer is divided by that to this question, which is the same but for its own settings.
    pub(crate) relative_to: Option<Box<Question>>,
    /// Form in which the fact states that ratio; `None` if it states the ratio itself.
    pub(crate) change: Option<Change>,
    /// The fact leaves open which of these it is of.
    pub(crate) one_of: Option<Cases>,
    /// The answer is the largest of these.
    pub(crate) max_over: Option<Cases>,
    /// The answer is the smallest of these.
    pub(crate) min_over: Option<Cases>,
    /// The answer is the geometric mean of these.
    pub(crate) mean_over: Option<Cases>,
    /// The unit of the figure, where the fact prints several at once.
    pub(crate) unit: Option<Unit>,
    /// Settings for the keys inside the fact's value, level by level. The question of a key may
    /// have its own settings for the levels below.
    #[serde(default)]
    by: Vec<Level>,
    /// The scenario's keys.
    #[serde(flatten)]
    pub(crate) settings: BTreeMap<String, Scalar>,
}

/// Form in which a fact states a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Change {
    /// Amount by which the ratio is above 1.
    More,
    /// Amount by which the ratio is below 1.
    Less,
}

/// Settings of each of several cases.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "not values by key, nor a list of what each case sets, nor `corpus` for a mean"
)]
pub(crate) enum Cases {
    /// A corpus of files, of which the scenario has the mean.
    Named(NamedCases),
    /// All combinations of these values.
    Product(BTreeMap<String, Vec<Scalar>>),
    /// Cases that are listed one by one.
    List(Vec<BTreeMap<String, Scalar>>),
}

/// Cases that a scenario knows by name.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NamedCases {
    /// The files of the Silesia corpus.
    Corpus,
}

impl Default for Cases {
    /// One case that sets nothing.
    fn default() -> Self {
        Self::Product(BTreeMap::new())
    }
}

/// Settings for the keys at one level inside a fact's value.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged, expecting = "the name of a scenario's key, or what each key of the fact sets")]
enum Level {
    /// The key of the scenario whose value they are.
    Key(String),
    /// Question for each key of the fact; a key that is not listed is not asked about.
    Each(BTreeMap<Scalar, Question>),
}

/// A word or a number, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scalar(pub(crate) String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl Visitor<'_> for Written {
            type Value = Scalar;
            fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.write_str("a word or a number")
            }
            fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar(text.to_owned()))
            }
            fn visit_bool<E>(self, truth: bool) -> Result<Scalar, E> {
                Ok(Scalar(truth.to_string()))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
                Ok(Scalar(number.to_string()))
            }
        }
        deserializer.deserialize_any(Written)
    }
}

impl Question {
    /// Returns the question about the figure at that path inside the fact; `None` if there is none.
    pub(crate) fn of_figure(&self, path: &[String]) -> Option<Self> {
        let mut question = Self { by: Vec::new(), ..self.clone() };
        let Some((key, deeper)) = path.split_first() else {
            return self.by.is_empty().then_some(question);
        };
        let (level, rest) = self.by.split_first()?;
        question.by = rest.to_vec();
        match level {
            Level::Key(name) => {
                question.settings.insert(name.clone(), Scalar(key.clone()));
            }
            Level::Each(each) => {
                let own = each.get(&Scalar(key.clone()))?;
                let by = if own.by.is_empty() { question.by } else { own.by.clone() };
                question = Self { by, ..own.over(&Self { by: Vec::new(), ..self.clone() }) };
            }
        }
        question.of_figure(deeper)
    }

    /// This question, with missing settings taken from `base`.
    pub(crate) fn over(&self, base: &Self) -> Self {
        let scenario = self.scenario.clone().or_else(|| base.scenario.clone());
        // The keys of another scenario are others.
        let mut settings =
            if scenario == base.scenario { base.settings.clone() } else { BTreeMap::new() };
        settings.extend(self.settings.clone());
        let relative_to = match (&self.relative_to, &base.relative_to) {
            (Some(own), Some(other)) => Some(Box::new(own.over(other))),
            (own, other) => own.clone().or_else(|| other.clone()),
        };
        Self {
            scenario,
            figure: self.figure.clone().or_else(|| base.figure.clone()),
            value: self.value,
            not_modelled: self.not_modelled.clone(),
            relative_to,
            change: self.change.or(base.change),
            one_of: self.one_of.clone().or_else(|| base.one_of.clone()),
            max_over: self.max_over.clone().or_else(|| base.max_over.clone()),
            min_over: self.min_over.clone().or_else(|| base.min_over.clone()),
            mean_over: self.mean_over.clone().or_else(|| base.mean_over.clone()),
            unit: self.unit.or(base.unit),
            by: Vec::new(),
            settings,
        }
    }

    /// The question of which it is a ratio, as it is asked.
    pub(crate) fn other(&self) -> Option<Self> {
        let base = Self {
            relative_to: None,
            change: None,
            one_of: None,
            max_over: None,
            min_over: None,
            mean_over: None,
            ..self.clone()
        };
        Some(self.relative_to.as_ref()?.over(&base))
    }

    /// The question in one of its cases.
    pub(crate) fn with(&self, case: &BTreeMap<String, Scalar>) -> Self {
        let mut one =
            Self { one_of: None, max_over: None, min_over: None, mean_over: None, ..self.clone() };
        one.settings.extend(case.clone());
        one
    }

    /// The name of its scenario.
    pub fn scenario(&self) -> &str {
        self.scenario.as_deref().unwrap_or_default()
    }

    /// Returns `true` if the question asks something about the figure at that path.
    pub(crate) fn speaks_of(&self, path: &[String]) -> bool {
        self.of_figure(path).is_some()
    }

    /// Returns the reason why the model has no answer; `None` if there is a question for the model.
    pub fn not_modelled(&self) -> Option<&str> {
        self.not_modelled.as_deref()
    }
}

impl Cases {
    /// Lists the settings of each case.
    pub(crate) fn each(&self) -> Result<Vec<BTreeMap<String, Scalar>>, Error> {
        let refused = |count: usize| {
            let problem = format!("{count} cases");
            Error::of_key("one_of", problem, format!("1 to {CASES_MAX}"))
        };
        let product = match self {
            Self::Product(product) => product,
            Self::Named(NamedCases::Corpus) => {
                let (key, value) = ("inputs".to_owned(), Scalar("corpus".into()));
                return Ok(vec![BTreeMap::from([(key, value)])]);
            }
            Self::List(list) if (1..=CASES_MAX).contains(&list.len()) => return Ok(list.clone()),
            Self::List(list) => return Err(refused(list.len())),
        };
        let mut all = vec![BTreeMap::new()];
        for (key, values) in product {
            let count = all.len().saturating_mul(values.len());
            if !(1..=CASES_MAX).contains(&count) {
                return Err(refused(count));
            }
            all = (all.iter())
                .flat_map(|one| {
                    values.iter().map(|value| {
                        let mut one = one.clone();
                        one.insert(key.clone(), value.clone());
                        one
                    })
                })
                .collect();
        }
        Ok(all)
    }
}

impl std::fmt::Display for Question {
    /// `figure (key=value, key=value)`.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(value) = self.value {
            return write!(out, "{value}");
        }
        let settings: Vec<String> =
            (self.settings.iter()).map(|(key, value)| format!("{key}={}", value.0)).collect();
        write!(out, "{} ({})", self.figure.as_deref().unwrap_or_default(), settings.join(", "))
    }
}

/// Question about one ordering.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Written")]
pub struct OrderingQuestion {
    /// Settings that all its questions share.
    pub(crate) ask: Question,
    /// Relations that must all hold.
    pub(crate) all: Vec<Relation>,
    /// Reason why nothing is asked; `None` if there is a question.
    pub(crate) not_modelled: Option<String>,
}

/// Relations as a file has them: one relation may stand without `all`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    ask: Question,
    #[serde(default)]
    all: Vec<Relation>,
    not_modelled: Option<String>,
    #[serde(default, rename = "for")]
    cases: Cases,
    #[serde(default)]
    rising: Vec<Question>,
    #[serde(default)]
    falling: Vec<Question>,
    #[serde(default)]
    alike: Vec<Question>,
    #[serde(default = "a_seventh")]
    within: f64,
}

impl From<Written> for OrderingQuestion {
    fn from(written: Written) -> Self {
        let own = Relation {
            cases: written.cases,
            rising: written.rising,
            falling: written.falling,
            alike: written.alike,
            within: written.within,
        };
        let mut all = written.all;
        if own.lists().iter().any(|list| !list.is_empty()) {
            all.push(own);
        }
        Self { ask: written.ask, all, not_modelled: written.not_modelled }
    }
}

/// Required relation between several answers: rising, falling or alike.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Relation {
    /// Once for each combination of these.
    #[serde(default, rename = "for")]
    pub(crate) cases: Cases,
    /// Each is less than the next.
    #[serde(default)]
    pub(crate) rising: Vec<Question>,
    /// Each is more than the next.
    #[serde(default)]
    pub(crate) falling: Vec<Question>,
    /// All are within a factor of each other.
    #[serde(default)]
    pub(crate) alike: Vec<Question>,
    /// Largest factor between answers that are alike.
    #[serde(default = "a_seventh")]
    pub(crate) within: f64,
}

/// Returns the factor within which studies call two values about the same.
const fn a_seventh() -> f64 {
    1.15
}

impl Relation {
    /// Returns the relation's three lists of questions. At least one is not empty.
    pub(crate) fn lists(&self) -> [&Vec<Question>; 3] {
        [&self.rising, &self.falling, &self.alike]
    }
}

/// Facts that their study's own code invalidates, and why.
pub(super) fn suspects() -> BTreeMap<String, String> {
    #[derive(Deserialize)]
    struct Suspects {
        suspect: BTreeMap<String, String>,
    }
    let read: Suspects =
        parse_yaml("questions.yaml", PUBLISHED, BYTES_MAX).expect("a test reads the questions");
    read.suspect
}
