//! `overside flow enlarge`.

use std::ffi::OsString;
use std::process::ExitCode;

use overside_flow::Error;
use overside_flow::enlarge::{Enlarger, Roles};

use super::input::{CsvArguments, Input};
use super::output::TableArguments;

/// Enlarge a sample without repeating its rows
#[derive(clap::Args)]
#[command(after_help = "\
The sample is copied as often as it takes. In each copy ids, times and floating-point values are drawn \
anew from the sample's distributions, so that the table compresses and splits as the sample does.

Example: overside flow enlarge ais.parquet ships.arrow --rows 3000000 --id MMSI --time BaseDateTime")]
pub(super) struct Arguments {
    /// The sample; - is stdin
    #[arg(value_name = "SAMPLE")]
    sample: OsString,
    /// Rows
    #[arg(long, value_name = "N")]
    rows: u64,
    /// The column that identifies an object: integers or strings
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    id: Option<String>,
    /// The column with the time; each copy is later than the one before
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    time: Option<String>,
    /// Columns whose values are redrawn [default: all of floats]
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',', allow_hyphen_values = true)]
    values: Option<Vec<String>>,
    #[command(flatten)]
    pub table: TableArguments,
}

/// The most rows of a sample: all of it is in memory.
const SAMPLE_ROWS_MAX: usize = 10_000_000;

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let pool = arguments.table.pool()?;
    let mut input = Input::open(&arguments.sample, &CsvArguments::default(), &pool)?;
    let schema = input.reader.schema().clone();
    let named = |error: Error| format!("{}: {error}", input.name);
    let mut batches = Vec::new();
    let mut rows = 0;
    for batch in &mut input.reader {
        let batch = batch.map_err(named)?;
        rows += batch.num_rows();
        if rows > SAMPLE_ROWS_MAX {
            return Err(format!(
                "{}: more than {SAMPLE_ROWS_MAX} rows; take a smaller sample",
                input.name
            ));
        }
        batches.push(batch);
    }
    let roles = Roles {
        id: arguments.id.clone(),
        time: arguments.time.clone(),
        values: arguments.values.clone(),
    };
    let enlarger = Enlarger::new(&schema, &batches, &roles, arguments.table.seed).map_err(named)?;
    drop(batches);
    (arguments.table).write(&pool, &schema, arguments.rows, enlarger)
}
