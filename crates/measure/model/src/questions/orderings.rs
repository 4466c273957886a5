//! Questions about orderings: checks that the model's answers are in the published order.

use overside_config::Error;
use serde::Serialize;

use super::{Command, OrderingQuestion, Question};
use crate::facts::question::{ALIKE, Relation};
use crate::{Interval, Library, Prediction};

/// Result of comparing an ordering with the model.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "finding")]
pub enum OrderingFinding {
    /// A scenario answers it.
    Claimed {
        /// The scenario.
        scenario: String,
        /// Order of the predictions, compared with the published one.
        verdict: OrderingVerdict,
        /// The answers.
        sides: Vec<(String, Interval)>,
    },
    /// The model does not cover the ordering.
    NotModelled {
        /// Reason why the model has no answer.
        reason: String,
    },
}

/// Order of predictions, compared with a published one. The variants are in the order of doubt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrderingVerdict {
    /// The typical predictions are in that order, and their intervals tell them apart.
    Holds,
    /// The typical predictions are in that order, but of two neighbors the interval of one lies in
    /// that of the other, and their ratio may be 1.
    Likely,
    /// The typical predictions are not in that order.
    Fails,
}

impl Relation {
    fn questions(&self) -> &[Question] {
        (self.lists().into_iter()).find(|list| !list.is_empty()).map_or(&[], Vec::as_slice)
    }

    /// Returns all questions of the relation, for each of its cases.
    fn asked(&self, shared: &Question) -> Result<Vec<Vec<Question>>, Error> {
        let asked = self.cases.each("for")?.into_iter().map(|case| {
            let shared = case.over(shared);
            // What the question itself sets stands.
            let own = |one: &Question| match one.value {
                Some(_) => one.clone(),
                None => one.over(&shared),
            };
            self.questions().iter().map(own).collect()
        });
        Ok(asked.collect())
    }

    /// Describes the order that the answers have to be in.
    fn says(&self) -> String {
        if !self.rising.is_empty() {
            "each less than the next".into()
        } else if !self.falling.is_empty() {
            "each more than the next".into()
        } else {
            format!("all within {} times of each other", self.factor())
        }
    }

    /// Returns the largest factor between answers that are alike.
    fn factor(&self) -> f64 {
        self.within.unwrap_or(ALIKE)
    }

    fn verdict(&self, answers: &[Prediction]) -> OrderingVerdict {
        if !self.alike.is_empty() {
            let typical = answers.iter().map(|one| one.interval.typ);
            let (least, most) = typical.fold((f64::INFINITY, 0.0_f64), |(least, most), one| {
                (least.min(one), most.max(one))
            });
            let is_alike = most == least || most / least <= self.factor();
            return if is_alike { OrderingVerdict::Holds } else { OrderingVerdict::Fails };
        }
        let rises = !self.rising.is_empty();
        let pairs = answers.windows(2).map(|two| match rises {
            true => Self::order(&two[0], &two[1]),
            false => Self::order(&two[1], &two[0]),
        });
        pairs.max().unwrap_or(OrderingVerdict::Fails)
    }

    fn order(less: &Prediction, more: &Prediction) -> OrderingVerdict {
        let (a, b) = (less.interval, more.interval);
        let lies_in = |a: Interval, b: Interval| b.low <= a.low && a.high <= b.high;
        if a.typ >= b.typ {
            OrderingVerdict::Fails
        } else if !lies_in(a, b) && !lies_in(b, a)
            || more.over(less).is_ok_and(|ratio| ratio.interval.low > 1.0)
        {
            OrderingVerdict::Holds
        } else {
            OrderingVerdict::Likely
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
        if self.ask.value.is_some() {
            let problem = "a constant is no question that others share";
            return Err(Error::of_key("value", problem, "write it in rising, falling or alike"));
        }
        refuse_unused(&self.ask)?;
        for relation in &self.all {
            if relation.lists().iter().filter(|list| !list.is_empty()).count() != 1
                || relation.questions().len() < 2
            {
                let problem = "not one list of two questions or more";
                let remedy = "write one of rising, falling and alike";
                return Err(Error::of_key("all", problem, remedy));
            }
            if relation.within.is_some() && relation.alike.is_empty() {
                let problem = "it means nothing without alike";
                return Err(Error::of_key("within", problem, "leave it out"));
            }
            if !(1.0..=1000.0).contains(&relation.factor()) {
                let problem = format!("{} is no such factor", relation.factor());
                return Err(Error::of_key("within", problem, "from 1 to 1000"));
            }
            for case in relation.cases.each("for")? {
                if case.value.is_some() {
                    let problem = "a constant is no case";
                    return Err(Error::of_key("value", problem, "list what each case sets"));
                }
                refuse_unused(&case)?;
            }
            relation.questions().iter().try_for_each(refuse_unused)?;
            for questions in relation.asked(&self.ask)? {
                for question in &questions {
                    if let Some(value) = question.value
                        && !(value.is_finite() && value >= 0.0)
                    {
                        let problem = format!("{value} is no figure");
                        return Err(Error::of_key("value", problem, "0 or more"));
                    }
                    question.check()?;
                }
                compare_dimensions(&questions)?;
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
                questions.iter().for_each(|question| question.list(&mut commands, ""));
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
        let (mut sides, mut scenario) = (Vec::new(), String::new());
        let mut verdict = OrderingVerdict::Holds;
        for relation in &self.all {
            for questions in relation.asked(&self.ask).unwrap_or_default() {
                let mut answers = Vec::new();
                for question in &questions {
                    match question.answer(library) {
                        Ok(answer) => {
                            sides.push((question.to_string(), answer.interval));
                            answers.push(answer);
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
                verdict = verdict.max(relation.verdict(&answers));
            }
        }
        OrderingFinding::Claimed { scenario, verdict, sides }
    }
}

/// Refuses a key that means nothing in an ordering, where figures are compared in base units.
fn refuse_unused(question: &Question) -> Result<(), Error> {
    let Some(key) = question.key_without_meaning() else { return Ok(()) };
    Err(Error::of_key(key, "it means nothing in an ordering", "leave it out"))
}

/// Checks that figures are of one kind: a time is neither more nor less than a rate.
fn compare_dimensions(questions: &[Question]) -> Result<(), Error> {
    let asked = questions.iter().filter(|one| one.value.is_none());
    let found: Vec<_> = asked.map(Question::dimension).collect::<Result<_, _>>()?;
    if found.windows(2).all(|two| two[0] == two[1]) {
        return Ok(());
    }
    let problem = "figures in units of several kinds are compared";
    Err(Error::of_key("figure", problem, "compare figures of one kind"))
}
