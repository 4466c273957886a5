//! `overside kv endpoints`: lists the entries of a directory.

use std::process::ExitCode;

use overside_kv::directory::entry::endpoints_prefix;
use overside_kv::directory::{DirectoryError, Endpoint, Etcd};
use overside_log::LevelFilter;
use serde_json::{Value, json};

use super::directory::DirectoryUrl;
use overside_command::{
    columns::columns, complain, exit, line, logging::Verbosity, messages::shown, print_result,
};

/// List the servers that are registered in a directory
#[derive(clap::Args)]
#[command(after_help = "Example: overside kv endpoints --directory etcd://127.0.0.1:2379")]
pub(super) struct Arguments {
    #[command(flatten)]
    directory: DirectoryUrl,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    verbosity: Verbosity,
}

/// Entries of a directory.
#[derive(Default)]
pub(super) struct Listing {
    /// Endpoints, and seconds until their leases end.
    pub endpoints: Vec<(Endpoint, Option<u64>)>,
    /// Keys of entries that are something else.
    unknown: Vec<String>,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let verbosity = arguments.verbosity.clone();
    if let Err(code) = verbosity.start("kv", LevelFilter::WARN, exit::USAGE) {
        return code;
    }
    let location = match arguments.directory.location() {
        Ok(location) => location,
        Err(message) => {
            complain!("overside kv endpoints: {message}");
            return ExitCode::from(exit::USAGE);
        }
    };
    match Listing::read(&Etcd::new(location)) {
        Ok(listing) => print_result(arguments.json, || listing.to_json(), || listing.to_text()),
        Err(error) => {
            complain!("overside kv endpoints: {error}");
            ExitCode::from(exit::ABSENT)
        }
    }
}

impl Listing {
    pub(super) fn read(etcd: &Etcd) -> Result<Self, DirectoryError> {
        let location = etcd.location();
        let mut listing = Self::default();
        for entry in etcd.range(&endpoints_prefix(location))?.entries {
            match Endpoint::parse(location, &entry.key, &entry.value) {
                Ok(endpoint) => {
                    let remaining_s = match entry.lease {
                        0 => None,
                        lease => etcd.remaining_s(lease)?,
                    };
                    listing.endpoints.push((endpoint, remaining_s));
                }
                Err(_) => {
                    let key = String::from_utf8_lossy(&entry.key);
                    listing.unknown.push(shown(&*key));
                }
            }
        }
        Ok(listing)
    }

    pub(super) fn to_json(&self) -> Value {
        let endpoints = self.endpoints.iter().map(|(endpoint, lease_s)| {
            let mut listed = json!(endpoint);
            listed["lease_s"] = json!(lease_s);
            listed
        });
        json!({
            "schema": "kv-endpoints/1",
            "endpoints": endpoints.collect::<Vec<_>>(),
            "unknown": self.unknown,
        })
    }

    pub(super) fn to_text(&self) -> String {
        let head =
            ["server", "protocol", "address", "design", "side", "partitions", "semantics", "lease"];
        let rows = self.endpoints.iter().map(|(endpoint, lease_s)| {
            let listed = json!(endpoint);
            head.map(|name| match (&listed[name], lease_s) {
                (Value::Null, None) => "none".into(),
                (Value::Null, Some(seconds)) => format!("{seconds} s"),
                (Value::String(text), _) => text.clone(),
                (other, _) => other.to_string(),
            })
        });
        let mut text = match self.endpoints.is_empty() {
            true => "no server is registered\n".into(),
            false => columns(head, rows),
        };
        for key in &self.unknown {
            line!(text, "no entry of a server: {key}");
        }
        text
    }
}
