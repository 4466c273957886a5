//! `overside flow generate`.

use std::process::ExitCode;

use overside_flow::generate::Generated;

use super::output::TableArguments;

/// Make a table from a seed: snapshots of moving particles, or of ships
#[derive(clap::Args)]
#[command(after_help = "Example: overside flow generate particles particles.arrow --rows 1000000")]
pub(super) struct Arguments {
    /// particles (an id and nine floats) or ships (the 17 columns of AIS records)
    #[arg(value_name = "WHAT")]
    what: Generated,
    /// Rows
    #[arg(long, value_name = "N", default_value = "1000000")]
    rows: u64,
    /// Particles or ships; each has a row in each snapshot [default: a tenth of the rows]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=OBJECTS_MAX))]
    objects: Option<u32>,
    #[command(flatten)]
    pub table: TableArguments,
}

/// More would not differ: numbers of ships are drawn from fewer than a million for each country.
const OBJECTS_MAX: i64 = 1_000_000;

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let pool = arguments.table.pool()?;
    let tenth = (arguments.rows / 10).clamp(1, OBJECTS_MAX as u64) as usize;
    let objects = arguments.objects.map_or(tenth, |objects| objects as usize);
    let snapshots = arguments.what.snapshots(objects, arguments.table.seed).map(Ok);
    (arguments.table).write(&pool, &arguments.what.schema(), arguments.rows, snapshots)
}
