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

use crate::facts::question::{Aggregate, Cases, Over, PUBLISHED, Scalar};
use crate::facts::{BYTES_MAX, Fact, Facts, Figure, Ordering, at_line, place};
use crate::scenario::{self, Scenario, ScenarioArgs};

use crate::{Dimension, Library, Unit};

pub use crate::facts::question::{OrderingQuestion, Question};
pub use answer::Command;
pub use orderings::{OrderingFinding, OrderingVerdict};

/// Maximum depth of questions inside each other.
const DEPTH_MAX: usize = 6;
/// Maximum number of answers of which one is made.
const ANSWERS_MAX: usize = 1000;
/// Largest factor within which an answer counts as the largest.
const WITHIN_MAX: f64 = 1000.0;

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
            // The fact has keys of its own beside the question.
            let inside = |error: Error| Error { key: format!("ask.{}", error.key), ..error };
            ask.check_asked(fact).map_err(inside)?;
            ask.check_units(fact)
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
            let checked = question.check_asked(fact).and_then(|()| question.check_units(fact));
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
        let cases = self.aggregates.first().and_then(|one| one.each().ok()).unwrap_or_default();
        let open: BTreeSet<&String> = cases.iter().flat_map(|case| case.settings.keys()).collect();
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

    /// Checks the questions about the figures of a fact.
    fn check_asked(&self, fact: &Fact) -> Result<(), Error> {
        let figures = fact.figures();
        let paths: Vec<&[String]> = figures.iter().map(|one| one.path.as_slice()).collect();
        if let Some(key) = self.key_without_figure(&paths) {
            let problem = "no figure of the fact has this key";
            let remedy = "name keys inside the fact's value, level by level";
            return Err(Error::of_key(&key, problem, remedy));
        }
        if !figures.is_empty() && !paths.iter().any(|path| self.speaks_of(path)) {
            let problem = "nothing is asked about any figure of the fact";
            let remedy = "write under `by` what the keys inside its value set, level by level";
            return Err(Error::of_key("by", problem, remedy));
        }
        let asked = paths.iter().filter_map(|path| self.of_figure(path));
        asked.filter(|one| one.not_modelled.is_none()).try_for_each(|one| one.check())
    }

    /// Checks that the answers are in units of the fact's kind.
    fn check_units(&self, fact: &Fact) -> Result<(), Error> {
        fact.figures().iter().try_for_each(|figure| {
            let question = self.of_figure(&figure.path);
            question.map_or(Ok(()), |one| one.unit_in_base(figure).map(|_| ()))
        })
    }

    /// Checks that the question's scenarios, keys, values and figures are known.
    fn check(&self) -> Result<(), Error> {
        self.check_within(0, &mut 0)
    }

    /// Checks a question inside others; `answers` counts those that are needed.
    fn check_within(&self, depth: usize, answers: &mut usize) -> Result<(), Error> {
        if self.value.is_some() {
            return Ok(());
        }
        if depth > DEPTH_MAX {
            let problem = "questions stand inside each other too deeply";
            return Err(Error::of_key("relative_to", problem, format!("up to {DEPTH_MAX}")));
        }
        *answers += 1;
        if *answers > ANSWERS_MAX {
            let problem = format!("one answer is made of more than {ANSWERS_MAX}");
            return Err(Error::of_key("ask", problem, "list fewer cases"));
        }
        let is_position = self.aggregates.iter().any(|one| one.over.is_position());
        match self.within {
            Some(_) if !is_position => {
                let problem = "it means nothing without peaks_at or falls_off_at";
                return Err(Error::of_key("within", problem, "leave it out"));
            }
            Some(within) if !(1.0..=WITHIN_MAX).contains(&within) => {
                let problem = format!("{within} is no such factor");
                return Err(Error::of_key("within", problem, format!("from 1 to {WITHIN_MAX}")));
            }
            _ => {}
        }
        match &self.aggregates[..] {
            [] => self.check_one(depth, answers),
            [aggregate] => self.check_aggregate(aggregate, depth, answers),
            [first, second, ..] => {
                let (first, second) = (first.over.key(), second.over.key());
                let problem = format!("{first} stands beside {second}");
                Err(Error::of_key(second, problem, "write one of them"))
            }
        }
    }

    /// Checks a question about one case.
    fn check_one(&self, depth: usize, answers: &mut usize) -> Result<(), Error> {
        let named = self.named_scenario()?;
        self.metric(named)?;
        self.args(named)?;
        let Some(written) = &self.relative_to else { return Ok(()) };
        written.refuse_unused("relative_to")?;
        self.other().map_or(Ok(()), |other| other.check_within(depth + 1, answers))
    }

    fn check_aggregate(
        &self,
        aggregate: &Aggregate,
        depth: usize,
        answers: &mut usize,
    ) -> Result<(), Error> {
        let over = aggregate.over;
        let is_mean = matches!(over, Over::Mean | Over::ArithmeticMean);
        if matches!(aggregate.cases, Cases::Named(_)) && !is_mean {
            let problem = "of the corpus only the mean is known";
            return Err(Error::of_key(over.key(), problem, "write mean_over: corpus"));
        }
        if over.is_position() {
            if self.change.is_some() {
                let problem =
                    format!("a value of a key is no change, and {} gives one", over.key());
                return Err(Error::of_key("change", problem, "leave it out"));
            }
            self.positions(aggregate)?;
        }
        for case in &aggregate.each()? {
            case.refuse_unused(over.key())?;
            if case.change.is_some() && self.change.is_some() {
                let problem = "a case states a change of its own";
                return Err(Error::of_key("change", problem, "write it once"));
            }
            self.with(case).check_within(depth + 1, answers)?;
        }
        self.dimension().map(|_| ())
    }

    /// Refuses a key that means nothing in a question inside another one.
    fn refuse_unused(&self, place: &str) -> Result<(), Error> {
        let Some(key) = self.key_without_meaning() else { return Ok(()) };
        let problem = format!("it means nothing under {place}");
        Err(Error::of_key(key, problem, "write it for the whole question, or leave it out"))
    }

    /// Returns the key whose value is the answer, and its values in base units in ascending order.
    fn positions(&self, aggregate: &Aggregate) -> Result<(Dimension, Vec<f64>), Error> {
        let over = aggregate.over.key();
        let refused = |problem: &str| {
            Err(Error::of_key(over, problem, "write two ascending values or more of one key"))
        };
        let (mut name, mut values) = (None, Vec::new());
        let mut dimension = Dimension::Count;
        for case in aggregate.each()? {
            let mut only = Self::default();
            only.settings.clone_from(&case.settings);
            let mut settings = case.settings.iter();
            let (Some((key, value)), None, true) = (settings.next(), settings.next(), case == only)
            else {
                return refused("it sets not just one key");
            };
            if *name.get_or_insert_with(|| key.clone()) != *key {
                return refused("it sets several keys");
            }
            let scenario = self.named_scenario()?;
            let Some(key) = scenario.keys.iter().find(|one| one.name == *key) else {
                let problem = format!("the scenario {} has no such key", scenario.name);
                let names: Vec<_> = scenario.keys.iter().map(|one| &one.name).collect();
                return Err(Error::of_key(key, problem, "").meant(key, &names));
            };
            let Some(number) = key.read(&value.0, Library::published())?.number else {
                return refused("its values are no numbers");
            };
            if values.last().is_some_and(|last| number <= *last) {
                return refused("its values do not ascend");
            }
            values.push(number);
            dimension = key.dimension();
        }
        if values.len() < 2 {
            return refused("it has one value");
        }
        Ok((dimension, values))
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

    /// Returns the dimension of the answer's unit.
    pub(crate) fn dimension(&self) -> Result<Dimension, Error> {
        let Some(aggregate) = self.aggregates.first() else {
            return match self.relative_to {
                Some(_) => Ok(Dimension::Count),
                None => Ok(self.metric(self.named_scenario()?)?.unit.dimension()),
            };
        };
        if aggregate.over.is_position() {
            return Ok(self.positions(aggregate)?.0);
        }
        let mut found = None;
        for case in aggregate.each()? {
            let case = self.with(&case);
            // A constant is in the base unit of the others.
            if case.value.is_none() {
                let own = case.dimension()?;
                if *found.get_or_insert(own) != own {
                    let problem = "the figures of its cases are in units of several kinds";
                    let key = aggregate.over.key();
                    return Err(Error::of_key(key, problem, "list figures of one kind"));
                }
            }
        }
        Ok(found.unwrap_or(Dimension::Count))
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
        let dimension = self.dimension()?;
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

impl Aggregate {
    /// Lists what each of its cases sets.
    fn each(&self) -> Result<Vec<Question>, Error> {
        self.cases.each(self.over.key())
    }
}
