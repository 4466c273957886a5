//! What a key-value store keeps when it ends.

use std::path::{self, PathBuf};
use std::thread;

use overside_kv::KeyHasher;
use overside_kv::clock::Clock;
use overside_kv::design::Layout;
use overside_kv::partitions;
use overside_kv::persistence::{Journaled, PersistenceOptions, Replicable, SyncPolicy};
use overside_kv::replica::{GroupMember, ReplicationLayer};
use overside_kv::server::{Backing, Memory};
use overside_kv::store::Store;

use super::replica::ReplicaArguments;

#[derive(clap::Args)]
#[command(next_help_heading = "Durability")]
pub struct Durability {
    /// Keep everything in this directory, made if it is missing; without it data is lost when the
    /// server ends
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    dir: Option<PathBuf>,
    /// When what was written reaches the disk: before each reply (`always`), every second
    /// (`everysec`), when the kernel writes it (`no`); `snapshots`: at SAVE, BGSAVE and the end only
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        default_value_t = Sync::Everysec,
        requires = "dir"
    )]
    sync: Sync,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Sync {
    Always,
    Everysec,
    No,
    Snapshots,
}

impl From<Sync> for Option<SyncPolicy> {
    fn from(sync: Sync) -> Self {
        match sync {
            Sync::Always => Some(SyncPolicy::Always),
            Sync::Everysec => Some(SyncPolicy::EverySecond),
            Sync::No => Some(SyncPolicy::Never),
            Sync::Snapshots => None,
        }
    }
}

impl Durability {
    pub fn directory(&self) -> Option<&PathBuf> {
        self.dir.as_ref()
    }

    /// Refuses what cannot be kept rightly: what a cache drops depends on what was asked before, which a
    /// log does not say.
    pub fn check(&self, is_cache: bool, layout: &Layout) -> Result<(), String> {
        if self.dir.is_some() && layout.dpu.partitions() > 0 {
            return Err(
                "--dir keeps keys of the host, and with this design the DPU has keys, which are in its \
                 memory only: leave --dir away, or take a design whose store is on the host"
                    .into(),
            );
        }
        let has_log = self.dir.is_some() && Option::<SyncPolicy>::from(self.sync).is_some();
        match is_cache && has_log {
            true => Err(
                "--semantics cache has no log: add --sync snapshots, or leave --dir away".into(),
            ),
            false => Ok(()),
        }
    }

    /// The stores of all partitions, each with what its directory holds. With `replication` each can have
    /// replicas and be one.
    pub fn open(
        &self,
        stores: Vec<Store>,
        hasher: &KeyHasher,
        clock: &Clock,
        replication: Option<&ReplicaArguments>,
    ) -> Result<Vec<Box<dyn Backing + Send>>, String> {
        let layers = Layers::new(stores.len(), replication)?;
        let Some(directory) = &self.dir else {
            let memory = |store| Memory::new(store, clock.start_ms());
            let layered = |(number, store)| layers.around(number, memory(store), hasher, false);
            return Ok(stores.into_iter().enumerate().map(layered).collect());
        };
        let directory = path::absolute(directory).map_err(|error| error.to_string())?;
        let directories = partitions::directories(&directory, stores.len());
        let directories = directories.map_err(|error| error.to_string())?;
        let all = directories.into_iter().zip(stores).enumerate();
        let layers = &layers;
        // Reading takes as long as it takes one core to execute all of it.
        thread::scope(|scope| {
            let threads: Vec<_> = all
                .map(|(number, (directory, store))| {
                    scope.spawn(move || {
                        let (journaled, is_partial) =
                            self.open_one(directory, store, hasher, clock, replication)?;
                        Ok(layers.around(number, journaled, hasher, is_partial))
                    })
                })
                .collect();
            let opened = threads.into_iter().map(|thread| thread.join());
            opened
                .map(|opened| opened.expect("recovery does not panic"))
                .collect()
        })
    }

    fn open_one(
        &self,
        directory: PathBuf,
        store: Store,
        hasher: &KeyHasher,
        clock: &Clock,
        replication: Option<&ReplicaArguments>,
    ) -> Result<(Journaled<Store>, bool), String> {
        let named = directory.display().to_string();
        let options = PersistenceOptions {
            log: self.sync.into(),
            ..PersistenceOptions::new(directory)
        };
        let opened = Journaled::open(options, store, hasher, clock.start_ms());
        // The log says what was recovered.
        let (journaled, recovery) = opened.map_err(|error| match error.remedy() {
            remedy if remedy.is_empty() => error.to_string(),
            remedy => format!("{error}; {remedy}"),
        })?;
        let is_replica = replication.is_some_and(ReplicaArguments::is_replica);
        if recovery.is_partial && !is_replica {
            return Err(format!(
                "{named} holds a part of another server's state: that copy was not completed; add \
                 --replica-of HOST:PORT to go on, or give another directory"
            ));
        }
        Ok((journaled, recovery.is_partial))
    }
}

/// The layers of replication around partitions, if there are to be some.
struct Layers {
    members: Vec<GroupMember>,
    /// Of each.
    backlog_bytes: usize,
}

impl Layers {
    fn new(partitions: usize, replication: Option<&ReplicaArguments>) -> Result<Self, String> {
        let members = replication.map(|_| GroupMember::all(partitions));
        let members = members.transpose();
        let members = members.map_err(|error| format!("replication cannot be set up: {error}"))?;
        let backlog_bytes = replication.map_or(0, ReplicaArguments::backlog_bytes);
        Ok(Self {
            members: members.unwrap_or_default(),
            backlog_bytes: backlog_bytes / partitions.max(1),
        })
    }

    fn around<B: Replicable + Send + 'static>(
        &self,
        partition: usize,
        backing: B,
        hasher: &KeyHasher,
        is_partial: bool,
    ) -> Box<dyn Backing + Send> {
        let Some(member) = self.members.get(partition) else {
            return Box::new(backing);
        };
        let (member, backlog) = (member.clone(), self.backlog_bytes);
        let layer = ReplicationLayer::new(backing, member, hasher, backlog, is_partial);
        Box::new(layer)
    }
}
