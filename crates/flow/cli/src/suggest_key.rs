//! `overside flow suggest-key`.

use std::ffi::OsString;
use std::process::ExitCode;

use overside_flow::Error;
use overside_flow::operators::{KeyCandidate, KeySuggester, PartitionMethod, SAMPLE_ROWS};
use serde_json::{Value, json};

use super::input::{CsvArguments, Input};
use super::output;
use overside_command::{
    columns::columns, line, logging::Verbosity, options::Placement, print_result,
};

/// Find the key that divides a table most evenly
#[derive(clap::Args)]
#[command(after_help = "\
A sample of the rows is divided by runs of bits, by a hash and by ranges of each column.

Example: overside flow suggest-key positions.parquet --partitions 16")]
pub(super) struct Arguments {
    /// The table; - is stdin
    #[arg(value_name = "TABLE")]
    table: OsString,
    /// Partitions, 2 to 1024
    #[arg(short = 'n', long, value_name = "N", default_value = "16")]
    partitions: usize,
    /// Try only this column
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    key: Option<String>,
    /// Print all keys that were tried, not only the ten best
    #[arg(long)]
    all: bool,
    /// Print all keys that were tried as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    csv: CsvArguments,
    #[command(flatten)]
    placement: Placement,
    #[command(flatten)]
    pub verbosity: Verbosity,
}

/// Number of keys that are printed without `--all`.
const LISTED_MAX: usize = 10;

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let pool = output::pool(&arguments.placement)?;
    let mut input = Input::open(&arguments.table, &arguments.csv, &pool)?;
    let named = |error: Error| format!("{}: {error}", input.name);
    let schema = input.reader.schema().clone();
    if let Some(key) = &arguments.key {
        overside_flow::column(&schema, key).map_err(named)?;
    }
    let mut suggester =
        KeySuggester::new(schema, arguments.partitions, SAMPLE_ROWS).map_err(named)?;
    let mut rows = 0;
    for batch in &mut input.reader {
        let batch = batch.map_err(named)?;
        rows += batch.num_rows();
        suggester.push(&batch).map_err(named)?;
    }
    if rows == 0 {
        return Err(format!("{}: the table has no rows", input.name));
    }
    let mut candidates = suggester.finish().map_err(named)?;
    candidates.retain(|one| arguments.key.as_ref().is_none_or(|key| one.key.column == *key));
    let (json, text) = (|| to_json(arguments, &candidates), || to_text(arguments, &candidates));
    Ok(print_result(arguments.json, json, text))
}

fn to_json(arguments: &Arguments, candidates: &[KeyCandidate]) -> Value {
    let candidates = candidates.iter().map(|one| {
        json!({
            "key": one.key.column,
            "method": one.key.method.to_string(),
            "imbalance": one.imbalance,
            "empty_partitions": one.empty_partitions,
            "null_share": one.null_share,
        })
    });
    json!({
        "schema": "flow-suggest-key/1",
        "partitions": arguments.partitions,
        "candidates": candidates.collect::<Vec<_>>(),
    })
}

fn to_text(arguments: &Arguments, candidates: &[KeyCandidate]) -> String {
    let Some(best) = candidates.first() else {
        return "no column can be a key\n".into();
    };
    let mut text = String::new();
    line!(
        text,
        "{}: the largest of {} partitions has {:.2} times the mean",
        options(best),
        arguments.partitions,
        best.imbalance
    );
    let listed = if arguments.all { candidates.len() } else { LISTED_MAX };
    let head = ["key", "largest / mean", "empty", "without key"];
    let rows = candidates.iter().take(listed).map(|one| {
        [
            options(one),
            format!("{:.2}", one.imbalance),
            one.empty_partitions.to_string(),
            format!("{:.1} %", 100.0 * one.null_share),
        ]
    });
    text += &columns(head, rows);
    if candidates.len() > listed {
        line!(text, "and {} more; --all lists them", candidates.len() - listed);
    }
    text
}

/// Options of `overside flow partition` for a candidate.
fn options(candidate: &KeyCandidate) -> String {
    let method = candidate.key.method.to_string();
    let (name, value) = method.split_once(':').unwrap_or((&method, ""));
    let column = &candidate.key.column;
    match candidate.key.method {
        // Bounds may be long.
        PartitionMethod::Ranges { .. } if value.chars().any(char::is_whitespace) => {
            format!("--key {column} --{name} '{value}'")
        }
        _ => format!("--key {column} --{name} {value}"),
    }
}
