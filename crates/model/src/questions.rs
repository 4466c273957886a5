//! What published facts ask of the scenarios: `facts/questions.yaml`.
//!
//! A question names a scenario, its keys and one of its figures. A fact that sets one thing beside
//! another is the ratio of two answers, and one that speaks of several cases has one answer for
//! all of them. Nothing of a fact's prose is read: what is scored is what `overside simulate`
//! prints.

mod answer;
mod orderings;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use overside_config::{Error, parse_yaml, quoted};
use serde::de::{Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use crate::Unit;
use crate::facts::{Facts, Figure, Ordering};
use crate::scenario::{self, Scenario, ScenarioArgs};

pub use answer::Command;
pub use orderings::{OrderingFinding, OrderingQuestion};

/// The questions of the collection that is built in.
const PUBLISHED: &str = include_str!("../../../facts/questions.yaml");
const BYTES_MAX: u64 = 4 << 20;
/// The most cases that one question may speak of.
const CASES_MAX: usize = 100;
/// Ratios inside each other.
const DEPTH_MAX: usize = 3;

/// What is asked about facts and orderings, by their names.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Questions {
    /// Of facts.
    #[serde(default)]
    questions: BTreeMap<String, Question>,
    /// Of orderings.
    #[serde(default)]
    orderings: BTreeMap<String, OrderingQuestion>,
    /// Facts of the built-in collection that are in doubt, and why.
    #[serde(default, rename = "suspect")]
    _suspect: BTreeMap<String, String>,
}

/// Facts that their study's own code invalidates, and why.
pub(crate) fn suspects() -> BTreeMap<String, String> {
    #[derive(Deserialize)]
    struct Suspects {
        suspect: BTreeMap<String, String>,
    }
    let read: Suspects =
        parse_yaml("questions.yaml", PUBLISHED, BYTES_MAX).expect("a test reads the questions");
    read.suspect
}

/// What is asked about one fact, or one of its figures.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Question {
    /// The scenario; that of the question around it if `None`.
    #[serde(default)]
    scenario: Option<String>,
    /// Which of the scenario's figures; likewise.
    #[serde(default)]
    figure: Option<String>,
    /// A constant in base units in place of an answer; for orderings.
    #[serde(default)]
    value: Option<f64>,
    /// Why nothing is asked.
    #[serde(default)]
    not_modelled: Option<String>,
    /// The answer is divided by that to this, which is the same question but for what it sets.
    #[serde(default)]
    relative_to: Option<Box<Question>>,
    /// What the fact says of that ratio.
    #[serde(default)]
    change: Option<Change>,
    /// The fact leaves open which of these it is of.
    #[serde(default)]
    one_of: Option<Cases>,
    /// It is of the largest of these.
    #[serde(default)]
    max_over: Option<Cases>,
    /// It is of the smallest of these.
    #[serde(default)]
    min_over: Option<Cases>,
    /// It is of the geometric mean of these.
    #[serde(default)]
    mean_over: Option<Cases>,
    /// The unit of the figure, where the fact prints several at once.
    #[serde(default)]
    unit: Option<Unit>,
    /// What the keys inside the fact's value set, level by level; what a key sets may have its own
    /// for the levels below.
    #[serde(default)]
    by: Vec<Level>,
    /// The scenario's keys.
    #[serde(flatten)]
    settings: BTreeMap<String, Scalar>,
}

/// What is asked about one figure, for those that compare it with something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AskedFigure {
    /// The scenario.
    pub scenario: String,
    /// Which of its figures.
    pub figure: String,
    /// The keys that are set, as they are written.
    pub keys: BTreeMap<String, String>,
    /// Keys that the fact leaves open or takes several values of.
    pub open: Vec<String>,
    /// What is otherwise on the other side of a ratio.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub relative_to: BTreeMap<String, String>,
}

/// What a fact says of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Change {
    /// By how much it is above 1.
    More,
    /// By how much it is below 1.
    Less,
}

/// What each of several cases sets.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "not values by key, nor a list of what each case sets, nor `corpus` for a mean"
)]
enum Cases {
    /// A corpus of files, of which the scenario has the mean.
    Named(NamedCases),
    /// All combinations of these values.
    Product(BTreeMap<String, Vec<Scalar>>),
    /// One after the other.
    List(Vec<BTreeMap<String, Scalar>>),
}

/// Cases that a scenario knows by name.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NamedCases {
    /// The files of the Silesia corpus.
    Corpus,
}

impl Default for Cases {
    /// One case that sets nothing.
    fn default() -> Self {
        Self::Product(BTreeMap::new())
    }
}

/// What the keys at one level inside a fact's value set.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "the name of a scenario's key, or what each key of the fact sets"
)]
enum Level {
    /// The key of the scenario whose value they are.
    Key(String),
    /// What each sets; one that is not there is not asked.
    Each(BTreeMap<Scalar, Question>),
}

/// A word or a number, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Scalar(String);

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

impl Questions {
    /// Those about the facts that are built in, read once.
    ///
    /// # Panics
    /// Never: a test reads them.
    pub fn published() -> &'static Self {
        static QUESTIONS: LazyLock<Questions> = LazyLock::new(|| {
            Questions::parse("questions.yaml", PUBLISHED, Facts::published())
                .expect("the built-in questions are read by a test")
        });
        &QUESTIONS
    }

    /// Reads questions about `facts`; `file` is for messages.
    ///
    /// # Errors
    /// [`Error`], with the line: not YAML, a name that no fact has, a scenario, key, value or figure
    /// that there is not.
    pub fn parse(file: &str, text: &str, facts: &Facts) -> Result<Self, Error> {
        let read: Self = parse_yaml(file, text, BYTES_MAX)?;
        let place =
            |name: &str, error: Error| at_line(error.within(file), text, &format!("{name}:"));
        let ids: Vec<&str> = facts.facts.iter().map(|fact| fact.id.as_str()).collect();
        for (id, question) in &read.questions {
            let Some(fact) = facts.get(id) else {
                let error = Error::of_key(id, "there is no such fact", "");
                return Err(place(id, error.meant(id, &near(id, &ids))));
            };
            let checked = (fact.figures().iter()).try_for_each(|one| question.check_figure(one));
            checked.map_err(|error| place(id, error))?;
        }
        let ids: Vec<&str> = facts.orderings.iter().map(|one| one.id.as_str()).collect();
        for (id, question) in &read.orderings {
            if !ids.contains(&id.as_str()) {
                let error = Error::of_key(id, "there is no such ordering", "");
                return Err(place(id, error.meant(id, &ids)));
            }
            question.check().map_err(|error| place(id, error))?;
        }
        Ok(read)
    }

    /// What is asked about a figure: what its fact carries itself, or else what is asked about a
    /// fact of its name; `None` if nothing is.
    pub fn of(&self, figure: &Figure<'_>) -> Option<Question> {
        let own = figure.fact.ask.as_ref();
        let question = own.or_else(|| self.questions.get(&figure.fact.id))?;
        question.of_figure(&figure.path)
    }

    /// What is asked about an ordering, likewise.
    pub fn ordering<'a>(&'a self, ordering: &'a Ordering) -> Option<&'a OrderingQuestion> {
        ordering
            .ask
            .as_ref()
            .or_else(|| self.orderings.get(&ordering.id))
    }
}

/// Names that are worth listing beside one that nobody has: those of the same study.
fn near<'a>(id: &str, all: &[&'a str]) -> Vec<&'a str> {
    let study = |id: &str| id.split('.').next().unwrap_or_default().to_owned();
    let same: Vec<&str> = (all.iter().copied())
        .filter(|one| study(one) == study(id) && one.len().abs_diff(id.len()) <= 3)
        .take(20)
        .collect();
    if same.is_empty() {
        all.iter().copied().take(5).collect()
    } else {
        same
    }
}

/// The error at the line of its key, which is looked for from the line on that begins with `name`.
pub(crate) fn at_line(error: Error, text: &str, name: &str) -> Error {
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
        if found.is_some() && !own.is_empty() && line.contains(&format!("{own}:")) {
            found = Some((number, line));
            break;
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

impl Question {
    /// What it asks about the figure at that path inside the fact; `None` if nothing.
    fn of_figure(&self, path: &[String]) -> Option<Self> {
        let mut question = Self {
            by: Vec::new(),
            ..self.clone()
        };
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
                let by = if own.by.is_empty() {
                    question.by
                } else {
                    own.by.clone()
                };
                question = Self {
                    by,
                    ..own.over(&Self {
                        by: Vec::new(),
                        ..self.clone()
                    })
                };
            }
        }
        question.of_figure(deeper)
    }

    /// This question, with what it does not say from `base`.
    fn over(&self, base: &Self) -> Self {
        let scenario = self.scenario.clone().or_else(|| base.scenario.clone());
        // The keys of another scenario are others.
        let mut settings = if scenario == base.scenario {
            base.settings.clone()
        } else {
            BTreeMap::new()
        };
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
    fn other(&self) -> Option<Self> {
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

    /// What is asked, as data.
    pub fn asked(&self) -> AskedFigure {
        let plain = |settings: &BTreeMap<String, Scalar>| -> BTreeMap<String, String> {
            (settings.iter())
                .map(|(key, value)| (key.clone(), value.0.clone()))
                .collect()
        };
        let cases = self.cases().map(|(_, cases)| cases).unwrap_or_default();
        let open: BTreeSet<&String> = cases.iter().flat_map(BTreeMap::keys).collect();
        let keys = plain(&self.settings);
        let mut other = self
            .other()
            .map(|other| plain(&other.settings))
            .unwrap_or_default();
        other.retain(|key, value| keys.get(key) != Some(value));
        AskedFigure {
            scenario: self.scenario().to_owned(),
            figure: self.figure.clone().unwrap_or_default(),
            open: open.into_iter().cloned().collect(),
            relative_to: other,
            keys,
        }
    }

    /// The name of its scenario.
    pub fn scenario(&self) -> &str {
        self.scenario.as_deref().unwrap_or_default()
    }

    /// Whether it asks something about the figure at that path.
    pub(crate) fn speaks_of(&self, path: &[String]) -> bool {
        self.of_figure(path).is_some()
    }

    pub(crate) fn check_figure(&self, figure: &Figure<'_>) -> Result<(), Error> {
        match self.of_figure(&figure.path) {
            Some(question) if question.not_modelled.is_some() => Ok(()),
            Some(question) => question
                .check(0)
                .and(question.unit_in_base(figure).map(|_| ())),
            None => Ok(()),
        }
    }

    /// That its scenario, keys, values and figures are known.
    fn check(&self, depth: usize) -> Result<(), Error> {
        if self.value.is_some() {
            return Ok(());
        }
        if depth > DEPTH_MAX {
            let problem = "ratios stand inside each other too deeply";
            return Err(Error::of_key(
                "relative_to",
                problem,
                format!("up to {DEPTH_MAX}"),
            ));
        }
        let aggregates = [
            &self.one_of,
            &self.max_over,
            &self.min_over,
            &self.mean_over,
        ];
        if aggregates.into_iter().flatten().count() > 1 {
            let problem = "two of one_of, max_over, min_over and mean_over";
            return Err(Error::of_key("one_of", problem, "write one of them"));
        }
        let named = self.named_scenario()?;
        self.metric(named)?;
        if [&self.one_of, &self.max_over, &self.min_over]
            .into_iter()
            .any(|cases| matches!(cases, Some(Cases::Named(_))))
        {
            let problem = "of the corpus only the mean is known";
            return Err(Error::of_key(
                "mean_over",
                problem,
                "write mean_over: corpus",
            ));
        }
        let (_, cases) = self.cases()?;
        for case in &cases {
            let case = self.with(case);
            case.args(named)?;
            if let Some(other) = case.other() {
                other.check(depth + 1)?;
            }
        }
        Ok(())
    }

    fn named_scenario(&self) -> Result<&'static Scenario, Error> {
        let name = self.scenario();
        scenario::scenarios()
            .iter()
            .find(|one| one.name == name)
            .ok_or_else(|| {
                let names: Vec<_> = scenario::scenarios().iter().map(|one| &one.name).collect();
                let problem = format!("no scenario is called {}", quoted(name));
                Error::of_key("scenario", problem, "").meant(name, &names)
            })
    }

    fn metric(&self, scenario: &'static Scenario) -> Result<&'static scenario::MetricKind, Error> {
        let name = self.figure.as_deref().unwrap_or_default();
        scenario
            .metrics
            .iter()
            .find(|one| one.name == name)
            .ok_or_else(|| {
                let names: Vec<_> = scenario.metrics.iter().map(|one| &one.name).collect();
                let problem = format!(
                    "the scenario {} has no figure {}",
                    scenario.name,
                    quoted(name)
                );
                Error::of_key("figure", problem, "").meant(name, &names)
            })
    }

    /// All combinations of the cases that it speaks of; one that sets nothing if there are none.
    fn cases(&self) -> Result<(answer::Over, Vec<BTreeMap<String, Scalar>>), Error> {
        let (over, cases) = match (
            &self.one_of,
            &self.max_over,
            &self.min_over,
            &self.mean_over,
        ) {
            (Some(cases), ..) => (answer::Over::OneOf, cases),
            (_, Some(cases), ..) => (answer::Over::Largest, cases),
            (_, _, Some(cases), _) => (answer::Over::Smallest, cases),
            (.., Some(cases)) => (answer::Over::Mean, cases),
            _ => return Ok((answer::Over::OneOf, vec![BTreeMap::new()])),
        };
        Ok((over, cases.each()?))
    }

    /// One of its cases.
    fn with(&self, case: &BTreeMap<String, Scalar>) -> Self {
        let mut one = Self {
            one_of: None,
            max_over: None,
            min_over: None,
            mean_over: None,
            ..self.clone()
        };
        one.settings.extend(case.clone());
        one
    }

    /// What `simulate` is asked.
    fn args(&self, scenario: &'static Scenario) -> Result<ScenarioArgs, Error> {
        // Messages name the file in which the question stands.
        let mut args = ScenarioArgs::of(&scenario.name);
        args.from.clear();
        for (key, value) in &self.settings {
            args.set(key, &value.0);
        }
        let points = args.points(scenario, crate::Library::published())?;
        if let [point] = &points[..]
            && scenario.events(point) == 0
        {
            return Ok(args);
        }
        let several = scenario
            .keys
            .iter()
            .find(|key| key.default.contains(',') && !self.settings.contains_key(&key.name));
        let Some(key) = several else {
            let problem = "a question is answered by a formula, once";
            let remedy = "give each key one value, and ask for no simulation";
            return Err(Error::of_key("figure", problem, remedy));
        };
        let problem = format!("it is not said which of {}", key.default);
        Err(Error::of_key(
            &key.name,
            problem,
            "set one, or list them under one_of",
        ))
    }

    /// One of a figure's units in base units; negative where the fact prints a reduction as a
    /// negative number.
    ///
    /// # Errors
    /// [`Error`]: it is counted in something else than the answer.
    pub(crate) fn unit_in_base(&self, figure: &Figure<'_>) -> Result<f64, Error> {
        if self.not_modelled.is_some() {
            return Ok(1.0);
        }
        let metric = self.metric(self.named_scenario()?)?;
        let is_ratio = self.relative_to.is_some();
        let dimension = if is_ratio {
            crate::Dimension::Count
        } else {
            metric.unit.dimension()
        };
        // Things are counted in words that are no units: `cores`, `packets`.
        let own = self.unit.map(|unit| (unit, 1.0));
        let (unit, times) = own
            .or_else(|| figure.spelled_unit())
            .unwrap_or((Unit::Count, 1.0));
        if unit.dimension() != dimension {
            let problem = format!(
                "the fact counts in {}, and the answer does not",
                quoted(figure.unit)
            );
            return Err(Error::of_key(
                "unit",
                problem,
                format!("a number{}", Unit::listed(dimension)),
            ));
        }
        let sum: f64 = figure.value.numbers().iter().sum();
        let scale = unit.in_base() * times;
        Ok(if sum < 0.0 { -scale } else { scale })
    }
}

impl Cases {
    /// What each sets.
    fn each(&self) -> Result<Vec<BTreeMap<String, Scalar>>, Error> {
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
