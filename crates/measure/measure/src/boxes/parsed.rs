//! A box ready for use: axes expanded to lists, defaults filled in.

use std::collections::HashSet;

use overside_config::{Error, quoted, suggest};
use serde::{Serialize, Serializer};

use super::written::{BoxFile, Measure, Range, Scalar, ScalarOrList};
use super::written::{TaskEntry, Version, WrittenAxes, WrittenAxis, WrittenItem};
use super::{PROBLEMS_MAX, TESTS_MAX, join};

/// A box that was read and found valid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Parsed {
    /// The version of the format it was written in.
    pub schema: Version,
    /// The box's name.
    pub name: String,
    /// Purpose of the box; empty if the box does not give one.
    pub description: String,
    /// The seed of made data and of the order of the tests.
    pub seed: u64,
    /// Tasks to measure; at least one.
    pub tasks: Vec<ParsedTask>,
    /// The machines to measure on, at least one, none twice.
    pub nodes: Vec<String>,
    /// Number of rounds, times and target precision of the measurement.
    pub measure: Measure,
    /// Warnings about values that are valid but probably not intended.
    #[serde(serialize_with = "super::problems")]
    pub warnings: Vec<Error>,
}

/// One task with its parameters.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ParsedTask {
    /// The task's name.
    pub task: String,
    /// Reason for this entry; empty if the box does not give one.
    pub description: String,
    /// Each parameter's values, as they are written.
    pub parameters: Axes,
    /// Combinations to leave out: a test is left out if, for one of these, the value of each named
    /// parameter is among the values given.
    pub exclude: Vec<Axes>,
    /// The metrics to show; none: the task's own choice.
    pub metrics: Vec<String>,
}

/// Parameters with their values; both in the order in which they are written. Serialised as an
/// object of lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axes(pub Vec<Axis>);

/// A parameter's name and its values.
pub type Axis = (String, Vec<ScalarOrList>);

impl Serialize for Axes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, values)| (name, values)))
    }
}

/// Expands the axes and checks the parts against each other.
pub(super) fn expand(written: BoxFile) -> Result<Parsed, Vec<Error>> {
    let mut expander = Expander::default();
    let tasks: Vec<_> = (written.tasks.into_iter().enumerate())
        .map(|(index, entry)| expander.task(entry, &format!("/tasks/{index}")))
        .collect();
    if expander.tests > TESTS_MAX && expander.problems.is_empty() {
        let message =
            format!("{} tests in all are too many, the most is {TESTS_MAX}", expander.tests);
        expander.problems.push(Error::of_key("/tasks", message, ""));
    }
    if !expander.problems.is_empty() {
        expander.problems.truncate(PROBLEMS_MAX);
        return Err(expander.problems);
    }
    expander.warnings.truncate(PROBLEMS_MAX);
    Ok(Parsed {
        schema: written.schema,
        name: written.name,
        description: written.description.unwrap_or_default(),
        seed: written.seed,
        tasks,
        nodes: written.nodes,
        measure: written.measure,
        warnings: expander.warnings,
    })
}

#[derive(Default)]
struct Expander {
    problems: Vec<Error>,
    warnings: Vec<Error>,
    tests: u64,
}

impl Expander {
    fn task(&mut self, entry: TaskEntry, pointer: &str) -> ParsedTask {
        let parameters = self.axes(entry.parameters, &join(pointer, "parameters"));
        let tests = (parameters.0.iter())
            .fold(1_u64, |product, (_, values)| product.saturating_mul(values.len() as u64));
        if tests > TESTS_MAX {
            let message = format!("{tests} tests are too many, the most is {TESTS_MAX}");
            self.problems.push(Error::of_key(&join(pointer, "parameters"), message, ""));
        }
        self.tests = self.tests.saturating_add(tests);
        let place = join(pointer, "exclude");
        let exclude = (entry.exclude.into_iter().enumerate())
            .map(|(index, axes)| self.exclusion(axes, &parameters, &join(&place, index)))
            .collect();
        ParsedTask {
            task: entry.task,
            description: entry.description.unwrap_or_default(),
            parameters,
            exclude,
            metrics: entry.metrics,
        }
    }

    fn axes(&mut self, axes: WrittenAxes, pointer: &str) -> Axes {
        let expand = |(name, axis): (String, WrittenAxis)| {
            let values = self.axis(axis, &join(pointer, &name));
            (name, values)
        };
        Axes(axes.0.into_iter().map(expand).collect())
    }

    fn axis(&mut self, axis: WrittenAxis, pointer: &str) -> Vec<ScalarOrList> {
        let items = match axis {
            WrittenAxis::One(value) => return vec![ScalarOrList::Scalar(value)],
            WrittenAxis::Range(range) => return self.range(&range, pointer),
            WrittenAxis::Many(items) => items,
        };
        let mut values = Vec::new();
        let mut seen = HashSet::new();
        for (index, item) in items.into_iter().enumerate() {
            let place = join(pointer, index);
            let more = match item {
                WrittenItem::Value(value) => vec![value],
                WrittenItem::Range(range) => self.range(&range, &place),
            };
            for value in more {
                if seen.insert(identity(&value)) {
                    values.push(value);
                } else {
                    let message = format!("{} stands in this list twice", shown(&value));
                    self.problems.push(Error::of_key(&place, message, ""));
                }
            }
        }
        values
    }

    fn range(&mut self, range: &Range, pointer: &str) -> Vec<ScalarOrList> {
        let [from, to] = range.pow2;
        if from > to {
            let message = format!("an empty range: {from} is above {to}");
            self.problems.push(Error::of_key(&join(pointer, "pow2"), message, ""));
        }
        let number =
            |exponent: u32| ScalarOrList::Scalar(Scalar::Number((1_u64 << exponent).into()));
        (from..=to).map(number).collect()
    }

    fn exclusion(&mut self, axes: WrittenAxes, parameters: &Axes, pointer: &str) -> Axes {
        let names: Vec<_> = parameters.0.iter().map(|(name, _)| name).collect();
        let axes = self.axes(axes, pointer);
        if axes.0.is_empty() {
            self.problems.push(Error::of_key(pointer, "would leave out every test", ""));
        }
        for (name, values) in &axes.0 {
            let place = join(pointer, name);
            let Some((_, axis)) = parameters.0.iter().find(|(known, _)| known == name) else {
                let message = format!("{} is not among this entry's parameters", quoted(name));
                let suggestion = suggest(name, &names);
                self.problems.push(Error {
                    suggestion: suggestion.map(Into::into),
                    ..Error::of_key(&place, message, "")
                });
                continue;
            };
            let known: HashSet<_> = axis.iter().map(identity).collect();
            let words: Vec<_> = axis.iter().filter_map(ScalarOrList::text).collect();
            for value in values.iter().filter(|value| !known.contains(&identity(value))) {
                let message =
                    format!("{} is not among the values of {}", shown(value), quoted(name));
                let suggestion = value.text().and_then(|text| suggest(text, &words));
                self.warnings.push(Error {
                    suggestion: suggestion.map(Into::into),
                    ..Error::of_key(&place, message, "")
                });
            }
        }
        axes
    }
}

/// Returns a text that is the same for equal values: 1 and 1.0 are equal, 1 and "1" are not.
fn identity(value: &ScalarOrList) -> String {
    let scalar = |scalar: &Scalar| match scalar {
        Scalar::Bool(value) => value.to_string(),
        Scalar::Text(text) => format!("{text:?}"),
        Scalar::Number(number) => match number.as_f64() {
            // Whole floating-point numbers print as whole numbers; beyond 2^53 they may be others.
            Some(value) if number.is_f64() => value.to_string(),
            _ => number.to_string(),
        },
    };
    match value {
        ScalarOrList::Scalar(value) => scalar(value),
        ScalarOrList::List(values) => {
            format!("[{}]", values.iter().map(scalar).collect::<Vec<_>>().join(", "))
        }
    }
}

/// Formats a value for messages.
fn shown(value: &ScalarOrList) -> String {
    match value {
        ScalarOrList::Scalar(Scalar::Text(text)) => quoted(text),
        ScalarOrList::Scalar(_) => identity(value),
        ScalarOrList::List(_) => "this list".into(),
    }
}
