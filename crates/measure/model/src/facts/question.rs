//! Questions that facts and orderings ask of the scenarios, as a file has them.

use std::collections::BTreeMap;

use overside_config::{Error, parse_yaml};
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use super::BYTES_MAX;
use crate::{Answer, Prediction, Unit};

/// The questions of the collection that is built in.
pub(crate) const PUBLISHED: &str = include_str!("../../../../../facts/questions.yaml");
/// Maximum number of cases that one question may speak of.
const CASES_MAX: usize = 100;

/// Question about one fact, or about one of its figures.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "WrittenQuestion")]
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
    /// Ways in which the answer is made of those to several cases; more than one is refused.
    pub(crate) aggregates: Vec<Aggregate>,
    /// Factor within which an answer counts as the largest one; for the position of a peak or fall.
    pub(crate) within: Option<f64>,
    /// The unit of the figure, where the fact prints several at once.
    pub(crate) unit: Option<Unit>,
    /// Settings for the keys inside the fact's value, level by level. The question of a key may
    /// have its own settings for the levels below.
    by: Vec<Level>,
    /// The scenario's keys.
    pub(crate) settings: BTreeMap<String, Scalar>,
}

/// A question as a file has it.
#[derive(Deserialize)]
struct WrittenQuestion {
    scenario: Option<String>,
    figure: Option<String>,
    value: Option<f64>,
    not_modelled: Option<String>,
    relative_to: Option<Box<Question>>,
    change: Option<Change>,
    one_of: Option<Cases>,
    max_over: Option<Cases>,
    min_over: Option<Cases>,
    mean_over: Option<Cases>,
    arithmetic_mean_over: Option<Cases>,
    peaks_at: Option<Cases>,
    falls_off_at: Option<Cases>,
    within: Option<f64>,
    unit: Option<Unit>,
    #[serde(default)]
    by: Vec<Level>,
    #[serde(flatten)]
    settings: BTreeMap<String, Scalar>,
}

impl From<WrittenQuestion> for Question {
    fn from(written: WrittenQuestion) -> Self {
        let aggregates = [
            (Over::OneOf, written.one_of),
            (Over::Largest, written.max_over),
            (Over::Smallest, written.min_over),
            (Over::Mean, written.mean_over),
            (Over::ArithmeticMean, written.arithmetic_mean_over),
            (Over::Peak, written.peaks_at),
            (Over::Fall, written.falls_off_at),
        ];
        let aggregates = (aggregates.into_iter())
            .filter_map(|(over, cases)| Some(Aggregate { over, cases: cases? }));
        Self {
            scenario: written.scenario,
            figure: written.figure,
            value: written.value,
            not_modelled: written.not_modelled,
            relative_to: written.relative_to,
            change: written.change,
            aggregates: aggregates.collect(),
            within: written.within,
            unit: written.unit,
            by: written.by,
            settings: written.settings,
        }
    }
}

/// Way in which one answer is made of those to several cases.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aggregate {
    /// Function of the answers.
    pub(crate) over: Over,
    /// The cases.
    pub(crate) cases: Cases,
}

/// Function of the answers to several cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The fact leaves open which of these it is of.
    OneOf,
    /// The largest.
    Largest,
    /// The smallest.
    Smallest,
    /// The geometric mean.
    Mean,
    /// The arithmetic mean.
    ArithmeticMean,
    /// Value of the key at which the answer is largest.
    Peak,
    /// First value of the key beyond the peak at which the answer has fallen.
    Fall,
}

impl Over {
    /// Returns the key of a question that asks for it.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::OneOf => "one_of",
            Self::Largest => "max_over",
            Self::Smallest => "min_over",
            Self::Mean => "mean_over",
            Self::ArithmeticMean => "arithmetic_mean_over",
            Self::Peak => "peaks_at",
            Self::Fall => "falls_off_at",
        }
    }

    /// Returns the role of one of the answers, in words.
    pub(crate) fn role(self) -> &'static str {
        match self {
            Self::OneOf => "one of these",
            Self::Largest => "the largest of these",
            Self::Smallest => "the smallest of these",
            Self::Mean => "the geometric mean of these",
            Self::ArithmeticMean => "the arithmetic mean of these",
            Self::Peak => "where it is largest",
            Self::Fall => "where it falls off",
        }
    }

    /// Returns `true` if the answer is a value of a key.
    pub(crate) fn is_position(self) -> bool {
        matches!(self, Self::Peak | Self::Fall)
    }
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

impl Change {
    /// Returns a ratio in this form.
    ///
    /// # Errors
    /// As [`Prediction::shifted`].
    pub(crate) fn of(self, ratio: Prediction) -> Answer {
        match self {
            Self::More => ratio.shifted(|ratio| ratio - 1.0),
            Self::Less => ratio.shifted(|ratio| 1.0 - ratio),
        }
    }
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
    /// All combinations of these values. The key `figure` is the name of the figure.
    Product(BTreeMap<String, Vec<Scalar>>),
    /// Questions that are listed one by one, each with what it sets.
    List(Vec<Question>),
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
        // An aggregate of its own stands in the place of the other.
        let from = if self.aggregates.is_empty() { base } else { self };
        Self {
            scenario,
            figure: self.figure.clone().or_else(|| base.figure.clone()),
            value: self.value,
            not_modelled: self.not_modelled.clone(),
            relative_to,
            change: self.change.or(base.change),
            aggregates: from.aggregates.clone(),
            within: self.within.or(from.within),
            unit: self.unit.or(base.unit),
            by: self.by.clone(),
            settings,
        }
    }

    /// The question of which it is a ratio, as it is asked.
    pub(crate) fn other(&self) -> Option<Self> {
        let base = Self {
            relative_to: None,
            change: None,
            aggregates: Vec::new(),
            within: None,
            ..self.clone()
        };
        Some(self.relative_to.as_ref()?.over(&base))
    }

    /// The question in one of its cases. The change is that of the whole.
    pub(crate) fn with(&self, case: &Self) -> Self {
        case.over(&Self { aggregates: Vec::new(), within: None, change: None, ..self.clone() })
    }

    /// Returns `true` if it sets nothing but a constant.
    pub(crate) fn is_constant(&self) -> bool {
        self.value.is_some() && Self { value: None, ..self.clone() } == Self::default()
    }

    /// Returns a key that means nothing inside another question; `None` if there is none.
    pub(crate) fn key_without_meaning(&self) -> Option<&'static str> {
        [
            ("by", !self.by.is_empty()),
            ("unit", self.unit.is_some()),
            ("not_modelled", self.not_modelled.is_some()),
            ("value", self.value.is_some() && !self.is_constant()),
        ]
        .into_iter()
        .find_map(|(key, is_set)| is_set.then_some(key))
    }

    /// Returns a key of `by` that no figure at these paths has; `None` if each has one.
    pub(crate) fn key_without_figure(&self, paths: &[&[String]]) -> Option<String> {
        let (level, rest) = self.by.split_first()?;
        let below = |question: &Self, key: &dyn Fn(&String) -> bool| {
            let paths = paths.iter().filter_map(|path| path.split_first());
            let paths = paths.filter(|(first, _)| key(first)).map(|(_, deeper)| deeper);
            let paths: Vec<&[String]> = paths.collect();
            if paths.is_empty() { None } else { Some(question.key_without_figure(&paths)) }
        };
        let deeper = |by: &[Level]| Self { by: by.to_vec(), ..Self::default() };
        match level {
            Level::Key(name) => below(&deeper(rest), &|_| true).unwrap_or(Some(name.clone())),
            Level::Each(each) => each.iter().find_map(|(key, own)| {
                let by = if own.by.is_empty() { rest } else { &own.by };
                below(&deeper(by), &|first| *first == key.0).unwrap_or(Some(key.0.clone()))
            }),
        }
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
    /// Lists what each case sets. `over` is the key that they stand under, for messages.
    pub(crate) fn each(&self, over: &str) -> Result<Vec<Question>, Error> {
        let refused = |count: usize| {
            let problem = format!("{count} cases");
            Error::of_key(over, problem, format!("1 to {CASES_MAX}"))
        };
        let product = match self {
            Self::Product(product) => product,
            Self::Named(NamedCases::Corpus) => {
                let settings = [("inputs".to_owned(), Scalar("corpus".into()))].into();
                return Ok(vec![Question { settings, ..Question::default() }]);
            }
            Self::List(list) if (1..=CASES_MAX).contains(&list.len()) => return Ok(list.clone()),
            Self::List(list) => return Err(refused(list.len())),
        };
        let mut all = vec![Question::default()];
        for (key, values) in product {
            let count = all.len().saturating_mul(values.len());
            if !(1..=CASES_MAX).contains(&count) {
                return Err(refused(count));
            }
            let with = |one: &Question, value: &Scalar| {
                let mut one = one.clone();
                match key.as_str() {
                    "figure" => one.figure = Some(value.0.clone()),
                    _ => drop(one.settings.insert(key.clone(), value.clone())),
                }
                one
            };
            all = all.iter().flat_map(|one| values.iter().map(|value| with(one, value))).collect();
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
    within: Option<f64>,
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
        // A relation without questions is refused later, and not dropped.
        if own != Relation::default() {
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
    /// Largest factor between answers that are alike; [`ALIKE`] if `None`.
    pub(crate) within: Option<f64>,
}

/// Factor within which studies call two values about the same.
pub(crate) const ALIKE: f64 = 1.15;

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
