//! Questions, answered.

use serde::Serialize;

use super::Question;
use crate::facts::question::Change;
use crate::{Answer, EvidenceLevel, Interval, Library, NoPrediction, Prediction, scenario};

/// Way in which one answer is made of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    OneOf,
    Largest,
    Smallest,
    Mean,
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
        if let Some(why) = &self.not_modelled {
            return Err(NoPrediction {
                why: why.clone(),
                remedy: "measure it on such a card".into(),
            });
        }
        if let Some(value) = self.value {
            return Ok(Prediction::given(Interval::exactly(value)));
        }
        let (over, cases) = self.cases().map_err(not_asked)?;
        let answers = cases.iter().map(|case| self.with(case).one(library));
        // The largest reduction is that of the smallest ratio.
        let over = match (over, self.change) {
            (Over::Largest, Some(Change::Less)) => Over::Smallest,
            (Over::Smallest, Some(Change::Less)) => Over::Largest,
            (over, _) => over,
        };
        let answer = over.of(answers.collect())?;
        match self.change {
            None => Ok(answer),
            Some(Change::More) => answer.shifted(|ratio| ratio - 1.0),
            Some(Change::Less) => answer.shifted(|ratio| 1.0 - ratio),
        }
    }

    /// Answers a question about one case.
    fn one(&self, library: &Library) -> Answer {
        let named = self.named_scenario().map_err(not_asked)?;
        let args = self.args(named).map_err(not_asked)?;
        let metric = self.metric(named).map_err(not_asked)?;
        let answer = scenario::figure(&args, &metric.name, library).map_err(not_asked)??;
        let Some(other) = self.other() else {
            return Ok(answer);
        };
        let bottleneck = answer.bottleneck.clone();
        let parts = [answer, other.answer(library)?];
        let ratio = Prediction::combined(&parts, |typ| typ[0] / typ[1])?;
        Ok(Prediction { bottleneck, ..ratio })
    }

    /// Lists the commands that show the answer: one, or the several of which it is made.
    pub fn commands(&self) -> Vec<Command> {
        let mut commands = Vec::new();
        self.list(&mut commands, "");
        commands
    }

    pub(super) fn list(&self, commands: &mut Vec<Command>, role: &str) {
        let Ok((over, cases)) = self.cases() else {
            return;
        };
        if self.not_modelled.is_some() {
            return;
        }
        let of_several = match (cases.len(), over) {
            (1, _) => "",
            (_, Over::OneOf) => "one of these",
            (_, Over::Largest) => "the largest of these",
            (_, Over::Smallest) => "the smallest of these",
            (_, Over::Mean) => "the mean of these",
        };
        for case in &cases {
            let one = self.with(case);
            let settings = one.settings.iter().map(|(key, value)| {
                let word = format!("{key}={}", value.0);
                if word.contains(' ') {
                    format!(" --set '{word}'")
                } else {
                    format!(" --set {word}")
                }
            });
            let words: Vec<&str> =
                [role, of_several].into_iter().filter(|one| !one.is_empty()).collect();
            commands.push(Command {
                what: words.join(": "),
                figure: one.figure.clone().unwrap_or_default(),
                command: format!(
                    "overside simulate {}{}",
                    one.scenario(),
                    settings.collect::<String>()
                ),
            });
            if let Some(other) = one.other() {
                let role = match one.change {
                    None => "over",
                    Some(Change::More) => "how much more than",
                    Some(Change::Less) => "how much less than",
                };
                other.list(commands, role);
            }
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
    fn of(self, answers: Vec<Answer>) -> Answer {
        let mut known = Vec::new();
        let mut first_unknown = None;
        for answer in answers {
            match answer {
                Ok(answer) => known.push(answer),
                Err(unknown) => first_unknown = first_unknown.or(Some(unknown)),
            }
        }
        if known.is_empty() {
            return Err(first_unknown.unwrap_or_else(NoPrediction::not_evaluated));
        }
        // What makes no difference is no case of its own.
        if known.iter().all(|one| one.interval == known[0].interval) {
            return Ok(known.swap_remove(0));
        }
        for one in &mut known {
            one.closeness = one.closeness.max(EvidenceLevel::Card);
        }
        let ends = |of: fn(f64, f64) -> f64, end: fn(&Interval) -> f64| {
            (known.iter().map(|one| end(&one.interval))).reduce(of).unwrap_or(f64::NAN)
        };
        match self {
            Self::Largest => {
                Prediction::combined(&known, |all| all.iter().copied().fold(0.0, f64::max))
            }
            Self::Smallest => Prediction::combined(&known, |all| {
                all.iter().copied().fold(f64::INFINITY, f64::min)
            }),
            Self::Mean => Prediction::combined(&known, crate::lookup::mean),
            Self::OneOf => {
                let middle = (ends(f64::min, |one| one.typ) * ends(f64::max, |one| one.typ)).sqrt();
                let whole = Interval {
                    low: ends(f64::min, |one| one.low),
                    typ: middle,
                    high: ends(f64::max, |one| one.high),
                };
                let joint = Prediction::combined(&known, crate::lookup::mean)?;
                Ok(Prediction { interval: whole, ..joint })
            }
        }
    }
}
