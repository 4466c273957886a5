//! `overside agents`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use lexopt::Arg::{Long, Short, Value};
use overside_backends::agents::{Entry, Found, Inventory, ask};
use serde_json::{Value as Json, json};

use crate::{exit, options};

const HELP: &str = "\
Knows agents by name: their devices are used as NAME/DEVICE, as in `--device dpu0/cpu`.

Usage: overside agents add NAME ADDR [--keys DIR]
       overside agents list [--json]
       overside agents remove NAME

  --keys DIR        encrypt, with ca.pem, host.pem and host.key in DIR; `overside agent keys` makes
                    them; an agent on another machine takes them
  --inventory FILE  keep agents there; otherwise in $OVERSIDE_AGENTS, or overside/agents.toml below
                    the user's configuration
  --json            everything, for programs
";

const KNOWN: [&str; 3] = ["keys", "inventory", "json"];

#[derive(Default)]
struct Arguments {
    words: Vec<String>,
    keys: Option<PathBuf>,
    inventory: Option<PathBuf>,
    json: bool,
}

/// What went wrong, and the exit code.
type Wrong = (String, u8);

pub fn main(arguments: &[OsString]) -> ExitCode {
    match parse(arguments) {
        Ok(None) => crate::print(HELP),
        Ok(Some(all)) => match run(&all) {
            Ok(text) => crate::print(&text),
            Err((message, code)) => refuse(&message, code),
        },
        Err(message) => refuse(&message, exit::USAGE),
    }
}

fn refuse(message: &str, code: u8) -> ExitCode {
    complain!("overside agents: {message}");
    ExitCode::from(code)
}

/// `None` if help is asked for.
fn parse(arguments: &[OsString]) -> Result<Option<Arguments>, String> {
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut all = Arguments::default();
    while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
        match argument {
            Long("help") | Short('h') => return Ok(None),
            Long("keys") => all.keys = Some(path(&mut parser)?),
            Long("inventory") => all.inventory = Some(path(&mut parser)?),
            Long("json") => all.json = true,
            Long(option) => {
                let option = option.to_owned();
                return Err(options::unknown(
                    "agents",
                    &option,
                    &KNOWN.map(str::to_owned),
                ));
            }
            Short(option) => return Err(options::unknown("agents", &option.to_string(), &[])),
            Value(word) => {
                let word = word.into_string();
                let word = word.map_err(|word| format!("{} is not text", word.display()))?;
                all.words.push(word);
            }
        }
    }
    Ok(Some(all))
}

fn path(parser: &mut lexopt::Parser) -> Result<PathBuf, String> {
    parser
        .value()
        .map(PathBuf::from)
        .map_err(|error| error.to_string())
}

fn run(all: &Arguments) -> Result<String, Wrong> {
    let usage = |message: String| (message, exit::USAGE);
    let nowhere = "there is no place for agents: set OVERSIDE_AGENTS or HOME, or use --inventory";
    let path = all.inventory.clone().or_else(Inventory::path);
    let path = path.ok_or_else(|| usage(nowhere.into()))?;
    let read = || Inventory::read(&path).map_err(|error| usage(error.to_string()));
    let write = |inventory: &Inventory| {
        inventory
            .write(&path)
            .map_err(|error| usage(error.to_string()))
    };
    let words: Vec<&str> = all.words.iter().map(String::as_str).collect();
    match words[..] {
        ["add", name, address] => {
            let mut inventory = read()?;
            let absolute = |keys: &PathBuf| {
                std::path::absolute(keys).map_err(|error| usage(format!("--keys: {error}")))
            };
            let entry = Entry {
                address: address.into(),
                keys: all.keys.as_ref().map(absolute).transpose()?,
            };
            inventory.add(name, entry).map_err(usage)?;
            write(&inventory)?;
            Ok(String::new())
        }
        ["remove", name] => {
            let mut inventory = read()?;
            if !inventory.remove(name) {
                let known: Vec<&str> = inventory.iter().map(|(name, _)| name).collect();
                let known = match known.is_empty() {
                    true => "there is none".into(),
                    false => format!("there are: {}", known.join(", ")),
                };
                return Err((
                    format!("no agent is called {name:?}; {known}"),
                    exit::ABSENT,
                ));
            }
            write(&inventory)?;
            Ok(String::new())
        }
        ["list"] => Ok(listed(&read()?, all.json)),
        _ => Err(usage(format!("it takes add, list or remove\n\n{HELP}"))),
    }
}

fn listed(inventory: &Inventory, json: bool) -> String {
    let agents = ask(inventory);
    if json {
        let all: Vec<Json> = agents
            .iter()
            .map(|(name, entry, found)| for_programs(name, entry, found))
            .collect();
        return format!("{:#}\n", Json::from(all));
    }
    let mut text = String::new();
    for (name, entry, found) in agents {
        let found = match found {
            Ok(found) => format!("release {}, {}", found.release, names(&found).join(", ")),
            Err(reason) => format!("not available: {reason}"),
        };
        let keys = if entry.keys.is_some() {
            ""
        } else {
            " (not encrypted)"
        };
        text.push_str(&format!("{name}: {}{keys}: {found}\n", entry.address));
    }
    text
}

fn for_programs(name: &str, entry: &Entry, found: &Result<Found, String>) -> Json {
    let found_ok = found.as_ref().ok();
    json!({
        "name": name,
        "address": entry.address,
        "keys": entry.keys,
        "release": found_ok.map(|found| &found.release),
        "devices": found_ok.map(names),
        "unavailable": found.as_ref().err(),
    })
}

fn names(found: &Found) -> Vec<&str> {
    let devices = found.devices.iter();
    devices.map(|(info, _)| info.name.as_str()).collect()
}
