//! `overside agents`.

mod deploy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use overside_backends::agents::{Entry, FoundAgent, Inventory, ask};
use overside_command::{complain, exit, logging::Verbosity};
use overside_config::{Error, LockedFile};
use overside_log::LevelFilter;
use serde_json::{Value as Json, json};

/// Add, list or remove agents whose devices can be used here
#[derive(clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
The devices of an agent are named NAME/DEVICE, as in `--device dpu0/cpu`.

Examples:
  overside agents deploy ubuntu@dpu0                  copies this command and keys, starts a service
  overside agents add dpu0 192.168.100.2 --keys keys  an agent that runs already
  overside agents list"
)]
pub(crate) struct Arguments {
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
    /// Add an agent, or change one, and test the connection
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
    /// Install an agent on another machine over ssh, start it, add it here and test the connection
    #[command(after_help = "\
Copies the command, keys and a systemd unit; root there is needed, or sudo without a password. \
What is there already is replaced, but for the options in /etc/overside/agent.env.

Examples:
  overside agents deploy ubuntu@dpu0
  overside agents deploy root@192.168.100.2 --name dpu0 --binary dist/overside-aarch64
  overside agents deploy dpu0 --user --listen 192.168.100.2   without root, as a process")]
    Deploy(deploy::Arguments),
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

/// Longest time that a newly installed agent may take to answer, and the pause between two attempts.
const STARTING: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);

/// Error message with the exit code.
type Failure = (String, u8);

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let verbosity = arguments.verbosity.clone();
    if let Err(code) = verbosity.start("agents", LevelFilter::WARN, exit::USAGE) {
        return code;
    }
    match answer(arguments) {
        Ok(text) => overside_command::print(&text),
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
    match &arguments.action {
        Action::List { json } => Ok(list(&Inventory::read(&path).map_err(failed)?, *json)),
        Action::Add { name, address, keys } => {
            let keys = (keys.as_ref().map(std::path::absolute).transpose())
                .map_err(|error| usage(format!("--keys: {error}")))?;
            let address = address.clone();
            let entry = add(&path, name, Entry { address, keys })?;
            // An agent may be added before it runs.
            let (line, is_there) = described(name, &entry, &try_connection(name, &entry)?);
            match is_there {
                true => Ok(line),
                false => {
                    complain!("added {line}");
                    Ok(String::new())
                }
            }
        }
        Action::Deploy(arguments) => deploy(arguments, &path),
        Action::Remove { name } => change(&path, |inventory| remove(inventory, name)),
    }
}

/// Changes the inventory.
fn change<T>(
    path: &Path,
    change: impl FnOnce(&mut Inventory) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let failed = |error: Error| (error.to_string(), exit::USAGE);
    // Other processes may add agents at the same time.
    let file = LockedFile::lock(path).map_err(failed)?;
    let mut inventory = Inventory::read(file.path()).map_err(failed)?;
    let changed = change(&mut inventory)?;
    inventory.write(&file).map_err(failed)?;
    Ok(changed)
}

/// Adds an agent. Returns its entry in the inventory.
fn add(path: &Path, name: &str, entry: Entry) -> Result<Entry, Failure> {
    change(path, |inventory| {
        (inventory.add(name, entry)).map_err(|message| (message, exit::USAGE))?;
        let added = inventory.get(name).cloned();
        added.ok_or_else(|| (format!("{name} was not added"), exit::INTERNAL))
    })
}

fn remove(inventory: &mut Inventory, name: &str) -> Result<String, Failure> {
    if inventory.remove(name) {
        return Ok(String::new());
    }
    let known: Vec<&str> = inventory.iter().map(|(name, _)| name).collect();
    let known = match known.is_empty() {
        true => "there is none".into(),
        false => format!("there are: {}", known.join(", ")),
    };
    let message = format!("no agent is called {name:?}; {known}");
    Err((message, exit::ABSENT))
}

/// Connects to an agent and returns its devices, or the reason for a failure as a sentence.
fn try_connection(name: &str, entry: &Entry) -> Result<Result<FoundAgent, String>, Failure> {
    let mut one = Inventory::default();
    (one.add(name, entry.clone())).map_err(|message| (message, exit::USAGE))?;
    let mut answers = ask(&one).into_iter();
    Ok(answers.next().map_or_else(|| Err("nobody was asked".into()), |(_, _, found)| found))
}

fn deploy(arguments: &deploy::Arguments, path: &Path) -> Result<String, Failure> {
    let deployed = (arguments.deploy(path)).map_err(|message| (message, exit::ABSENT))?;
    complain!("{}: {}", arguments.host, deployed.started);
    let name = &deployed.name;
    let entry = Entry { address: deployed.address, keys: Some(deployed.keys) };
    let entry = add(path, name, entry)?;
    let deadline = Instant::now() + STARTING;
    loop {
        let (line, is_there) = described(name, &entry, &try_connection(name, &entry)?);
        if is_there {
            return Ok(line);
        }
        if Instant::now() >= deadline {
            let message = format!("installed, but {line}  what it says: {}", deployed.log);
            return Err((message, exit::ABSENT));
        }
        std::thread::sleep(PAUSE);
    }
}

fn list(inventory: &Inventory, json: bool) -> String {
    let agents = ask(inventory);
    if json {
        let all: Vec<Json> =
            agents.iter().map(|(name, entry, found)| to_json(name, entry, found)).collect();
        return format!("{:#}\n", json!({"schema": "agents/1", "agents": all}));
    }
    let described = |(name, entry, found)| described(name, entry, &found).0;
    agents.into_iter().map(described).collect()
}

/// Returns a line about an agent, and `true` if it answers.
fn described(name: &str, entry: &Entry, found: &Result<FoundAgent, String>) -> (String, bool) {
    let keys = match entry.keys {
        Some(_) => "",
        None => " (not encrypted)",
    };
    let answer = match found {
        Ok(found) => format!("release {}, {}", found.release, names(found).join(", ")),
        Err(reason) => format!("not available: {reason}"),
    };
    let line = format!("{name}: {}{keys}: {answer}\n", entry.address);
    (line, found.is_ok())
}

fn to_json(name: &str, entry: &Entry, found: &Result<FoundAgent, String>) -> Json {
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

fn names(found: &FoundAgent) -> Vec<&str> {
    let devices = found.devices.iter();
    devices.map(|(info, _)| info.name.as_str()).collect()
}
