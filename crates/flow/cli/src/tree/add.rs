//! `overside flow tree add`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use overside_config::units;
use overside_flow::Error;
use overside_flow::tree::{TreeKey, TreeOptions, TreeWriter, TreeWritten};
use serde_json::{Value, json};

use crate::input::{Columns, CsvArguments, Input, local_path};
use crate::output;
use overside_command::{
    line,
    logging::Verbosity,
    options::{Threads, size_within},
    print_result,
};

/// Absorb tables; a tree is made if there is none
#[derive(clap::Args)]
#[command(after_help = "\
The rows are safe, and can be found, when the command has ended, and already each time that the root is \
split. If it is ended before that, the tree is what it was after the last split.

Example: overside flow tree add tracks positions.parquet --id mmsi --time timestamp")]
pub(super) struct Arguments {
    /// The tree's directory
    #[arg(value_name = "DIR", value_parser = local_path())]
    directory: PathBuf,
    /// Tables to absorb: Arrow IPC, Parquet or CSV; - is stdin
    #[arg(value_name = "TABLE", required = true)]
    tables: Vec<OsString>,
    /// The column that identifies an object; needed for a new tree, as is --time
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    id: Option<String>,
    /// The column with the time
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    time: Option<String>,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    csv: CsvArguments,
    #[command(flatten)]
    pub verbosity: Verbosity,
}

/// Options of a new tree.
#[derive(clap::Args)]
#[command(next_help_heading = "A new tree")]
struct Shape {
    /// Part of the id that chooses a leaf: hash, or bits (its own lowest) [default: hash]
    #[arg(long, value_name = "KEY")]
    key: Option<TreeKey>,
    /// Bits that each level splits by: 2 make four children of a node [default: 2]
    #[arg(long, value_name = "N")]
    bits: Option<u32>,
    /// Levels below the root; all together split by at most 10 bits [default: 2]
    #[arg(long, value_name = "N")]
    levels: Option<u32>,
    /// Bytes that a node absorbs before it is split; up to four times as many are in memory then [default: 64MiB]
    #[arg(long, value_name = "SIZE", value_parser = size_within(1..=(4 << 30)))]
    capacity: Option<usize>,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let begin = Instant::now();
    let pool = output::threads(arguments.threads.count())?;
    let options = arguments.options()?;
    let mut tree: Option<(Columns, TreeWriter)> = None;
    for path in &arguments.tables {
        let input = Input::open(path, &arguments.csv, &pool)?;
        let named = |error: Error| format!("{}: {error}", input.name);
        let (columns, tree) = match &mut tree {
            Some(tree) => tree,
            none => {
                let columns = input.columns();
                let (directory, schema) = (&arguments.directory, &columns.schema);
                let opened = TreeWriter::open(directory, schema, &options, &pool);
                none.insert((columns, opened.map_err(named)?))
            }
        };
        columns.check(&input)?;
        for batch in input.reader {
            batch.and_then(|batch| tree.absorb(&batch)).map_err(named)?;
        }
    }
    let (_, mut tree) = tree.ok_or("no table")?;
    tree.commit().map_err(|error| error.to_string())?;
    let (written, seconds) = (tree.written(), begin.elapsed().as_secs_f64());
    let (json, text) = (|| to_json(&written, seconds), || to_text(&written, seconds));
    Ok(print_result(arguments.json, json, text))
}

impl Arguments {
    /// Returns the options of the existing tree, if there is one, with the given arguments applied.
    fn options(&self) -> Result<TreeOptions, String> {
        let found = TreeWriter::options(Path::new(&self.directory));
        let mut options = match (found.map_err(|error| error.to_string())?, &self.id, &self.time) {
            (Some(options), ..) => options,
            (None, Some(id), Some(time)) => TreeOptions::new(id, time),
            (None, ..) => return Err("a new tree needs --id COLUMN and --time COLUMN".into()),
        };
        options.id = self.id.clone().unwrap_or(options.id);
        options.time = self.time.clone().unwrap_or(options.time);
        options.key = self.shape.key.unwrap_or(options.key);
        options.bits = self.shape.bits.unwrap_or(options.bits);
        options.levels = self.shape.levels.unwrap_or(options.levels);
        let capacity = self.shape.capacity.map(|bytes| bytes as u64);
        options.capacity_bytes = capacity.unwrap_or(options.capacity_bytes);
        Ok(options)
    }
}

/// Number of times that each byte was written, on average. Bytes that are still in the root count
/// as well.
fn amplification(written: &TreeWritten) -> f64 {
    written.written_bytes as f64 / written.bytes.max(1) as f64
}

fn to_text(written: &TreeWritten, seconds: f64) -> String {
    let mut text = String::new();
    line!(
        text,
        "{} rows ({}) in {}, {}; each byte was written {:.1} times",
        units::count(written.rows),
        units::size(written.bytes as f64),
        units::duration(seconds),
        units::rate(written.bytes as f64 / seconds),
        amplification(written)
    );
    line!(text, "nodes split: {}; leaves merged: {}", written.splits, written.merges);
    text
}

fn to_json(written: &TreeWritten, seconds: f64) -> Value {
    json!({
        "schema": "flow-tree-add/1",
        "rows": written.rows,
        "values_bytes": written.bytes,
        "written_bytes": written.written_bytes,
        "write_amplification": amplification(written),
        "splits": written.splits,
        "merges": written.merges,
        "wall_ns": (seconds * 1e9) as u64,
    })
}
