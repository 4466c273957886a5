//! Questions about orderings: checks that the model's answers are in the published order.

use overside_config::Error;
use serde::Serialize;

use super::{Command, OrderingQuestion, Question};
use crate::facts::question::Relation;
use crate::{Interval, Library};

/// Result of comparing an ordering with the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "finding")]
pub enum OrderingFinding {
    /// A scenario answers it: `true` if the typical predictions are in that order, and the
    /// comparison in words.
    Claimed {
        /// The scenario.
        scenario: String,
        /// `true` if the typical predictions are in the published order.
        holds: bool,
        /// The answers.
        sides: Vec<(String, Interval)>,
    },
    /// The model does not cover the ordering.
    NotModelled {
        /// Reason why the model has no answer.
        reason: String,
    },
}

impl Relation {
    fn questions(&self) -> &[Question] {
        (self.lists().into_iter()).find(|list| !list.is_empty()).map_or(&[], Vec::as_slice)
    }

    /// Returns all questions of the relation, for each of its cases.
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

    /// Describes the order that the answers have to be in.
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
            let (least, most) =
                typical.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), one| {
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
            if relation.lists().iter().filter(|list| !list.is_empty()).count() != 1
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

    /// Returns the reason why the model has no answer; `None` if there is a question for the model.
    pub fn not_modelled(&self) -> Option<&str> {
        self.not_modelled.as_deref()
    }

    /// Lists the relations in words, each with the commands that show its answers.
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

    /// Compares the answers from the profiles in `library` with the published order.
    pub fn answer(&self, library: &Library) -> OrderingFinding {
        if let Some(reason) = &self.not_modelled {
            return OrderingFinding::NotModelled { reason: reason.clone() };
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
        OrderingFinding::Claimed { scenario, holds: all_hold, sides }
    }
}
