//! All verbs: native ones, and those of Python, which `crates/py/verbs` declares.

mod generated;
mod groups;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};

#[cfg(feature = "flow")]
use overside_flow_cli as flow;
#[cfg(feature = "kv")]
use overside_kv_cli as kv;

use overside_command::python;

use crate::{agent, agents, compress, decompress, devices, matching};

/// Verbs that are built with the feature of the same name.
const OPTIONAL: [&str; 2] = ["flow", "kv"];

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
pub(crate) enum Verb {
    Agent(agent::Arguments),
    Agents(agents::Arguments),
    Completions(generated::CompletionsArguments),
    Compress(compress::Arguments),
    Decompress(decompress::Arguments),
    Devices(devices::Arguments),
    #[cfg(feature = "flow")]
    Flow(flow::Arguments<overside_python_verbs::FlowVerb>),
    #[cfg(feature = "kv")]
    Kv(kv::Arguments),
    Manual(generated::ManualArguments),
    Match(matching::Arguments),
    #[command(flatten)]
    Python(overside_python_verbs::Verb),
}

impl Verb {
    pub(crate) fn run(self) -> ExitCode {
        match self {
            Self::Agent(arguments) => agent::run(&arguments),
            Self::Agents(arguments) => agents::run(&arguments),
            Self::Completions(arguments) => generated::completions(&arguments),
            Self::Compress(arguments) => compress::run(arguments),
            Self::Decompress(arguments) => decompress::run(arguments),
            Self::Devices(arguments) => devices::run(&arguments),
            #[cfg(feature = "flow")]
            Self::Flow(arguments) => flow::run(&arguments),
            #[cfg(feature = "kv")]
            Self::Kv(arguments) => kv::run(&arguments),
            Self::Manual(arguments) => generated::manual(&arguments),
            Self::Match(arguments) => matching::run(arguments),
            Self::Python(_) => python::hand_over(),
        }
    }
}

/// Returns `true` if there is such a verb.
pub(crate) fn is_known(verb: &str) -> bool {
    Verb::has_subcommand(verb)
}

/// Returns `true` if this program could implement `verb`, but was built without it.
pub(crate) fn is_left_out(verb: &str) -> bool {
    OPTIONAL.contains(&verb) && !is_known(verb)
}

/// Returns the whole command line.
fn everything() -> Command {
    let command = CommandLine::command();
    let template = groups::template(&command);
    command.help_template(template)
}

/// Parses a command line without the program's name.
pub(crate) fn parse(arguments: &[OsString]) -> Result<Verb, Error> {
    let mut command = everything();
    let words = std::iter::once("overside".into()).chain(arguments.iter().cloned());
    let suggest = |error| suggest(error, arguments.first());
    let mut matches = (command.try_get_matches_from_mut(words)).map_err(suggest)?;
    let parsed = CommandLine::from_arg_matches_mut(&mut matches);
    parsed.map(|line| line.verb).map_err(|error| error.format(&mut command))
}

/// Adds the most similar verb to an error, also if two letters are exchanged.
fn suggest(mut error: Error, first: Option<&OsString>) -> Error {
    let word = first.and_then(|word| word.to_str()).unwrap_or_default();
    let invalid = error.get(ContextKind::InvalidSubcommand);
    let is_verb = invalid == Some(&ContextValue::String(word.into()));
    if error.kind() == ErrorKind::InvalidSubcommand && is_verb {
        let command = CommandLine::command();
        let names = command.get_subcommands().map(|verb| verb.get_name().to_owned());
        let names: Vec<String> = names.collect();
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
        everything().debug_assert();
    }

    #[test]
    fn each_verb_stands_in_one_group() {
        let command = everything();
        let mut verbs: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        verbs.push("help");
        let mut grouped: Vec<&str> = groups::GROUPS
            .iter()
            .flat_map(|(_, names)| *names)
            .copied()
            .filter(|verb| !is_left_out(verb))
            .collect();
        verbs.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, verbs);
    }
}
