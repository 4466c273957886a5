//! The box format `box/1`: the tests to measure, written as JSON.
//!
//! The types of `written` define the content of a box. The published JSON Schema is generated from them, and
//! boxes are checked against the same types, so the two cannot differ. [`parse`] reports all problems at
//! once, each with the JSON pointer of its place.
//!
//! Parameters and metrics are defined by the tasks and are not checked here.

mod check;
mod parsed;
mod written;

use std::sync::LazyLock;

use overside_config::{Document, Error, Limits};
use schemars::generate::SchemaSettings;
use serde::Serializer;
use serde_json::{Value, json};

pub use parsed::{Axes, Axis, Parsed, ParsedTask};
pub use written::{Measure, Scalar, ScalarOrList, Version};

/// The longest box that is read, in bytes.
pub const TEXT_BYTES_MAX: u64 = 4 << 20;

/// Maximum number of tests of a box, before `exclude`.
pub const TESTS_MAX: u64 = 100_000;

/// Maximum number of problems that are reported for one box.
const PROBLEMS_MAX: usize = 100;

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut schema = generator.into_root_schema_for::<written::BoxFile>().to_value();
    schema["title"] = "Overside box".into();
    schema
});

/// Reads a box.
///
/// # Errors
/// All problems, each with the JSON pointer (RFC 6901) of its place as key, in the order of the text:
/// first violations of the format (syntax, unknown keys, types, bounds); if there are none,
/// contradictions between the parts (empty ranges, repeated values, too many tests).
pub fn parse(text: &str) -> Result<Parsed, Vec<Error>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document = Document::json("", text, Limits::bytes(TEXT_BYTES_MAX))?;
    let locate = |errors: Vec<Error>| -> Vec<Error> {
        (errors.into_iter()).map(|error| document.locate(error)).collect()
    };
    check::check(document.root(), &SCHEMA).map_err(locate)?;
    // What passes the schema is what the types take: this is the reading proper.
    let written: written::BoxFile = document.read().map_err(|error| vec![error])?;
    let mut parsed = parsed::expand(written).map_err(locate)?;
    parsed.warnings = locate(parsed.warnings);
    Ok(parsed)
}

/// [`parse`] for callers that speak JSON: the parsed box, or the list of problems.
///
/// # Errors
/// The problems of [`parse`] as a JSON list of `{"pointer", "line", "column", "message",
/// "suggestion"}`.
pub fn parse_json(text: &str) -> Result<String, String> {
    match parse(text) {
        Ok(parsed) => Ok(json(&parsed)),
        Err(errors) => Err(json(&errors.iter().map(problem).collect::<Vec<_>>())),
    }
}

fn problem(error: &Error) -> Value {
    json!({
        "pointer": error.key,
        "line": error.position.map(|at| at.line),
        "column": error.position.map(|at| at.column),
        "message": error.problem,
        "suggestion": error.suggestion,
    })
}

fn problems<S: Serializer>(errors: &[Error], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(errors.iter().map(problem))
}

/// Extends a JSON pointer by one key.
fn join(pointer: &str, key: impl std::fmt::Display) -> String {
    let key = key.to_string().replace('~', "~0").replace('/', "~1");
    format!("{pointer}/{key}")
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
