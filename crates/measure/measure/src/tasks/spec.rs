//! Declaration of a task: its parameters, its metrics, and how a report groups, titles and draws
//! its tests. This is its only definition: boxes are checked against it, `overside list` prints it,
//! and reports are made from it.

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
    pub operation: Option<String>,
    /// `true` if the task's results are verified. Results that are not verified are used for no
    /// advice and no verdict.
    pub verified: bool,
    /// Parameters in the order in which they are shown.
    pub parameters: Vec<Parameter>,
    /// Metrics; the first one is the default of a box.
    pub metrics: Vec<Metric>,
    /// Layout of the task's tests in a report.
    pub report: Report,
}

/// Type of a parameter's values.
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

/// Kind of object that the text of a parameter names.
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
    /// Words that are allowed instead of a number.
    pub words: Vec<&'static str>,
    /// Kind of object that the text names; `None` if it names none.
    pub refers_to: Option<Reference>,
    /// Links that may be given in place of a device, by themselves or after an agent's name.
    pub links: Vec<&'static str>,
    /// Names of the emulated cards that may be given although they run no jobs.
    pub cards: Vec<String>,
}

/// One of the values that a parameter can have.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    /// The value in a box.
    pub name: &'static str,
    /// The value in the title of a group.
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
            cards: Vec::new(),
        }
    }

    /// A text.
    pub(super) fn text(name: &'static str, doc: impl Into<String>) -> Self {
        Self::new(Kind::String, name, doc)
    }

    /// A list of at most `most` texts.
    pub(super) fn texts(name: &'static str, doc: &str, most: usize) -> Self {
        Self { most_values: Some(most), ..Self::new(Kind::Strings, name, doc) }
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
        Self { kind: Kind::Integer, ..Self::number(name, doc, min as f64, max as f64) }
    }

    /// A number.
    pub(super) fn number(name: &'static str, doc: &str, min: f64, max: f64) -> Self {
        Self { minimum: Some(min), maximum: Some(max), ..Self::new(Kind::Number, name, doc) }
    }

    /// True or false.
    pub(super) fn boolean(name: &'static str, doc: &str) -> Self {
        Self::new(Kind::Boolean, name, doc)
    }

    /// A list of core numbers.
    pub(super) fn cores(name: &'static str, doc: &str) -> Self {
        Self::new(Kind::Integers, name, doc)
    }

    /// Sets the value for boxes that give none.
    pub(super) fn default(mut self, value: impl Into<Value>) -> Self {
        self.default = value.into();
        self
    }

    /// Allows `all` for the number of cores of the measuring machine.
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

    /// Sets the kind of object that the text names.
    pub(super) fn names(mut self, reference: Reference) -> Self {
        self.refers_to = Some(reference);
        self
    }
}

/// Direction in which a metric is better.
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
    /// Unit of the metric; `-` for a ratio.
    pub unit: &'static str,
    /// Direction in which it is better.
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
    Metric { name: name.into(), unit, better: Better::Higher, description: description.into() }
}

/// A metric of which less is better.
pub(super) fn lower(
    name: impl Into<String>,
    unit: &'static str,
    description: impl Into<String>,
) -> Metric {
    Metric { better: Better::Lower, ..higher(name, unit, description) }
}

/// Returns the metrics of a latency histogram; `of` names the time that was measured.
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

/// Layout of a task's tests in a report: groups, titles and charts. A group contains the tests that
/// do the same work: those whose parameters are equal, except for `ways`, `size` and the parameters
/// of `labels`.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Titles of the work; the first title whose condition is met is used.
    pub titles: Vec<Title>,
    /// The parameters of how work is done, not of the work itself, in the order in which labels
    /// name them.
    pub ways: Vec<&'static str>,
    /// The parameter that is the size of the work.
    pub size: &'static str,
    /// The parameters by which the tests of a group differ: a label begins with them.
    pub labels: Labels,
    /// Libraries by the name in a sample, as people call them.
    pub variants: Vec<Choice>,
    /// Libraries that every system has: the fastest way is compared with them.
    pub references: &'static [&'static str],
    /// Engine of a card that may do the work, by the key of its costs in the model: such work has
    /// verdicts of its own. `None` if the model expects no card to have one.
    pub engine: Option<&'static str>,
    /// `true` if the operation undoes another one, as decompression does: its sources are made of data.
    pub restores: bool,
    /// Another device or library is a better way to do the same work, or a worse one; not so for
    /// the path between two sides.
    pub advised: bool,
    /// Kind of charts for a group.
    pub charts: Charts,
    /// Parameters that can be swept, with the titles of their axes; for [`Charts::Traffic`].
    pub axes: Vec<Choice>,
    /// Metrics that are parts of one time, in order, with their titles; for [`Charts::Traffic`].
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

/// Kind of charts for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Charts {
    /// Throughput, CPU cost, latencies and stages against the size; of tests without a throughput,
    /// the figures that the box requests.
    Jobs,
    /// The charts of `Jobs` with the median latency and the initiator's load, and figures by size
    /// and batch where there are many of both.
    Moves,
    /// Figures that the box requests against each parameter that is swept, with series of parallel jobs.
    Traffic,
}

impl Report {
    /// A report on tests called `title`.
    pub(super) fn new(title: &'static str, ways: &[&'static str]) -> Self {
        Self {
            titles: vec![Title { when: None, text: title }],
            ways: ways.into(),
            size: "buffer_size",
            labels: Labels::default(),
            variants: Vec::new(),
            references: &[],
            engine: None,
            restores: false,
            advised: true,
            charts: Charts::Jobs,
            axes: Vec::new(),
            stages: Vec::new(),
        }
    }

    /// Another title where `parameter` is given.
    pub(super) fn titled_when(mut self, parameter: &'static str, text: &'static str) -> Self {
        let title = Title { when: Some(parameter), text };
        self.titles.insert(0, title);
        self
    }
}
