//! `overside kv cluster`: which server of a cluster owns which hash slots.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use overside_kv::directory::{Assignment, DirectoryError, Etcd, SlotTable, View};
use overside_kv::partition::SLOTS;
use overside_log::LevelFilter;
use serde_json::json;

use super::directory::DirectoryUrl;
use super::endpoints::Listing;
use super::limits::SlotList;
use overside_command::{complain, exit, line, logging::Verbosity, print_result};

/// Time between two looks at slots that move.
const PAUSE: Duration = Duration::from_millis(200);

/// Show and change which server of a cluster owns which hash slots
#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(clap::Subcommand)]
enum ClusterCommand {
    Status(StatusArguments),
    Share(ShareArguments),
    Move(MoveArguments),
}

/// Show the servers of a cluster and their slots
#[derive(clap::Args)]
#[command(after_help = "Example: overside kv cluster status --directory etcd://127.0.0.1:2379")]
struct StatusArguments {
    #[command(flatten)]
    common: Common,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// Divide the slots that nobody owns evenly among the registered servers
#[derive(clap::Args)]
#[command(after_help = "Example: overside kv cluster share --directory etcd://127.0.0.1:2379")]
struct ShareArguments {
    #[command(flatten)]
    common: Common,
}

/// Move slots with their keys to a server, while clients use them
#[derive(clap::Args)]
#[command(after_help = "\
The owners of the slots move them, 16 at a time, and the command waits for that. If it is interrupted, they go on. \
Slots that are still on their way stay where they are if they are moved to their owner.

Examples:
  overside kv cluster move 0-99 --to b --directory etcd://127.0.0.1:2379
  overside kv cluster move 7 --to c --without-keys --directory etcd://127.0.0.1:2379")]
struct MoveArguments {
    /// Slots, such as 0-99,500
    slots: SlotList,
    /// Name of their new owner
    #[arg(long, value_name = "NAME")]
    to: String,
    /// Make it their owner at once, without keys: for slots of a server that will not come back
    #[arg(long)]
    without_keys: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
struct Common {
    #[command(flatten)]
    directory: DirectoryUrl,
    #[command(flatten)]
    verbosity: Verbosity,
}

/// Reason why a cluster was not changed.
enum Failure {
    Usage(String),
    Directory(DirectoryError),
}

impl From<DirectoryError> for Failure {
    fn from(error: DirectoryError) -> Self {
        Self::Directory(error)
    }
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let (name, common) = match &arguments.command {
        ClusterCommand::Status(status) => ("status", &status.common),
        ClusterCommand::Share(share) => ("share", &share.common),
        ClusterCommand::Move(moving) => ("move", &moving.common),
    };
    let verbosity = common.verbosity.clone();
    if let Err(code) = verbosity.start("kv", LevelFilter::WARN, exit::USAGE) {
        return code;
    }
    let location = common.directory.location().map_err(Failure::Usage);
    let done = location.map(Etcd::new).and_then(|etcd| match &arguments.command {
        ClusterCommand::Status(status) => show(&etcd, status.json),
        ClusterCommand::Share(_) => share(&etcd).and_then(|()| show(&etcd, false)),
        ClusterCommand::Move(moving) => move_slots(&etcd, moving).and_then(|()| show(&etcd, false)),
    });
    let (message, code) = match done {
        Ok(code) => return code,
        Err(Failure::Usage(message)) => (message, exit::USAGE),
        Err(Failure::Directory(error)) => (error.to_string(), exit::ABSENT),
    };
    complain!("overside kv cluster {name}: {message}");
    ExitCode::from(code)
}

/// Names of the servers that are registered.
fn registered(view: &View) -> BTreeSet<&str> {
    let members = view.endpoints.iter().filter(|one| one.is_in_cluster);
    members.map(|one| &*one.server).collect()
}

fn show(etcd: &Etcd, as_json: bool) -> Result<ExitCode, Failure> {
    let listing = Listing::read(etcd)?;
    let (table, _) = SlotTable::read(etcd)?;
    let ranges = table.ranges();
    let to_json = || {
        let slots = ranges.iter().map(|(first, last, one)| {
            json!({"first": first, "last": last, "owner": *one.owner, "to": one.to.as_deref(),
                   "from": one.from.as_deref()})
        });
        let mut shown = listing.to_json();
        (shown["schema"], shown["slots"]) = (json!("kv-cluster/2"), slots.collect());
        shown
    };
    let to_text = || {
        let mut text = listing.to_text();
        for (first, last, one) in &ranges {
            let is_there = listing.endpoints.iter().any(|(end, _)| *end.server == *one.owner);
            let absent = if is_there { "" } else { ", not registered" };
            let to = one.to.as_ref().map(|to| format!(", moves to {to}")).unwrap_or_default();
            let from = one.from.as_ref().map(|from| format!(", moved from {from}"));
            let from = from.unwrap_or_default();
            line!(text, "slots {first}-{last}: {}{absent}{to}{from}", one.owner);
        }
        match usize::from(SLOTS) - table.iter().count() {
            0 => {}
            unowned => line!(text, "{unowned} slots have no owner: see overside kv cluster share"),
        }
        text
    };
    Ok(print_result(as_json, to_json, to_text))
}

/// Gives each server a part of the slots that nobody owns.
fn share(etcd: &Etcd) -> Result<(), Failure> {
    let (view, _) = View::read(etcd)?;
    let names: Vec<Arc<str>> = registered(&view).into_iter().map(Into::into).collect();
    if names.is_empty() {
        return Err(Failure::Usage(
            "no server of a cluster is registered: start some with `overside kv serve --cluster`"
                .into(),
        ));
    }
    SlotTable::update(etcd, |table| {
        let unowned: Vec<u16> = (0..SLOTS).filter(|slot| table.get(*slot).is_none()).collect();
        let parts = unowned.chunks(unowned.len().div_ceil(names.len()).max(1));
        for (part, name) in parts.zip(&names) {
            part.iter().for_each(|slot| table.set(*slot, Assignment::of(Arc::clone(name))));
        }
        Ok(())
    })
    .map(|_| ())
}

/// Makes owners move slots, and waits until they have.
fn move_slots(etcd: &Etcd, arguments: &MoveArguments) -> Result<(), Failure> {
    let (view, _) = View::read(etcd)?;
    let there = registered(&view);
    let to: Arc<str> = arguments.to.as_str().into();
    if !there.contains(&*to) {
        return Err(Failure::Usage(format!("no server of a cluster is registered as {to}")));
    }
    SlotTable::update(etcd, |table| {
        for slot in &arguments.slots.0 {
            let before =
                table.get(*slot).cloned().unwrap_or_else(|| Assignment::of(Arc::clone(&to)));
            let is_there = there.contains(&*before.owner);
            let after = match () {
                () if before.owner == to => Assignment { to: None, ..before },
                () if arguments.without_keys && is_there => {
                    let owner = &before.owner;
                    return Err(Failure::Usage(format!(
                        "{owner}, the owner of {slot}, is registered"
                    )));
                }
                () if arguments.without_keys => Assignment::of(Arc::clone(&to)),
                () => Assignment { to: Some(Arc::clone(&to)), ..before },
            };
            table.set(*slot, after);
        }
        Ok(())
    })?;
    loop {
        let table = match SlotTable::read(etcd) {
            Ok((table, _)) => table,
            // The servers wait for it, too.
            Err(DirectoryError::Unreachable { .. }) => {
                thread::sleep(PAUSE);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let is_done = |slot: &u16| {
            table.get(*slot).is_none_or(|one| one.to.as_ref() != Some(&to) && one.from.is_none())
        };
        if arguments.slots.0.iter().all(is_done) {
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
}
