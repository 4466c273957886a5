//! What orderings ask: whether answers stand as they were published.

use overside_config::Error;
use serde::{Deserialize, Serialize};

use super::{Cases, Command, Question};
use crate::{Interval, Library};

/// What is asked about an ordering.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(from = "Written")]
pub struct OrderingQuestion {
    /// What all its questions share.
    ask: Question,
    /// What has to hold, all of it.
    all: Vec<Relation>,
    /// Why nothing is asked.
    not_modelled: Option<String>,
}

/// The same as a file has it: one relation may stand without `all`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    ask: Question,
    #[serde(default)]
    all: Vec<Relation>,
    #[serde(default)]
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
        Self {
            ask: written.ask,
            all,
            not_modelled: written.not_modelled,
        }
    }
}

/// How several answers stand to each other.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Relation {
    /// Once for each combination of these.
    #[serde(default, rename = "for")]
    cases: Cases,
    /// Each is less than the next.
    #[serde(default)]
    rising: Vec<Question>,
    /// Each is more than the next.
    #[serde(default)]
    falling: Vec<Question>,
    /// All are within a factor of each other.
    #[serde(default)]
    alike: Vec<Question>,
    /// That factor.
    #[serde(default = "a_seventh")]
    within: f64,
}

/// What studies call about the same.
const fn a_seventh() -> f64 {
    1.15
}

/// What the model says of an ordering.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "finding")]
pub enum OrderingFinding {
    /// A scenario answers it: whether the typical predictions stand in that order, and what was
    /// compared, in words.
    Claimed {
        /// The scenario.
        scenario: String,
        /// Whether it holds.
        holds: bool,
        /// The answers.
        sides: Vec<(String, Interval)>,
    },
    /// Nothing in the model speaks of it.
    NotModelled {
        /// Why not.
        reason: String,
    },
}

impl Relation {
    fn lists(&self) -> [&Vec<Question>; 3] {
        [&self.rising, &self.falling, &self.alike]
    }

    fn questions(&self) -> &[Question] {
        (self.lists().into_iter())
            .find(|list| !list.is_empty())
            .map_or(&[], Vec::as_slice)
    }

    /// Its questions, all of them, for each of its cases.
    fn asked(&self, shared: &Question) -> Result<Vec<Vec<Question>>, Error> {
        let asked = (self.cases.each()?.iter())
            .map(|case| {
                let own = |one: &Question| {
                    if one.value.is_some() {
                        return one.clone();
                    }
                    // What the question itself sets stands.
                    let shared = shared.with(case);
                    one.over(&shared)
                };
                self.questions().iter().map(own).collect()
            })
            .collect();
        Ok(asked)
    }

    /// How its answers have to stand.
    fn says(&self) -> String {
        if !self.rising.is_empty() {
            "each less than the next".into()
        } else if !self.falling.is_empty() {
            "each more than the next".into()
        } else {
            format!("all within {} times of each other", self.within)
        }
    }

    fn holds(&self, typical: &[f64]) -> bool {
        let pairs =
            |of: &dyn Fn(f64, f64) -> bool| typical.windows(2).all(|two| of(two[0], two[1]));
        if !self.rising.is_empty() {
            pairs(&|a, b| a < b)
        } else if !self.falling.is_empty() {
            pairs(&|a, b| a > b)
        } else {
            let (least, most) = typical
                .iter()
                .fold((f64::INFINITY, 0.0_f64), |(least, most), one| {
                    (least.min(*one), most.max(*one))
                });
            most / least <= self.within
        }
    }
}

impl OrderingQuestion {
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.not_modelled.is_some() != self.all.is_empty() {
            let problem = "neither what has to hold nor why nothing is asked, or both";
            let remedy = "write rising, falling, alike or all; or not_modelled";
            return Err(Error::of_key("ask", problem, remedy));
        }
        for relation in &self.all {
            if relation
                .lists()
                .iter()
                .filter(|list| !list.is_empty())
                .count()
                != 1
                || relation.questions().len() < 2
            {
                let problem = "not one list of two questions or more";
                let remedy = "write one of rising, falling and alike";
                return Err(Error::of_key("all", problem, remedy));
            }
            if !(1.0..=1000.0).contains(&relation.within) {
                let problem = format!("{} is no such factor", relation.within);
                return Err(Error::of_key("within", problem, "from 1 to 1000"));
            }
            for question in relation.asked(&self.ask)?.iter().flatten() {
                if let Some(value) = question.value
                    && !(value.is_finite() && value >= 0.0)
                {
                    let problem = format!("{value} is no figure");
                    return Err(Error::of_key("value", problem, "0 or more"));
                }
                question.check(0)?;
            }
        }
        Ok(())
    }

    /// Why the model has no answer, where that is known.
    pub fn not_modelled(&self) -> Option<&str> {
        self.not_modelled.as_deref()
    }

    /// How answers have to stand, and what to type to see each of them.
    pub fn commands(&self) -> Vec<(String, Vec<Command>)> {
        let each = |relation: &Relation| {
            let asked = relation.asked(&self.ask).unwrap_or_default();
            let says = relation.says();
            asked.into_iter().map(move |questions| {
                let mut commands = Vec::new();
                for question in &questions {
                    match question.value {
                        // A number needs no command.
                        Some(value) => commands.push(Command {
                            what: String::new(),
                            figure: value.to_string(),
                            command: String::new(),
                        }),
                        None => question.list(&mut commands, ""),
                    }
                }
                (says.clone(), commands)
            })
        };
        self.all.iter().flat_map(each).collect()
    }

    /// Whether the answers from what `library` knows stand as they were published.
    pub fn answer(&self, library: &Library) -> OrderingFinding {
        if let Some(reason) = &self.not_modelled {
            return OrderingFinding::NotModelled {
                reason: reason.clone(),
            };
        }
        let (mut sides, mut all_hold, mut scenario) = (Vec::new(), true, String::new());
        for relation in &self.all {
            for questions in relation.asked(&self.ask).unwrap_or_default() {
                let mut typical = Vec::new();
                for question in &questions {
                    match question.answer(library) {
                        Ok(answer) => {
                            typical.push(answer.interval.typ);
                            sides.push((question.to_string(), answer.interval));
                        }
                        Err(none) => {
                            let reason = format!("{question}: {none}");
                            return OrderingFinding::NotModelled { reason };
                        }
                    }
                    if question.value.is_none() {
                        question.scenario().clone_into(&mut scenario);
                    }
                }
                all_hold &= relation.holds(&typical);
            }
        }
        OrderingFinding::Claimed {
            scenario,
            holds: all_hold,
            sides,
        }
    }
}

impl std::fmt::Display for Question {
    /// `figure (key=value, key=value)`.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(value) = self.value {
            return write!(out, "{value}");
        }
        let settings: Vec<String> = (self.settings.iter())
            .map(|(key, value)| format!("{key}={}", value.0))
            .collect();
        write!(
            out,
            "{} ({})",
            self.figure.as_deref().unwrap_or_default(),
            settings.join(", ")
        )
    }
}
