//! A box as it is written: the types that parse it and that its schema is made of.

use std::borrow::Cow;
use std::fmt;

use overside_config::parse_seconds;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;

/// Pattern for the names of boxes, tasks, parameters, metrics and nodes. The names become parts of
/// paths and of `--set task.parameter=value`. [`is_name`] checks the same pattern.
pub(super) const NAME_PATTERN: &str = "^[A-Za-z0-9][A-Za-z0-9_.-]*$";

/// Patterns for times and shares that are written with a unit. [`amount`] parses them.
pub(super) const TIME_PATTERN: &str = "^[0-9.]+(e[0-9]+)? ?(ns|us|ms|s|min|h)$";
pub(super) const SHARE_PATTERN: &str = "^[0-9.]+ ?%$";

/// The seconds of a time, or a share, that is written like a schema's pattern.
pub(super) fn amount(text: &str, pattern: &str) -> Option<f64> {
    match pattern {
        TIME_PATTERN => parse_seconds(text),
        SHARE_PATTERN => {
            let percent: f64 = text.strip_suffix('%')?.trim().parse().ok()?;
            percent.is_finite().then_some(percent / 100.0)
        }
        _ => None,
    }
}

/// Returns `true` if `text` matches [`NAME_PATTERN`].
pub(super) fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphanumeric())
        && bytes.all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
}

/// A box: what to measure, on what, and how closely.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BoxFile {
    /// Location of this schema, for editors; ignored.
    #[serde(rename = "$schema", default)]
    #[schemars(length(max = 4096))]
    pub _editor: Option<String>,
    /// The version of the format.
    pub schema: Version,
    /// The box's name; runs are named after it.
    #[schemars(length(min = 1, max = 64), regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// Purpose of the box, in a sentence or two.
    #[serde(default)]
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// The seed of the data that are made and of the order of the tests.
    #[serde(default)]
    #[schemars(range(max = 9_007_199_254_740_991_u64))]
    pub seed: u64,
    /// Tests to measure; each entry is a product of its parameters' values.
    #[schemars(length(min = 1, max = 1000))]
    pub tasks: Vec<TaskEntry>,
    /// The machines to measure on.
    #[serde(default = "local")]
    #[schemars(
        length(min = 1, max = 1000),
        inner(length(min = 1, max = 64), regex(pattern = NAME_PATTERN)),
        extend("uniqueItems" = true)
    )]
    pub nodes: Vec<String>,
    /// Effort of measuring.
    #[serde(default)]
    pub measure: Measure,
}

fn local() -> Vec<String> {
    vec!["local".into()]
}

/// The version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Version {
    /// The only one so far.
    #[serde(rename = "box/1")]
    Box1,
}

/// One task with its parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Task")]
pub(super) struct TaskEntry {
    /// The task's name, as `overside list tasks` shows it, or a plug-in's.
    #[schemars(length(min = 1, max = 64), regex(pattern = NAME_PATTERN))]
    pub task: String,
    /// Purpose of this entry.
    #[serde(default)]
    #[schemars(length(max = 4096))]
    pub description: Option<String>,
    /// Values of the parameters. Every combination is a test; missing parameters have their defaults.
    #[serde(default)]
    pub parameters: WrittenAxes,
    /// Combinations to leave out: a test is left out if, for one of these, each named parameter
    /// has one of the values given.
    #[serde(default)]
    #[schemars(length(max = 1000))]
    pub exclude: Vec<WrittenAxes>,
    /// The metrics to show; none means the task's own choice. All are stored in any case.
    #[serde(default)]
    #[schemars(
        length(max = 100),
        inner(length(min = 1, max = 64), regex(pattern = NAME_PATTERN)),
        extend("uniqueItems" = true)
    )]
    pub metrics: Vec<String>,
}

/// Effort of measuring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// The fewest rounds; a round is one fresh process that runs each test once. An interval
    /// needs six.
    #[schemars(range(min = 1, max = 1000))]
    pub rounds: u32,
    /// Seconds of untimed work before each sample, or a time such as "100 ms".
    #[serde(deserialize_with = "seconds")]
    #[schemars(schema_with = "time::<true, 3600>")]
    pub warmup_s: f64,
    /// Seconds that each sample is timed for, or a time such as "1s".
    #[serde(deserialize_with = "seconds")]
    #[schemars(schema_with = "time::<false, 3600>")]
    pub sample_s: f64,
    /// Seconds that measuring takes at most, or a time such as "10min".
    #[serde(deserialize_with = "seconds")]
    #[schemars(schema_with = "time::<false, 604_800>")]
    pub max_s: f64,
    /// Rounds are added, while there is time, until the 95 % interval of every median is at most
    /// this share of the median wide: 0.05 or "5%".
    #[serde(deserialize_with = "share")]
    #[schemars(schema_with = "share_schema")]
    pub target_interval: f64,
    /// The relative difference that `overside compare` takes for a change: 0.05 or "5%".
    #[serde(deserialize_with = "optional_share", skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "share_schema")]
    pub threshold: Option<f64>,
}

/// A number above 0, or of at least 0, or a text with a unit.
fn number_or_text(with_zero: bool, most: u32, pattern: &str) -> Schema {
    let least = match with_zero {
        true => "minimum",
        false => "exclusiveMinimum",
    };
    json_schema!({"anyOf": [
        {"type": "number", least: 0, "maximum": most},
        {"type": "string", "maxLength": 64, "pattern": pattern},
    ]})
}

fn time<const WITH_ZERO: bool, const MOST: u32>(_: &mut SchemaGenerator) -> Schema {
    number_or_text(WITH_ZERO, MOST, TIME_PATTERN)
}

fn share_schema(_: &mut SchemaGenerator) -> Schema {
    number_or_text(false, 1, SHARE_PATTERN)
}

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(f64),
    Text(String),
}

impl NumberOrText {
    fn read<E: Error>(self, pattern: &str) -> Result<f64, E> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Text(text) => {
                amount(&text, pattern).ok_or_else(|| E::custom("no amount with a unit"))
            }
        }
    }
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    NumberOrText::deserialize(deserializer)?.read(TIME_PATTERN)
}

fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    NumberOrText::deserialize(deserializer)?.read(SHARE_PATTERN)
}

fn optional_share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    share(deserializer).map(Some)
}

impl Default for Measure {
    fn default() -> Self {
        Self {
            rounds: 6,
            warmup_s: 0.1,
            sample_s: 0.2,
            max_s: 600.0,
            target_interval: 0.05,
            threshold: None,
        }
    }
}

/// Parameters and their values, in the order in which they are written.
#[derive(Debug, Default)]
pub(super) struct WrittenAxes(pub Vec<(String, WrittenAxis)>);

impl JsonSchema for WrittenAxes {
    fn schema_name() -> Cow<'static, str> {
        "Parameters".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "maxProperties": 64,
            "propertyNames": {"minLength": 1, "maxLength": 64, "pattern": NAME_PATTERN},
            "additionalProperties": generator.subschema_for::<WrittenAxis>(),
        })
    }
}

impl<'de> Deserialize<'de> for WrittenAxes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = WrittenAxes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of parameters")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WrittenAxes, A::Error> {
                let mut axes = Vec::new();
                while let Some(axis) = map.next_entry()? {
                    axes.push(axis);
                }
                Ok(WrittenAxes(axes))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

/// The values of one parameter: one value, a range, or a list of both.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Values")]
pub(super) enum WrittenAxis {
    /// One value.
    One(Scalar),
    /// A range of values.
    Range(Range),
    /// Several values.
    Many(#[schemars(length(min = 1, max = 100_000))] Vec<WrittenItem>),
}

/// One item in a list of values.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Item")]
pub(super) enum WrittenItem {
    /// One value, which may be a list itself, as for `patterns`.
    Value(ScalarOrList),
    /// A range of values.
    Range(Range),
}

/// A range of values.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Range {
    /// Powers of two from one exponent to another, both included: `[12, 14]` is 4096, 8192, 16384.
    #[schemars(inner(range(max = 40)))]
    pub pow2: [u32; 2],
}

/// A single value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    /// A truth value.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    Text(#[schemars(length(max = 65_536))] String),
}

/// A value of a parameter: single, or a list for parameters that take lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ScalarOrList {
    /// A single value.
    Scalar(Scalar),
    /// A list that is one value.
    List(#[schemars(length(max = 10_000))] Vec<Scalar>),
}

impl ScalarOrList {
    /// Returns the text, if the value is one.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Scalar(Scalar::Text(text)) => Some(text),
            _ => None,
        }
    }
}
