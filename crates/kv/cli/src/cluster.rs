//! `overside kv cluster`: which servers of a directory are a cluster.

use std::process::ExitCode;
use std::time::Duration;

use overside_kv::directory::Etcd;
use overside_kv::directory::cluster::{EXPIRY_MAX_S, Membership};
use overside_log::LevelFilter;
use serde_json::{Value, json};

use super::directory::DirectoryUrl;
use overside_command::{complain, exit, logging::Verbosity, options::time_within};

/// Make servers of a directory a cluster, among which clients divide keys
#[derive(clap::Args)]
#[command(after_help = "\
Without names and options it prints the cluster. Nothing moves keys from server to server: a store whose \
cluster changes has keys where no client looks for them.

Examples:
  overside kv cluster --directory etcd://127.0.0.1:2379 one two
  overside kv cluster --directory etcd://127.0.0.1:2379 --registered 10min")]
pub(super) struct Arguments {
    #[command(flatten)]
    directory: DirectoryUrl,
    /// Servers, by their names (`kv serve --name`), registered already or not
    #[arg(value_name = "NAME", group = "action")]
    members: Vec<String>,
    /// All caches that are registered, others in place of one that is gone; no value is stored for longer
    /// than this, in whole seconds
    #[arg(long, value_name = "TIME", group = "action",
          value_parser = time_within(1.0..=EXPIRY_MAX_S as f64))]
    registered: Option<Duration>,
    /// Forget the cluster; its servers and their keys stay as they are
    #[arg(long, group = "action")]
    remove: bool,
    /// Print the cluster as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    verbosity: Verbosity,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let verbosity = arguments.verbosity.clone();
    if let Err(code) = verbosity.start("kv", LevelFilter::WARN, exit::USAGE) {
        return code;
    }
    match change(arguments) {
        Ok(membership) => print(arguments, membership.as_ref()),
        Err((message, code)) => {
            complain!("overside kv cluster: {message}");
            ExitCode::from(code)
        }
    }
}

fn print(arguments: &Arguments, membership: Option<&Membership>) -> ExitCode {
    let text = match (arguments.json, membership) {
        (true, membership) => {
            let cluster = membership.map_or(Value::Null, to_json);
            json!({"schema": "kv-cluster/1", "cluster": cluster}).to_string()
        }
        (false, Some(membership)) => to_text(membership),
        (false, None) => "no cluster".into(),
    };
    overside_command::print(&format!("{text}\n"))
}

/// Executes the subcommand. Returns the resulting cluster.
fn change(arguments: &Arguments) -> Result<Option<Membership>, (String, u8)> {
    let location = (arguments.directory.location()).map_err(|message| (message, exit::USAGE))?;
    let key = Membership::key(&location);
    let etcd = Etcd::new(location);
    let failed = |error: overside_kv::directory::DirectoryError| (error.to_string(), exit::ABSENT);
    if arguments.remove {
        return match etcd.delete(&key).map_err(failed)? {
            true => Ok(None),
            false => Err(("there is no cluster".into(), exit::USAGE)),
        };
    }
    let membership = match arguments.registered {
        Some(expiry) => Membership::Registered { expiry_s: expiry.as_secs() },
        None if arguments.members.is_empty() => return Membership::read(&etcd).map_err(failed),
        None => Membership::Fixed(arguments.members.clone()),
    };
    (membership.check()).map_err(|message| (message, exit::USAGE))?;
    match etcd.create(&key, &membership.value()).map_err(failed)? {
        true => Ok(Some(membership)),
        false => Err(("there is a cluster already; --remove forgets it".into(), exit::USAGE)),
    }
}

/// A cluster for people.
pub(super) fn to_text(membership: &Membership) -> String {
    match membership {
        Membership::Fixed(members) => members.join(", "),
        Membership::Registered { expiry_s } => {
            format!("all registered caches, values for {expiry_s} s at most")
        }
    }
}

/// And for programs.
pub(super) fn to_json(membership: &Membership) -> Value {
    match membership {
        Membership::Fixed(members) => json!({"members": members}),
        Membership::Registered { expiry_s } => json!({"expiry_s": expiry_s}),
    }
}
