//! `overside flow tree compact`.

use std::path::PathBuf;
use std::process::ExitCode;

use overside_flow::tree::{TreeReader, TreeWriter};

use super::show;
use crate::input::local_path;
use crate::output;
use overside_command::{logging::Verbosity, options::Threads};

/// Pass all rows down to the leaves, and merge the files of each
#[derive(clap::Args)]
#[command(after_help = "\
Then DIR/*.parquet is the whole table: each object is in one leaf, by object and time.

Example: overside flow tree compact tracks")]
pub(super) struct Arguments {
    /// The tree's directory
    #[arg(value_name = "DIR", value_parser = local_path())]
    directory: PathBuf,
    #[command(flatten)]
    threads: Threads,
    #[command(flatten)]
    pub verbosity: Verbosity,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let failed = |error: overside_flow::Error| error.to_string();
    let pool = output::threads(arguments.threads.count())?;
    let reader = TreeReader::open(&arguments.directory, &pool).map_err(failed)?;
    let (schema, options) = (reader.schema(), reader.options());
    let tree = TreeWriter::open(&arguments.directory, schema, options, &pool);
    tree.and_then(|mut tree| tree.compact()).map_err(failed)?;
    let reader = TreeReader::open(&arguments.directory, &pool).map_err(failed)?;
    Ok(overside_command::print(&show::to_text(&reader)))
}
