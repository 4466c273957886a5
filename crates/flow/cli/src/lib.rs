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

use std::process::ExitCode;

use clap::Subcommand;
use overside_command::{complain, exit, logging::Verbosity, python, system};
use overside_log::LevelFilter;

/// Partition, repack, make and serve Arrow tables, and find tracks in them
#[derive(clap::Args)]
pub struct Arguments<P: Subcommand> {
    #[command(subcommand)]
    command: FlowCommand<P>,
}

#[derive(Subcommand)]
enum FlowCommand<P: Subcommand> {
    Bench(Box<bench::Arguments>),
    BenchService(Box<bench_service::Arguments>),
    Enlarge(Box<enlarge::Arguments>),
    Generate(Box<generate::Arguments>),
    Partition(Box<partition::Arguments>),
    Run(Box<run::Arguments>),
    Serve(Box<serve::Arguments>),
    SuggestKey(Box<suggest_key::Arguments>),
    Tree(Box<tree::Arguments>),
    /// Verbs that Python answers.
    #[command(flatten)]
    Python(P),
}

/// Runs the command, and returns its exit code.
pub fn run<P: Subcommand>(arguments: &Arguments<P>) -> ExitCode {
    match &arguments.command {
        FlowCommand::Bench(arguments) => {
            started("bench", &arguments.verbosity, || bench::run(arguments))
        }
        FlowCommand::BenchService(arguments) => {
            started("bench-service", &arguments.verbosity, || bench_service::run(arguments))
        }
        FlowCommand::Enlarge(arguments) => {
            started("enlarge", &arguments.table.verbosity, || enlarge::run(arguments))
        }
        FlowCommand::Generate(arguments) => {
            started("generate", &arguments.table.verbosity, || generate::run(arguments))
        }
        FlowCommand::Partition(arguments) => {
            started("partition", &arguments.verbosity, || partition::run(arguments))
        }
        FlowCommand::Run(arguments) => started("run", &arguments.verbosity, || run::run(arguments)),
        FlowCommand::Serve(arguments) => serve::run(arguments),
        FlowCommand::SuggestKey(arguments) => {
            started("suggest-key", &arguments.verbosity, || suggest_key::run(arguments))
        }
        FlowCommand::Tree(arguments) => {
            started("tree", arguments.verbosity(), || tree::run(arguments))
        }
        FlowCommand::Python(_) => python::hand_over(),
    }
}

/// Runs a command with its log, and says why it failed.
fn started(
    name: &str,
    verbosity: &Verbosity,
    run: impl FnOnce() -> Result<ExitCode, String>,
) -> ExitCode {
    system::keep_freed_memory(256 << 20, 0);
    if let Err(code) = verbosity.clone().start("flow", LevelFilter::WARN, exit::USAGE) {
        return code;
    }
    run().unwrap_or_else(|message| {
        complain!("overside flow {name}: {message}");
        ExitCode::from(exit::USAGE)
    })
}
