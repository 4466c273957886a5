//! `overside agents`.

use std::path::PathBuf;
use std::process::ExitCode;

use overside_backends::agents::{Entry, Found, Inventory, ask};
use overside_config::{Error, LockedFile};
use overside_log::LevelFilter;
use serde_json::{Value as Json, json};

use crate::exit;
use crate::logging::Verbosity;

/// Add, list or remove agents whose devices can be used here
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "The devices of an agent are named NAME/DEVICE, as in `--device dpu0/cpu`."
)]
pub struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// Inventory of agents [default: $OVERSIDE_AGENTS, otherwise overside/agents.toml in the
    /// user's configuration directory]
    #[arg(long, value_name = "FILE", global = true, allow_hyphen_values = true)]
    inventory: Option<PathBuf>,
    #[command(flatten)]
    verbosity: Verbosity,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Add an agent, or change one
    Add {
        /// Name of the agent here, such as dpu0
        name: String,
        /// Host name or IP address, with or without a port
        address: String,
        /// Encrypt and authenticate with ca.pem, host.pem and host.key in DIR, which `overside
        /// agent keys` creates; required for an agent on another machine
        #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
        keys: Option<PathBuf>,
    },
    /// List agents and their devices
    List {
        /// Print everything as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove an agent
    Remove {
        /// Name of the agent
        name: String,
    },
}

/// What went wrong, and the exit code.
type Failure = (String, u8);

pub fn run(arguments: &Arguments) -> ExitCode {
    let verbosity = arguments.verbosity.clone();
    if let Err(code) = verbosity.start("agents", LevelFilter::WARN, exit::USAGE) {
        return code;
    }
    match answer(arguments) {
        Ok(text) => crate::print(&text),
        Err((message, code)) => {
            complain!("overside agents: {message}");
            ExitCode::from(code)
        }
    }
}

fn answer(arguments: &Arguments) -> Result<String, Failure> {
    let usage = |message: String| (message, exit::USAGE);
    let path = arguments.inventory.clone().or_else(Inventory::path);
    let path = path.ok_or_else(|| {
        usage("no place for the inventory: set OVERSIDE_AGENTS or HOME, or use --inventory".into())
    })?;
    let failed = |error: Error| usage(error.to_string());
    if let Action::List { json } = arguments.action {
        return Ok(list(&Inventory::read(&path).map_err(failed)?, json));
    }
    // Others may be adding agents at the same time.
    let file = LockedFile::lock(&path).map_err(failed)?;
    let mut inventory = Inventory::read(file.path()).map_err(failed)?;
    change(&mut inventory, &arguments.action)?;
    inventory.write(&file).map_err(failed)?;
    Ok(String::new())
}

fn change(inventory: &mut Inventory, action: &Action) -> Result<(), Failure> {
    let usage = |message: String| (message, exit::USAGE);
    match action {
        Action::List { .. } => {}
        Action::Add {
            name,
            address,
            keys,
        } => {
            let keys = (keys.as_ref().map(std::path::absolute).transpose())
                .map_err(|error| usage(format!("--keys: {error}")))?;
            let address = address.clone();
            (inventory.add(name, Entry { address, keys })).map_err(usage)?;
        }
        Action::Remove { name } => {
            if !inventory.remove(name) {
                let known: Vec<&str> = inventory.iter().map(|(name, _)| name).collect();
                let known = match known.is_empty() {
                    true => "there is none".into(),
                    false => format!("there are: {}", known.join(", ")),
                };
                let message = format!("no agent is called {name:?}; {known}");
                return Err((message, exit::ABSENT));
            }
        }
    }
    Ok(())
}

fn list(inventory: &Inventory, json: bool) -> String {
    let agents = ask(inventory);
    if json {
        let all: Vec<Json> = agents
            .iter()
            .map(|(name, entry, found)| to_json(name, entry, found))
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

fn to_json(name: &str, entry: &Entry, found: &Result<Found, String>) -> Json {
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
