//! Questions, answered.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Question;
use crate::facts::question::{ALIKE, Aggregate, Change, Over};
use crate::{Answer, EvidenceLevel, Interval, Library, NoPrediction, Prediction, scenario};

/// An answer, and whether anything was predicted for it.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    /// The answer; where the fact states a change, the ratio.
    pub(crate) prediction: Prediction,
    /// `true` if it is a published figure as it is, or a ratio, a mean, an extreme or its position
    /// among such figures.
    pub(crate) is_given: bool,
}

/// Command that shows the answer, and the part that its result plays in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Command {
    /// Role of the result in the answer, in words, such as "the largest of these".
    pub what: String,
    /// Name of the figure.
    pub figure: String,
    /// The command line; empty where the figure is a number to compare with.
    pub command: String,
}

impl Question {
    /// Answers the question by its scenarios, from the profiles in `library`.
    ///
    /// # Errors
    /// [`NoPrediction`].
    pub fn answer(&self, library: &Library) -> Answer {
        Ok(self.changed(library)?.prediction)
    }

    /// Answers the question in the form in which the fact states it.
    fn changed(&self, library: &Library) -> Result<Answered, NoPrediction> {
        let Answered { prediction, is_given } = self.unchanged(library)?;
        let prediction = match self.change {
            None => prediction,
            Some(change) => change.of(prediction)?,
        };
        Ok(Answered { prediction, is_given })
    }

    /// Answers the question; with the ratio where the fact states a change.
    pub(crate) fn unchanged(&self, library: &Library) -> Result<Answered, NoPrediction> {
        if let Some(why) = &self.not_modelled {
            return Err(NoPrediction {
                why: why.clone(),
                remedy: "measure it on such a card".into(),
            });
        }
        if let Some(value) = self.value {
            let prediction = Prediction::given(Interval::exactly(value));
            return Ok(Answered { prediction, is_given: true });
        }
        let Some(aggregate) = self.aggregates.first() else {
            return self.one(library);
        };
        let cases = aggregate.each().map_err(not_asked)?;
        let answers = cases.iter().map(|case| self.with(case).changed(library));
        if aggregate.over.is_position() {
            return self.position(aggregate, answers.collect::<Result<_, _>>()?);
        }
        // The largest reduction is that of the smallest ratio.
        let over = match (aggregate.over, self.change) {
            (Over::Largest, Some(Change::Less)) => Over::Smallest,
            (Over::Smallest, Some(Change::Less)) => Over::Largest,
            (over, _) => over,
        };
        over.of(answers.collect())
    }

    /// Answers a question about one case.
    fn one(&self, library: &Library) -> Result<Answered, NoPrediction> {
        let named = self.named_scenario().map_err(not_asked)?;
        let args = self.args(named).map_err(not_asked)?;
        let metric = self.metric(named).map_err(not_asked)?;
        let answer = scenario::figure(&args, &metric.name, library).map_err(not_asked)??;
        let is_given = answer.closeness == EvidenceLevel::Same;
        let Some(other) = self.other() else {
            return Ok(Answered { prediction: answer, is_given });
        };
        let bottleneck = answer.bottleneck.clone();
        let other = other.changed(library)?;
        let ratio = Prediction::combined(&[answer, other.prediction], |typ| typ[0] / typ[1])?;
        Ok(Answered {
            prediction: Prediction { bottleneck, ..ratio },
            is_given: is_given && other.is_given,
        })
    }

    /// Answers with the value of a key at which the answers peak, or fall off behind their peak.
    /// Its ends are the values at which they may.
    fn position(
        &self,
        aggregate: &Aggregate,
        answers: Vec<Answered>,
    ) -> Result<Answered, NoPrediction> {
        let (_, at) = self.positions(aggregate).map_err(not_asked)?;
        let is_given = answers.iter().all(|one| one.is_given);
        let all: Vec<Prediction> = answers.into_iter().map(|one| one.prediction).collect();
        let typical = |index: usize| all[index].interval.typ;
        let most = (0..all.len()).map(typical).fold(0.0, f64::max);
        let largest = (0..all.len()).find(|index| typical(*index) == most).unwrap_or_default();
        // Each over the largest; doubts that both share cancel.
        let share = |one: &Prediction| match one.interval.typ {
            0.0 => Ok(Interval::exactly(0.0)),
            _ => Ok(one.over(&all[largest])?.interval),
        };
        let shares = all.iter().map(share).collect::<Result<Vec<_>, NoPrediction>>()?;
        let last = shares.len() - 1;
        let first = |from: usize, is: &dyn Fn(Interval) -> bool| {
            (from..=last).find(|index| is(shares[*index]))
        };
        let least = 1.0 / self.within.unwrap_or(ALIKE);
        let (low, typ, high) = match (aggregate.over, self.within) {
            (Over::Fall, _) => {
                let Some(typ) = first(largest, &|share| share.typ < least) else {
                    return Err(NoPrediction {
                        why: "it falls off at none of these values".into(),
                        remedy: "list larger ones".into(),
                    });
                };
                let low = first(largest, &|share| share.low < least);
                (low, typ, first(typ, &|share| share.high < least).unwrap_or(last))
            }
            (_, None) => {
                let may_be = |index: &usize| shares[*index].high >= 1.0;
                (
                    first(0, &|share| share.high >= 1.0),
                    largest,
                    (0..=last).rev().find(may_be).unwrap_or(largest),
                )
            }
            (_, Some(_)) => {
                let typ = first(0, &|share| share.typ >= least).unwrap_or(largest);
                let high = first(typ, &|share| share.low >= least).unwrap_or(largest);
                (first(0, &|share| share.high >= least), typ, high.max(typ))
            }
        };
        let low = low.unwrap_or(typ);
        let facts: BTreeSet<&String> = all.iter().flat_map(|one| &one.facts).collect();
        let prediction = Prediction {
            closeness: all.iter().map(|one| one.closeness).max().unwrap_or(EvidenceLevel::Same),
            facts: facts.into_iter().cloned().collect(),
            ..Prediction::given(Interval { low: at[low], typ: at[typ], high: at[high] })
        };
        Ok(Answered { prediction, is_given })
    }

    /// Lists the commands that show the answer: one, or the several of which it is made.
    pub fn commands(&self) -> Vec<Command> {
        let mut commands = Vec::new();
        self.list(&mut commands, "");
        commands
    }

    pub(super) fn list(&self, commands: &mut Vec<Command>, role: &str) {
        if self.not_modelled.is_some() {
            return;
        }
        if self.value.is_some() {
            let figure = self.to_string();
            commands.push(Command { what: role.into(), figure, command: String::new() });
            return;
        }
        let Some(aggregate) = self.aggregates.first() else {
            return self.list_one(commands, role);
        };
        let cases = aggregate.each().unwrap_or_default();
        let own = if cases.len() > 1 { aggregate.over.role() } else { "" };
        let words: Vec<&str> = [role, own].into_iter().filter(|one| !one.is_empty()).collect();
        for case in &cases {
            let mut one = self.with(case);
            one.change = case.change.or(self.change);
            one.list(commands, &words.join(": "));
        }
    }

    /// Lists the command of one case, and those of the question that it is relative to.
    fn list_one(&self, commands: &mut Vec<Command>, role: &str) {
        let settings = self.settings.iter().map(|(key, value)| {
            let word = format!("{key}={}", value.0);
            let is_plain = |c: char| c.is_alphanumeric() || "=._-%/:+".contains(c);
            match word.chars().all(is_plain) {
                true => format!(" --set {word}"),
                false => format!(" --set '{}'", word.replace('\'', r"'\''")),
            }
        });
        commands.push(Command {
            what: role.to_owned(),
            figure: self.figure.clone().unwrap_or_default(),
            command: format!(
                "overside simulate {}{}",
                self.scenario(),
                settings.collect::<String>()
            ),
        });
        if let Some(other) = self.other() {
            let role = match self.change {
                None => "over",
                Some(Change::More) => "how much more than",
                Some(Change::Less) => "how much less than",
            };
            other.list(commands, role);
        }
    }
}

/// A question that contradicts itself.
fn not_asked(error: overside_config::Error) -> NoPrediction {
    NoPrediction { why: error.problem, remedy: error.remedy.into() }
}

impl Over {
    /// The answer over several cases. Those of which nothing is known are left out if anything is
    /// known of another. Over several, evidence counts as no nearer than that of another size.
    fn of(self, answers: Vec<Result<Answered, NoPrediction>>) -> Result<Answered, NoPrediction> {
        let (mut known, mut is_given) = (Vec::new(), true);
        let mut first_unknown = None;
        for answer in answers {
            match answer {
                Ok(answer) => {
                    is_given &= answer.is_given;
                    known.push(answer.prediction);
                }
                Err(unknown) => first_unknown = first_unknown.or(Some(unknown)),
            }
        }
        if known.is_empty() {
            return Err(first_unknown.unwrap_or_else(NoPrediction::not_evaluated));
        }
        // What makes no difference is no case of its own.
        if known.iter().all(|one| one.interval == known[0].interval) {
            return Ok(Answered { prediction: known.swap_remove(0), is_given });
        }
        for one in &mut known {
            one.closeness = one.closeness.max(EvidenceLevel::Card);
        }
        let ends = |of: fn(f64, f64) -> f64, end: fn(&Interval) -> f64| {
            (known.iter().map(|one| end(&one.interval))).reduce(of).unwrap_or(f64::NAN)
        };
        let least = |all: &[f64]| all.iter().copied().fold(f64::INFINITY, f64::min);
        let prediction = match self {
            Self::Largest => {
                Prediction::combined(&known, |all| all.iter().copied().fold(0.0, f64::max))?
            }
            // Nothing is less than none, and a formula's answer is never none.
            Self::Smallest if known.iter().any(|one| one.interval.typ == 0.0) => {
                known.retain(|one| one.interval.typ == 0.0);
                known.swap_remove(0)
            }
            Self::Smallest => Prediction::combined(&known, least)?,
            Self::ArithmeticMean => {
                Prediction::combined(&known, |all| all.iter().sum::<f64>() / all.len() as f64)?
            }
            Self::OneOf => {
                let middle = (ends(f64::min, |one| one.typ) * ends(f64::max, |one| one.typ)).sqrt();
                let whole = Interval {
                    low: ends(f64::min, |one| one.low),
                    typ: middle,
                    high: ends(f64::max, |one| one.high),
                };
                let joint = Prediction::combined(&known, crate::lookup::mean)?;
                Prediction { interval: whole, ..joint }
            }
            Self::Mean | Self::Peak | Self::Fall => {
                Prediction::combined(&known, crate::lookup::mean)?
            }
        };
        Ok(Answered { prediction, is_given })
    }
}
