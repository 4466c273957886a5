//! All verbs, native and Python's.

mod generated;
mod groups;
mod python_verbs;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::{agent, agents, compress, decompress, devices, flow, kv, matching};

/// Answered by `overside.__main__`; `overside.commands.arguments` has the same list.
const PYTHON: &[(&str, &str)] = &[
    (
        "doctor",
        "Find what this machine lacks and what makes it noisy, with fixes",
    ),
    ("list", "List tasks, variants, boxes, profiles or data sets"),
    ("validate", "Check a box"),
    ("plan", "Show a box's tests and their time without running"),
    ("run", "Run a box and write its report"),
    ("runs", "List runs, the newest first"),
    ("report", "Write a run's report, or print its summary"),
    (
        "advise",
        "Recommend what to run where, from measured and published figures",
    ),
    ("compare", "Compare two runs test by test"),
    (
        "audit",
        "Check that the harness catches planted errors, and measure its noise",
    ),
    (
        "facts",
        "Search published figures, and compare the model with them",
    ),
    (
        "clean",
        "Remove leftovers of runs, data sets and killed compressors",
    ),
    ("data", "List, make, fetch or verify data sets"),
    ("plugin", "Create a plug-in"),
    (
        "simulate",
        "Model a scenario: throughput, latency, cores, bottleneck",
    ),
    ("profile", "Show, compare, check or write device profiles"),
    (
        "calibrate",
        "Measure what the model needs to know of a device, and write its profile",
    ),
    (
        "fleet",
        "Run a box on the machines of a Ray cluster at once",
    ),
];

/// Measure, plan and run data-processing offload to a DPU
#[derive(Parser)]
#[command(
    name = "overside",
    version,
    max_term_width = 100,
    args_override_self = true,
    subcommand_value_name = "VERB",
    after_help = "Start with: overside run quick"
)]
struct CommandLine {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
pub enum Verb {
    Agent(agent::Arguments),
    Agents(agents::Arguments),
    Completions(generated::CompletionsArguments),
    Compress(compress::Arguments),
    Decompress(decompress::Arguments),
    Devices(devices::Arguments),
    Flow(flow::Arguments),
    Kv(kv::Arguments),
    Manual(generated::ManualArguments),
    Match(matching::Arguments),
}

impl Verb {
    pub fn run(self) -> ExitCode {
        match self {
            Self::Agent(arguments) => agent::run(&arguments),
            Self::Agents(arguments) => agents::run(&arguments),
            Self::Completions(arguments) => generated::completions(&arguments),
            Self::Compress(arguments) => compress::run(arguments),
            Self::Decompress(arguments) => decompress::run(arguments),
            Self::Devices(arguments) => devices::run(&arguments),
            Self::Flow(arguments) => flow::run(&arguments),
            Self::Kv(arguments) => kv::run(&arguments),
            Self::Manual(arguments) => generated::manual(&arguments),
            Self::Match(arguments) => matching::run(arguments),
        }
    }
}

/// Whether Python answers `verb`.
pub fn is_python(verb: &str) -> bool {
    PYTHON.iter().any(|(name, _)| *name == verb)
}

/// Whether `verb` is answered here.
pub fn is_native(verb: &str) -> bool {
    Verb::has_subcommand(verb)
}

/// The whole command line. Verbs in Python have the options that are in `python`, where they are
/// named; the others none.
fn everything(python: Vec<Command>) -> Command {
    let known = PYTHON
        .iter()
        .map(|(name, about)| Command::new(*name).about(*about));
    let mut command = CommandLine::augment_args(Command::new("overside")).subcommands(known);
    for verb in python {
        command = defined(command, verb);
    }
    let template = groups::template(&command);
    command.help_template(template)
}

/// Puts a verb in the place of the one of its name. A native verb keeps what Python does not answer.
fn defined(command: Command, verb: Command) -> Command {
    let name = verb.get_name().to_owned();
    let replace = |one: Command| match is_native(&name) {
        true => verb.get_subcommands().cloned().fold(one, defined),
        false => verb.clone(),
    };
    match command.find_subcommand(&name) {
        Some(_) => command.mut_subcommand(&name, replace),
        None => command,
    }
}

/// Reads a command line of a native verb, without the program's name.
pub fn parse(arguments: &[OsString]) -> Result<Verb, Error> {
    let mut command = everything(Vec::new());
    let words = std::iter::once("overside".into()).chain(arguments.iter().cloned());
    let suggest = |error| suggest(error, arguments.first());
    let mut matches = (command.try_get_matches_from_mut(words)).map_err(suggest)?;
    let parsed = CommandLine::from_arg_matches_mut(&mut matches);
    parsed
        .map(|line| line.verb)
        .map_err(|error| error.format(&mut command))
}

/// Names the verb that was meant, also where two letters are exchanged.
fn suggest(mut error: Error, first: Option<&OsString>) -> Error {
    let word = first.and_then(|word| word.to_str()).unwrap_or_default();
    let invalid = error.get(ContextKind::InvalidSubcommand);
    let is_verb = invalid == Some(&ContextValue::String(word.into()));
    if error.kind() == ErrorKind::InvalidSubcommand && is_verb {
        let native = CommandLine::command();
        let native = native.get_subcommands().map(Command::get_name);
        let python = PYTHON.iter().map(|(name, _)| *name);
        let names: Vec<String> = native.chain(python).map(str::to_owned).collect();
        if let Some(name) = overside_backends::closest(word, &names) {
            let names = ContextValue::Strings(vec![name]);
            error.insert(ContextKind::SuggestedSubcommand, names);
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_definitions_are_consistent() {
        CommandLine::command().debug_assert();
        everything(Vec::new()).debug_assert();
    }

    #[test]
    fn each_verb_stands_in_one_group() {
        let command = everything(Vec::new());
        let mut verbs: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        verbs.push("help");
        let mut grouped: Vec<&str> = groups::GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .collect();
        verbs.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, verbs);
    }
}
