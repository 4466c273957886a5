//! Questions that published facts ask of the scenarios: `facts/questions.yaml`.
//!
//! A question names a scenario, its keys and one of its figures. A fact that compares two things is
//! the ratio of two answers, and one that speaks of several cases has one answer for all of them.
//! Nothing of a fact's prose is read: the output of `overside simulate` is scored.

mod answer;
mod orderings;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use overside_config::{Error, Source, parse_yaml, quoted, read_text};
use serde::{Deserialize, Serialize};

use crate::Unit;
use crate::facts::question::{Cases, PUBLISHED, Scalar};
use crate::facts::{BYTES_MAX, Facts, Figure, Ordering, at_line, place};
use crate::scenario::{self, Scenario, ScenarioArgs};

pub use crate::facts::question::{OrderingQuestion, Question};
pub use answer::Command;
pub use orderings::OrderingFinding;

/// Maximum depth of ratios inside each other.
const DEPTH_MAX: usize = 3;

/// Questions about facts and orderings, by their identifiers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Questions {
    /// Questions about facts, by the fact's identifier.
    #[serde(default)]
    questions: BTreeMap<String, Question>,
    /// Questions about orderings, by the ordering's identifier.
    #[serde(default)]
    orderings: BTreeMap<String, OrderingQuestion>,
    /// Facts of the built-in collection that are in doubt, and why.
    #[serde(default, rename = "suspect")]
    _suspect: BTreeMap<String, String>,
}

/// Question about one figure as plain data, for callers that compare the figure with something
/// else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AskedFigure {
    /// The scenario.
    pub scenario: String,
    /// Name of its figure.
    pub figure: String,
    /// The keys that are set, as they are written.
    pub keys: BTreeMap<String, String>,
    /// Keys that the fact leaves open or takes several values of.
    pub open: Vec<String>,
    /// Keys whose values differ on the other side of a ratio.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub relative_to: BTreeMap<String, String>,
}

impl Facts {
    /// Reads a collection; `file` is for messages.
    ///
    /// # Errors
    /// [`Error`], with the line: not YAML, a key that is missing or misspelt, a name twice or not
    /// of letters, digits, `.`, `_` and `-`, a figure that is not finite, a question that no
    /// scenario answers or that has no number, or more than there may be.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let facts = Self::parse_with(file, text, |fact| {
            let Some(ask) = &fact.ask else { return Ok(()) };
            (fact.figures().iter()).try_for_each(|one| ask.check_figure(one))
        })?;
        for ordering in &facts.orderings {
            let Some(ask) = &ordering.ask else { continue };
            (ask.check()).map_err(|error| place(file, text, &ordering.id, error))?;
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
}

impl Questions {
    /// Returns the questions about the built-in facts, which are read once.
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
    /// [`Error`], with the line: not YAML, a name that no fact has, or an unknown scenario, key, value or
    /// figure.
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

    /// Returns the question about a figure: the one that its fact has itself, otherwise the one for
    /// a fact of its name. `None` if there is neither.
    pub fn of(&self, figure: &Figure<'_>) -> Option<Question> {
        let own = figure.fact.ask.as_ref();
        let question = own.or_else(|| self.questions.get(&figure.fact.id))?;
        question.of_figure(&figure.path)
    }

    /// Returns the question about an ordering: its own, otherwise the one for an ordering of its
    /// name. `None` if there is neither.
    pub fn ordering<'a>(&'a self, ordering: &'a Ordering) -> Option<&'a OrderingQuestion> {
        ordering.ask.as_ref().or_else(|| self.orderings.get(&ordering.id))
    }
}

/// Names to list for an unknown one: those of the same study.
fn near<'a>(id: &str, all: &[&'a str]) -> Vec<&'a str> {
    let study = |id: &str| id.split('.').next().unwrap_or_default().to_owned();
    let same: Vec<&str> = (all.iter().copied())
        .filter(|one| study(one) == study(id) && one.len().abs_diff(id.len()) <= 3)
        .take(20)
        .collect();
    if same.is_empty() { all.iter().copied().take(5).collect() } else { same }
}

impl Question {
    /// Returns the question as plain data.
    pub fn asked(&self) -> AskedFigure {
        let plain = |settings: &BTreeMap<String, Scalar>| -> BTreeMap<String, String> {
            (settings.iter()).map(|(key, value)| (key.clone(), value.0.clone())).collect()
        };
        let cases = self.cases().map(|(_, cases)| cases).unwrap_or_default();
        let open: BTreeSet<&String> = cases.iter().flat_map(BTreeMap::keys).collect();
        let keys = plain(&self.settings);
        let mut other = self.other().map(|other| plain(&other.settings)).unwrap_or_default();
        other.retain(|key, value| keys.get(key) != Some(value));
        AskedFigure {
            scenario: self.scenario().to_owned(),
            figure: self.figure.clone().unwrap_or_default(),
            open: open.into_iter().cloned().collect(),
            relative_to: other,
            keys,
        }
    }

    /// Checks the question about a figure, if there is one.
    fn check_figure(&self, figure: &Figure<'_>) -> Result<(), Error> {
        match self.of_figure(&figure.path) {
            Some(question) if question.not_modelled.is_some() => Ok(()),
            Some(question) => question.check(0).and(question.unit_in_base(figure).map(|_| ())),
            None => Ok(()),
        }
    }

    /// Checks that the question's scenario, keys, values and figures are known.
    fn check(&self, depth: usize) -> Result<(), Error> {
        if self.value.is_some() {
            return Ok(());
        }
        if depth > DEPTH_MAX {
            let problem = "ratios stand inside each other too deeply";
            return Err(Error::of_key("relative_to", problem, format!("up to {DEPTH_MAX}")));
        }
        let aggregates = [&self.one_of, &self.max_over, &self.min_over, &self.mean_over];
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
            return Err(Error::of_key("mean_over", problem, "write mean_over: corpus"));
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
        scenario::scenarios().iter().find(|one| one.name == name).ok_or_else(|| {
            let names: Vec<_> = scenario::scenarios().iter().map(|one| &one.name).collect();
            let problem = format!("no scenario is called {}", quoted(name));
            Error::of_key("scenario", problem, "").meant(name, &names)
        })
    }

    fn metric(&self, scenario: &'static Scenario) -> Result<&'static scenario::MetricKind, Error> {
        let name = self.figure.as_deref().unwrap_or_default();
        scenario.metrics.iter().find(|one| one.name == name).ok_or_else(|| {
            let names: Vec<_> = scenario.metrics.iter().map(|one| &one.name).collect();
            let problem = format!("the scenario {} has no figure {}", scenario.name, quoted(name));
            Error::of_key("figure", problem, "").meant(name, &names)
        })
    }

    /// All combinations of the cases that it speaks of; one that sets nothing if there are none.
    fn cases(&self) -> Result<(answer::Over, Vec<BTreeMap<String, Scalar>>), Error> {
        let (over, cases) = match (&self.one_of, &self.max_over, &self.min_over, &self.mean_over) {
            (Some(cases), ..) => (answer::Over::OneOf, cases),
            (_, Some(cases), ..) => (answer::Over::Largest, cases),
            (_, _, Some(cases), _) => (answer::Over::Smallest, cases),
            (.., Some(cases)) => (answer::Over::Mean, cases),
            _ => return Ok((answer::Over::OneOf, vec![BTreeMap::new()])),
        };
        Ok((over, cases.each()?))
    }

    /// Returns the arguments with which `simulate` answers the question.
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
        Err(Error::of_key(&key.name, problem, "set one, or list them under one_of"))
    }

    /// A figure's unit in base units; negative where the fact prints a reduction as a negative
    /// number.
    ///
    /// # Errors
    /// [`Error`]: its dimension is not the answer's.
    pub(crate) fn unit_in_base(&self, figure: &Figure<'_>) -> Result<f64, Error> {
        if self.not_modelled.is_some() {
            return Ok(1.0);
        }
        let metric = self.metric(self.named_scenario()?)?;
        let is_ratio = self.relative_to.is_some();
        let dimension = if is_ratio { crate::Dimension::Count } else { metric.unit.dimension() };
        // Things are counted in words that are no units: `cores`, `packets`.
        let own = self.unit.map(|unit| (unit, 1.0));
        let (unit, times) = own.or_else(|| figure.spelled_unit()).unwrap_or((Unit::Count, 1.0));
        if unit.dimension() != dimension {
            let problem =
                format!("the fact counts in {}, and the answer does not", quoted(figure.unit));
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
