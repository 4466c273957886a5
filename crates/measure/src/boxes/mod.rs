//! The box format `box/1`: what to measure, written as JSON.
//!
//! The types of `written` say what a box may hold; the published JSON Schema is generated from
//! them and is also what a box is checked against, so the two cannot differ. [`parse`] reports
//! every problem that it finds at once, each with the JSON pointer of its place.
//!
//! Which parameters and metrics a task knows is the task's business and is not checked here.

mod check;
mod parsed;
mod problem;
mod tree;
mod written;

use std::sync::LazyLock;

use schemars::generate::SchemaSettings;
use serde_json::Value;

pub use overside_model::suggest;
pub use parsed::{Axes, Axis, Parsed, ParsedTask};
pub use problem::Problem;
pub use written::{Measure, Scalar, ScalarOrList, Version};

/// The longest box that is read, in bytes.
pub const MAX_TEXT_BYTES: usize = 4 << 20;

/// The most tests that a box may ask for, before `exclude`.
pub const MAX_TESTS: u64 = 100_000;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator
        .into_root_schema_for::<written::BoxFile>()
        .to_value();
    schema["title"] = "Overside box".into();
    schema
});

/// Reads a box.
///
/// # Errors
/// Everything that is wrong with it, in the order in which it stands in the text: first what the
/// format forbids (syntax, unknown keys, types, bounds); where there is none of that, what the
/// parts say of each other (empty ranges, repeated values, too many tests).
pub fn parse(text: &str) -> Result<Parsed, Vec<Problem>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let tree = tree::read(text)?;
    check::check(&tree, &SCHEMA)?;
    // What passes the schema is what the types take: this is the reading proper.
    let written: written::BoxFile = serde_json::from_str(text)
        .map_err(|error| vec![Problem::new("", format!("not a box: {error}"))])?;
    parsed::expand(written)
}

/// [`parse`] for callers that speak JSON: the parsed box, or the list of problems.
///
/// # Errors
/// The problems of [`parse`] as a JSON list of `{"pointer", "message", "suggestion"}`.
pub fn parse_json(text: &str) -> Result<String, String> {
    match parse(text) {
        Ok(parsed) => Ok(json(&parsed)),
        Err(problems) => Err(json(&problems)),
    }
}

/// The JSON Schema (2020-12) of a box, as text.
pub fn schema() -> String {
    let mut text = serde_json::to_string_pretty(&*SCHEMA).expect("a JSON value can be written");
    text.push('\n');
    text
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("maps with string keys and finite numbers can be written")
}
