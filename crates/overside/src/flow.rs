//! `overside flow`.

mod bench;
mod bench_service;
mod bench_text;
mod enlarge;
mod generate;
mod input;
mod method;
mod output;
mod partition;
mod ray;
mod run;
mod run_text;
mod serve;
mod suggest_key;
mod text;
mod tree;

use std::ffi::OsString;
use std::process::ExitCode;

use overside_log::LevelFilter;

use crate::logging::Verbosity;
use crate::{exit, python, system};

/// Partition, repack, make and serve Arrow tables, and find tracks in them
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: FlowCommand,
}

#[derive(clap::Subcommand)]
enum FlowCommand {
    Bench(Box<bench::Arguments>),
    BenchService(Box<bench_service::Arguments>),
    Enlarge(Box<enlarge::Arguments>),
    Generate(Box<generate::Arguments>),
    Partition(Box<partition::Arguments>),
    Run(Box<run::Arguments>),
    Serve(Box<serve::Arguments>),
    SuggestKey(Box<suggest_key::Arguments>),
    Tree(Box<tree::Arguments>),
    /// Serve tables with projection and predicate pushed down
    #[command(disable_help_flag = true)]
    ServeTable(PythonArguments),
}

/// What Python's part of the command reads itself.
#[derive(clap::Args)]
struct PythonArguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

pub fn run(arguments: &Arguments) -> ExitCode {
    match &arguments.command {
        FlowCommand::Bench(arguments) => {
            started("bench", &arguments.verbosity, || bench::run(arguments))
        }
        FlowCommand::BenchService(arguments) => {
            started("bench-service", &arguments.verbosity, || {
                bench_service::run(arguments)
            })
        }
        FlowCommand::Enlarge(arguments) => started("enlarge", &arguments.table.verbosity, || {
            enlarge::run(arguments)
        }),
        FlowCommand::Generate(arguments) => started("generate", &arguments.table.verbosity, || {
            generate::run(arguments)
        }),
        FlowCommand::Partition(arguments) => started("partition", &arguments.verbosity, || {
            partition::run(arguments)
        }),
        FlowCommand::Run(arguments) => started("run", &arguments.verbosity, || run::run(arguments)),
        FlowCommand::Serve(arguments) => serve::run(arguments),
        FlowCommand::SuggestKey(arguments) => started("suggest-key", &arguments.verbosity, || {
            suggest_key::run(arguments)
        }),
        FlowCommand::Tree(arguments) => {
            started("tree", arguments.verbosity(), || tree::run(arguments))
        }
        FlowCommand::ServeTable(PythonArguments { arguments }) => {
            let words = ["flow", "serve-table"].map(OsString::from);
            let words: Vec<OsString> = words.into_iter().chain(arguments.iter().cloned()).collect();
            python::hand_over("flow", &words)
        }
    }
}

/// Runs a command with its log, and says why it failed.
fn started(
    name: &str,
    verbosity: &Verbosity,
    run: impl FnOnce() -> Result<ExitCode, String>,
) -> ExitCode {
    system::keep_freed_memory();
    if let Err(code) = verbosity
        .clone()
        .start("flow", LevelFilter::WARN, exit::USAGE)
    {
        return code;
    }
    run().unwrap_or_else(|message| {
        complain!("overside flow {name}: {message}");
        ExitCode::from(exit::USAGE)
    })
}
