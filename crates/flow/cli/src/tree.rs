//! `overside flow tree`.

mod add;
mod compact;
mod query;
mod show;

use std::process::ExitCode;

use overside_command::logging::Verbosity;

/// Turn snapshots into tracks: a log-structured tree in a directory
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Snapshots have many objects at one time; a track is one object over time. The root of the tree absorbs \
rows until it has its capacity, then splits them among its children, and these among theirs. Leaves are \
Parquet files, sorted by object and time. What was committed is found, whatever level it is in.

Example: overside flow tree add tracks day1.parquet day2.parquet --id icao24 --time timestamp
         overside flow tree query tracks --id 4b1814 --from 2018-08-01T12:00"
)]
pub(super) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    Add(Box<add::Arguments>),
    Compact(Box<compact::Arguments>),
    Query(Box<query::Arguments>),
    Show(Box<show::Arguments>),
}

impl Arguments {
    pub(super) fn verbosity(&self) -> &Verbosity {
        match &self.action {
            Action::Add(arguments) => &arguments.verbosity,
            Action::Compact(arguments) => &arguments.verbosity,
            Action::Query(arguments) => &arguments.verbosity,
            Action::Show(arguments) => &arguments.verbosity,
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    match &arguments.action {
        Action::Add(arguments) => add::run(arguments),
        Action::Compact(arguments) => compact::run(arguments),
        Action::Query(arguments) => query::run(arguments),
        Action::Show(arguments) => show::run(arguments),
    }
}
