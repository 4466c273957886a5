//! `overside flow tree show`.

use std::path::PathBuf;
use std::process::ExitCode;

use overside_config::units;
use overside_flow::tree::TreeReader;
use serde_json::{Value, json};

use crate::input::local_path;
use crate::output;
use overside_command::{
    columns::columns, line, logging::Verbosity, options::Threads, print_result,
};

/// Show the contents of a tree by level
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The tree's directory
    #[arg(value_name = "DIR", value_parser = local_path())]
    directory: PathBuf,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub verbosity: Verbosity,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let pool = output::threads(Threads::default().count())?;
    let reader = TreeReader::open(&arguments.directory, &pool);
    let reader = reader.map_err(|error| error.to_string())?;
    Ok(print_result(arguments.json, || to_json(&reader), || to_text(&reader)))
}

pub(super) fn to_text(reader: &TreeReader) -> String {
    let (options, levels) = (reader.options(), reader.levels());
    let rows: u64 = levels.iter().map(|level| level.rows).sum();
    let in_leaves = levels.last().map_or(0, |level| level.rows);
    let mut text = String::new();
    line!(
        text,
        "{} rows, {:.0} % of them in leaves, by {} and {}; each byte was written {:.1} times",
        units::count(rows),
        100.0 * in_leaves as f64 / rows.max(1) as f64,
        options.id,
        options.time,
        reader.write_amplification()
    );
    let head = ["level", "nodes", "files", "rows", "values"];
    let named = levels.iter().enumerate().map(|(number, level)| {
        let name = match number {
            0 => "root".into(),
            number if number == levels.len() - 1 => "leaves".into(),
            number => number.to_string(),
        };
        let counts = [level.nodes, level.files, level.rows].map(units::count);
        let [nodes, files, rows] = counts;
        [name, nodes, files, rows, units::size(level.bytes as f64)]
    });
    text += &columns(head, named);
    text
}

fn to_json(reader: &TreeReader) -> Value {
    let options = reader.options();
    let levels = reader.levels().into_iter().map(|level| {
        json!({
            "nodes": level.nodes,
            "files": level.files,
            "rows": level.rows,
            "values_bytes": level.bytes,
        })
    });
    json!({
        "schema": "flow-tree/1",
        "id": options.id,
        "time": options.time,
        "key": options.key,
        "bits": options.bits,
        "capacity_bytes": options.capacity_bytes,
        "write_amplification": reader.write_amplification(),
        "levels": levels.collect::<Vec<_>>(),
    })
}
