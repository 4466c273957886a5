//! `overside flow generate`.

use std::path::PathBuf;
use std::process::ExitCode;

use overside_flow::generate::Generated;

use super::output::{self, Output, OutputArguments, Table};
use crate::logging::Verbosity;
use crate::options::Placement;

/// Make a table from a seed: snapshots of moving particles, or of ships
#[derive(clap::Args)]
#[command(after_help = "Example: overside flow generate particles particles.arrow --rows 1000000")]
pub struct Arguments {
    /// particles (an id and nine floats) or ships (the 17 columns of AIS records)
    #[arg(value_name = "WHAT")]
    what: Generated,
    /// The file to write
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Rows
    #[arg(long, value_name = "N", default_value = "1000000")]
    rows: u64,
    /// Particles or ships; each has a row in each snapshot [default: a tenth of the rows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=OBJECTS_MAX))]
    objects: Option<u32>,
    /// The same seed gives the same rows
    #[arg(long, value_name = "N", default_value = "0")]
    seed: u64,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    placement: Placement,
    #[command(flatten)]
    pub verbosity: Verbosity,
}

/// More would not differ: numbers of ships are drawn from fewer than a million for each country.
const OBJECTS_MAX: i64 = 1_000_000;

pub fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let pool = output::pool(&arguments.placement)?;
    let tenth = (arguments.rows / 10).clamp(1, OBJECTS_MAX as u64) as usize;
    let objects = arguments.objects.map_or(tenth, |objects| objects as usize);
    let output = Output::create(&arguments.file, arguments.output.force)?;
    let snapshots = arguments.what.snapshots(objects, arguments.seed);
    let mut table = Table::new(output, &arguments.what.schema(), &arguments.output, &pool)?;
    table.write_rows(arguments.rows, snapshots.map(Ok))?;
    table.finish()
}
