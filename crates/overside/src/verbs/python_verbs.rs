//! The verbs that the Python package answers, as it defines them.

use std::io::Read;
use std::process::Stdio;

use clap::{Arg, ArgAction, Command};
use serde::Deserialize;

use crate::python;

/// What `overside.commands.definitions` prints.
const MODULE: &str = "overside.commands.definitions";
/// The longest that it may be, in bytes.
const DEFINITIONS_BYTES_MAX: u64 = 4 << 20;

#[derive(Deserialize)]
struct Definitions {
    verbs: Vec<VerbDefinition>,
}

#[derive(Deserialize)]
struct VerbDefinition {
    name: String,
    about: String,
    description: Option<String>,
    examples: Option<String>,
    arguments: Vec<ArgumentDefinition>,
    verbs: Vec<VerbDefinition>,
}

#[derive(Deserialize)]
struct ArgumentDefinition {
    name: String,
    /// `-q`, `--quiet`; none of what is known by its place.
    options: Vec<String>,
    /// What its value is called; `None` if it takes none.
    value: Option<String>,
    values: Values,
    choices: Option<Vec<String>>,
    help: String,
    heading: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Values {
    None,
    One,
    Optional,
    Any,
    Some,
}

/// Asks Python for its verbs.
///
/// # Errors
/// Why it does not answer, and the remedy.
pub fn read() -> Result<Vec<Command>, String> {
    let mut command = python::command(MODULE)?;
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| python::cannot_start(&command, &error))?;
    let mut text = String::new();
    let read = (child.stdout.take())
        .map(|stdout| stdout.take(DEFINITIONS_BYTES_MAX).read_to_string(&mut text));
    let status = child.wait().map_err(|error| error.to_string())?;
    if let Some(Err(error)) = read {
        return Err(error.to_string());
    }
    if !status.success() {
        return Err(format!("Python's part of the command ended with {status}"));
    }
    let definitions: Definitions = serde_json::from_str(&text)
        .map_err(|error| format!("Python's part of the command is of another version: {error}"))?;
    Ok(definitions.verbs.into_iter().map(Command::from).collect())
}

/// clap keeps names for as long as the process lives, which is not long.
fn kept(text: String) -> &'static str {
    text.leak()
}

impl From<VerbDefinition> for Command {
    fn from(verb: VerbDefinition) -> Self {
        let mut command = Self::new(kept(verb.name)).about(verb.about);
        if let Some(description) = verb.description {
            command = command.long_about(description);
        }
        if let Some(examples) = verb.examples {
            command = command.after_help(examples);
        }
        command
            .subcommand_required(!verb.verbs.is_empty())
            .args(verb.arguments.into_iter().map(Arg::from))
            .subcommands(verb.verbs.into_iter().map(Self::from))
    }
}

impl From<ArgumentDefinition> for Arg {
    fn from(definition: ArgumentDefinition) -> Self {
        // What is known by its place is given once; an option may be repeated.
        let action = match definition.options.is_empty() {
            true => ArgAction::Set,
            false => ArgAction::Append,
        };
        let mut arg = Self::new(kept(definition.name)).help(definition.help);
        for option in definition.options {
            arg = match option.strip_prefix("--") {
                Some(long) => arg.long(kept(long.to_owned())),
                None => arg.short(option.chars().nth(1)),
            };
        }
        if let Some(heading) = definition.heading {
            arg = arg.help_heading(kept(heading));
        }
        let Some(value) = definition.value else {
            return arg.action(ArgAction::Count);
        };
        arg = arg.value_name(kept(value)).action(action);
        if let Some(choices) = definition.choices {
            let choices: Vec<&str> = choices.into_iter().map(kept).collect();
            arg = arg.value_parser(choices);
        }
        match definition.values {
            Values::None => arg,
            Values::One => arg.num_args(1),
            Values::Optional => arg.num_args(0..=1),
            Values::Any => arg.num_args(0..),
            Values::Some => arg.num_args(1..),
        }
    }
}
