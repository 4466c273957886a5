//! What a key-value store keeps when it ends.

use std::path::{self, PathBuf};
use std::thread;

use overside_kv::KeyHasher;
use overside_kv::clock::Clock;
use overside_kv::design::Layout;
use overside_kv::partitions;
use overside_kv::persistence::{Journaled, PersistenceOptions, Replicable, SyncPolicy};
use overside_kv::replica::ReplicationLayer;
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
        let Some(directory) = &self.dir else {
            let memory = |store| Memory::new(store, clock.start_ms());
            let layered = |store| layered(memory(store), hasher, replication, false);
            return stores.into_iter().map(layered).collect();
        };
        let directory = path::absolute(directory).map_err(|error| error.to_string())?;
        let directories = partitions::directories(&directory, stores.len());
        let directories = directories.map_err(|error| error.to_string())?;
        let all = directories.into_iter().zip(stores);
        // Reading takes as long as it takes one core to execute all of it.
        thread::scope(|scope| {
            let threads: Vec<_> = all
                .map(|(directory, store)| {
                    scope.spawn(|| self.open_one(directory, store, hasher, clock, replication))
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
    ) -> Result<Box<dyn Backing + Send>, String> {
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
        layered(journaled, hasher, replication, recovery.is_partial)
    }
}

/// With the layer of replication, if there is to be one.
fn layered<B: Replicable + Send + 'static>(
    backing: B,
    hasher: &KeyHasher,
    replication: Option<&ReplicaArguments>,
    is_partial: bool,
) -> Result<Box<dyn Backing + Send>, String> {
    let Some(replication) = replication else {
        return Ok(Box::new(backing));
    };
    let backlog_bytes = replication.backlog_bytes();
    let layer = ReplicationLayer::new(backing, hasher, backlog_bytes, is_partial);
    let layer = layer.map_err(|error| format!("replication cannot be set up: {error}"))?;
    Ok(Box::new(layer))
}
