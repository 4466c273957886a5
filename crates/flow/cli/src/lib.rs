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
    command: Verb<P>,
}

#[derive(Subcommand)]
enum Verb<P: Subcommand> {
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
        Verb::Bench(all) => started("bench", &all.verbosity, || bench::run(all)),
        Verb::BenchService(all) => {
            started("bench-service", &all.verbosity, || bench_service::run(all))
        }
        Verb::Enlarge(all) => started("enlarge", &all.table.verbosity, || enlarge::run(all)),
        Verb::Generate(all) => started("generate", &all.table.verbosity, || generate::run(all)),
        Verb::Partition(all) => started("partition", &all.verbosity, || partition::run(all)),
        Verb::Run(all) => started("run", &all.verbosity, || run::run(all)),
        Verb::Serve(all) => serve::run(all),
        Verb::SuggestKey(all) => started("suggest-key", &all.verbosity, || suggest_key::run(all)),
        Verb::Tree(all) => started("tree", all.verbosity(), || tree::run(all)),
        Verb::Python(_) => python::hand_over(),
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
