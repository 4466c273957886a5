//! Verbs that the Python package answers: their options, declared once.
//!
//! 1. [`definitions`] has a function for each verb, which declares it for clap. A value is parsed to its form in JSON.
//! 2. [`Verb`] and [`FlowVerb`] stand in the command beside its own verbs. So help, completions and manual pages come from
//!    one place, and a wrong word is refused before Python starts.
//! 3. [`parse`] reads the words behind `python -m overside`. Python receives each value under its option's name; a path is
//!    an object `{"$path": "..."}`, and a run, which may be a name or `@`, an object `{"$run": "..."}`.

#![forbid(unsafe_code)]

mod definitions;
mod values;

use std::ffi::OsString;

use clap::error::Error;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use overside_command::logging::Verbosity;
use overside_command::refusal::Refusal;
use overside_log::LevelFilter;
use serde_json::{Map, Value, json};

/// Default level of the log.
const LEVEL: LevelFilter = LevelFilter::WARN;
const QUIET: &str = "Log less, and print nothing but errors and results";

/// Verb that is in Python whole.
pub struct Verb(());

/// Part of the verb `flow` that is in Python.
pub struct FlowVerb(());

macro_rules! verbs {
    ($verb:ident, $definitions:expr) => {
        impl Subcommand for $verb {
            fn augment_subcommands(command: Command) -> Command {
                let verbs = $definitions.map(|definition| with_log(definition()));
                command.subcommands(verbs)
            }

            fn augment_subcommands_for_update(command: Command) -> Command {
                Self::augment_subcommands(command)
            }

            fn has_subcommand(name: &str) -> bool {
                let mut verbs = $definitions.iter().map(|definition| definition());
                verbs.any(|verb| verb.get_name() == name)
            }
        }

        impl FromArgMatches for $verb {
            fn from_arg_matches(_: &ArgMatches) -> Result<Self, Error> {
                Ok(Self(()))
            }

            fn update_from_arg_matches(&mut self, _: &ArgMatches) -> Result<(), Error> {
                Ok(())
            }
        }
    };
}

verbs!(Verb, definitions::VERBS);
verbs!(FlowVerb, definitions::FLOW);

fn with_log(verb: Command) -> Command {
    let log = Verbosity::augment_args(Command::new("log"));
    let verb = verb.args(log.get_arguments().cloned());
    // A shortened option of another verb could disable authentication: `agent --insecur`.
    let verb = verb.infer_long_args(true);
    verb.mut_arg("quiet", |quiet| quiet.help(QUIET))
}

/// Verbs of `python -m overside`, without their logs' options.
fn verbs() -> Vec<Command> {
    let flow = Command::new("flow").about("Serve Arrow tables");
    let flow = flow.subcommand_required(true).arg_required_else_help(true);
    let flow = flow.subcommands(definitions::FLOW.map(|definition| definition()));
    let whole = definitions::VERBS.iter().map(|definition| definition());
    whole.chain([flow]).collect()
}

/// Reads the words behind `python -m overside`: the verb, if they begin with one, and the answer as JSON, which is an
/// object with one key: `values`, `help`, `incomplete` or `wrong`.
pub fn parse(words: &[OsString]) -> (Option<String>, Value) {
    let verbs = verbs();
    let mut command = Command::new("overside")
        .about("The verbs of Overside that are written in Python")
        .version(env!("CARGO_PKG_VERSION"))
        .max_term_width(100)
        .args_override_self(true)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand_value_name("VERB")
        .subcommands(verbs.iter().cloned().map(with_log));
    let first = words.first().and_then(|word| word.to_str());
    let named = first.filter(|word| verbs.iter().any(|verb| verb.get_name() == *word));
    let line = std::iter::once("overside".into()).chain(words.iter().cloned());
    let answer = match command.try_get_matches_from_mut(line) {
        Ok(matches) => json!({"values": values(&verbs, &matches)}),
        Err(error) => json!(Refusal::of(&error, named, words)),
    };
    (named.map(str::to_owned), answer)
}

/// Returns the values of the verb and of its log options.
fn values(verbs: &[Command], matches: &ArgMatches) -> Option<Map<String, Value>> {
    let (name, own) = matches.subcommand()?;
    let verb = verbs.iter().find(|verb| verb.get_name() == name)?;
    let mut found = own_values(verb, own);
    found.insert("verb".into(), json!(name));
    if let Value::Object(log) = Verbosity::from_arg_matches(own).ok()?.settings(LEVEL) {
        found.extend(log);
    }
    Some(found)
}

/// Values of options by name; `action` is the verb's own verb, whose options are beside it.
fn own_values(verb: &Command, matches: &ArgMatches) -> Map<String, Value> {
    let value = |option: &Arg| {
        let id = option.get_id().as_str();
        let given = || matches.get_many::<Value>(id).into_iter().flatten();
        let value = match option.get_action() {
            ArgAction::SetTrue => json!(matches.get_flag(id)),
            ArgAction::Append => given().filter(|value| !value.is_null()).cloned().collect(),
            _ => json!(given().next()),
        };
        (id.replace('-', "_"), value)
    };
    let mut found: Map<String, Value> = verb.get_arguments().map(value).collect();
    if let Some((name, of_action)) = matches.subcommand()
        && let Some(action) = verb.find_subcommand(name)
    {
        found.insert("action".into(), json!(name));
        found.extend(own_values(action, of_action));
    }
    found
}
