//! What a task declares of itself: its parameters, its metrics, and how a report groups, titles and
//! draws its tests. The one place where this is said: boxes are checked against it, `overside list`
//! prints it, reports are made by it.

use serde::Serialize;
use serde_json::Value;

/// A task.
#[derive(Clone, Debug, Serialize)]
pub struct TaskSpec {
    /// The name that boxes use.
    pub name: &'static str,
    /// One line for people.
    pub description: &'static str,
    /// The operation of its jobs, with parameters in braces: `compress-{format}`. `None`: it is
    /// not about jobs on a device.
    pub operation: Option<&'static str>,
    /// Its results are checked. Without that they enter no advice and no verdict.
    pub verified: bool,
    /// In the order in which they are shown.
    pub parameters: Vec<Parameter>,
    /// The first is the one that decides where a box asks for none.
    pub metrics: Vec<Metric>,
    /// What a report makes of its tests.
    pub report: Report,
}

impl TaskSpec {
    /// Reports compare the fastest way with these libraries.
    pub(super) fn compared_with(mut self, libraries: &'static [&'static str]) -> Self {
        self.report.references = libraries;
        self
    }
}

/// What values a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// A text, or a list of texts that is one value.
    Strings,
    /// A list of whole numbers that is one value.
    Integers,
}

/// What the text of a parameter names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reference {
    /// A device.
    Device,
    /// A library that does an operation, or `auto`.
    Variant,
    /// A data set, a file or a directory.
    Data,
    /// This machine, by the parameter's default, or an agent.
    Node,
    /// A placement.
    Placement,
    /// Regular expressions, or names of published ones.
    Patterns,
}

/// One parameter: an axis of a box.
#[derive(Clone, Debug, Serialize)]
pub struct Parameter {
    /// The key in a box.
    pub name: &'static str,
    /// The values it takes.
    pub kind: Kind,
    /// One line for people.
    pub doc: String,
    /// The value where the box gives none; null: the task decides.
    pub default: Value,
    /// Unit of a number, empty without one.
    pub unit: &'static str,
    /// The only values allowed; empty: any.
    pub choices: Vec<Choice>,
    /// The smallest number allowed.
    pub minimum: Option<f64>,
    /// The largest number allowed.
    pub maximum: Option<f64>,
    /// The most that a list may hold.
    pub most_values: Option<usize>,
    /// Words that stand for a number.
    pub words: Vec<&'static str>,
    /// What it names.
    pub refers_to: Option<Reference>,
    /// What may stand for a device too, by itself or after an agent's name: links.
    pub links: Vec<&'static str>,
}

/// One of the values that a parameter can have.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// The value in a box.
    pub name: &'static str,
    /// The same in the title of a group.
    pub title: &'static str,
}

impl Parameter {
    fn new(kind: Kind, name: &'static str, doc: impl Into<String>) -> Self {
        Self {
            name,
            kind,
            doc: doc.into(),
            default: Value::Null,
            unit: "",
            choices: Vec::new(),
            minimum: None,
            maximum: None,
            most_values: None,
            words: Vec::new(),
            refers_to: None,
            links: Vec::new(),
        }
    }

    /// A text.
    pub(super) fn text(name: &'static str, doc: impl Into<String>) -> Self {
        Self::new(Kind::String, name, doc)
    }

    /// A list of texts, at most so many.
    pub(super) fn texts(name: &'static str, doc: &str, most: usize) -> Self {
        Self {
            most_values: Some(most),
            ..Self::new(Kind::Strings, name, doc)
        }
    }

    /// One of several words.
    pub(super) fn choice(name: &'static str, doc: &str, choices: &[&'static str]) -> Self {
        let titled = choices.iter().map(|&name| (name, name));
        Self::titled(name, doc, titled)
    }

    /// One of several words that have a title each.
    pub(super) fn titled(
        name: &'static str,
        doc: &str,
        choices: impl IntoIterator<Item = (&'static str, &'static str)>,
    ) -> Self {
        let choice = |(name, title)| Choice { name, title };
        Self {
            choices: choices.into_iter().map(choice).collect(),
            ..Self::new(Kind::String, name, doc)
        }
    }

    /// A whole number.
    pub(super) fn integer(name: &'static str, doc: &str, min: u64, max: u64) -> Self {
        Self {
            kind: Kind::Integer,
            ..Self::number(name, doc, min as f64, max as f64)
        }
    }

    /// A number.
    pub(super) fn number(name: &'static str, doc: &str, min: f64, max: f64) -> Self {
        Self {
            minimum: Some(min),
            maximum: Some(max),
            ..Self::new(Kind::Number, name, doc)
        }
    }

    /// True or false.
    pub(super) fn boolean(name: &'static str, doc: &str) -> Self {
        Self::new(Kind::Boolean, name, doc)
    }

    /// A list of core numbers.
    pub(super) fn cores(name: &'static str, doc: &str) -> Self {
        Self::new(Kind::Integers, name, doc)
    }

    /// Its value where a box gives none.
    pub(super) fn default(mut self, value: impl Into<Value>) -> Self {
        self.default = value.into();
        self
    }

    /// `all` stands for the cores of the machine that measures.
    pub(super) fn or_all(mut self) -> Self {
        self.words.push("all");
        self.doc += "; all: one a core";
        self
    }

    /// The unit of its number.
    pub(super) fn unit(mut self, unit: &'static str) -> Self {
        self.unit = unit;
        self
    }

    /// What its text names.
    pub(super) fn names(mut self, reference: Reference) -> Self {
        self.refers_to = Some(reference);
        self
    }
}

/// Which way a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// One figure that a task gives.
#[derive(Clone, Debug, Serialize)]
pub struct Metric {
    /// The key in a sample.
    pub name: String,
    /// Its unit; `-` for a ratio.
    pub unit: &'static str,
    /// Which way it is better.
    pub better: Better,
    /// One line for people.
    pub description: String,
}

/// A parameter that can be swept, and the title of its axis.
pub(super) fn axis(name: &'static str, title: &'static str) -> Choice {
    Choice { name, title }
}

/// A metric of which more is better.
pub(super) fn higher(
    name: impl Into<String>,
    unit: &'static str,
    description: impl Into<String>,
) -> Metric {
    Metric {
        name: name.into(),
        unit,
        better: Better::Higher,
        description: description.into(),
    }
}

/// A metric of which less is better.
pub(super) fn lower(
    name: impl Into<String>,
    unit: &'static str,
    description: impl Into<String>,
) -> Metric {
    Metric {
        better: Better::Lower,
        ..higher(name, unit, description)
    }
}

/// What a histogram of latencies tells; `of` says of what.
pub(super) fn latencies(of: &str) -> Vec<Metric> {
    let names = [
        ("mean", "mean"),
        ("min", "shortest"),
        ("p50", "median"),
        ("p90", "90th percentile of the"),
        ("p99", "99th percentile of the"),
        ("p999", "99.9th percentile of the"),
        ("max", "longest"),
    ];
    let metric = |(name, what)| lower(format!("latency_{name}"), "µs", format!("{what} {of}"));
    names.map(metric).into()
}

/// How a report groups, titles and draws a task's tests. A group has the tests that do the same
/// work: those whose parameters are equal, but for `ways`, `size` and the parameters of `labels`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What the work is called; the first whose condition holds.
    pub titles: Vec<Title>,
    /// The parameters that say how work is done, not which, in the order in which labels name
    /// them.
    pub ways: Vec<&'static str>,
    /// The parameter that is the size of the work.
    pub size: &'static str,
    /// The parameters that tell apart what a group has side by side: a label begins with them.
    pub labels: Labels,
    /// Libraries by the name in a sample, as people call them.
    pub variants: Vec<Choice>,
    /// The libraries that a system has anyway: what the fastest way is compared with.
    pub references: &'static [&'static str],
    /// Another device or library is a better way to do the same work, or a worse one; not so for
    /// what lies between two sides.
    pub advised: bool,
    /// How a group is drawn.
    pub charts: Charts,
    /// Of [`Charts::Traffic`]: the parameters that can be swept, and the titles of their axes.
    pub axes: Vec<Choice>,
    /// Of [`Charts::Traffic`]: metrics that are parts of one time, in their order, and what they are
    /// called.
    pub stages: Vec<Choice>,
}

/// One of a task's titles.
#[derive(Clone, Debug, Serialize)]
pub struct Title {
    /// The parameter that has to be given.
    pub when: Option<&'static str>,
    /// The title, with the titles of parameters' values in braces: `Compress to {format}`.
    pub text: &'static str,
}

/// Parameters that begin a label.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Labels {
    /// The parameter that has to be given.
    pub when: Option<&'static str>,
    /// The parameters.
    pub parameters: &'static [&'static str],
}

/// How a group is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Charts {
    /// Throughput, CPU cost, latencies and stages against the size; of tests without a throughput
    /// the figures that the box asks for.
    Jobs,
    /// The same with the median latency and the initiator's load, and figures by size and batch
    /// where there are many of both.
    Moves,
    /// The figures that the box asks for against each parameter that is swept; series with jobs
    /// beside.
    Traffic,
}

impl Report {
    /// A report on tests called `title`.
    pub(super) fn new(title: &'static str, ways: &[&'static str]) -> Self {
        Self {
            titles: vec![Title {
                when: None,
                text: title,
            }],
            ways: ways.into(),
            size: "buffer_size",
            labels: Labels::default(),
            variants: Vec::new(),
            references: &[],
            advised: true,
            charts: Charts::Jobs,
            axes: Vec::new(),
            stages: Vec::new(),
        }
    }

    /// Another title where `parameter` is given.
    pub(super) fn titled_when(mut self, parameter: &'static str, text: &'static str) -> Self {
        let title = Title {
            when: Some(parameter),
            text,
        };
        self.titles.insert(0, title);
        self
    }
}
