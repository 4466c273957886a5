//! What a key-value store keeps when it ends.

use std::path::{self, PathBuf};
use std::thread;

use overside_kv::KeyHasher;
use overside_kv::clock::Clock;
use overside_kv::partitions;
use overside_kv::persistence::{Journaled, PersistenceOptions, SyncPolicy};
use overside_kv::server::{Backing, Memory};
use overside_kv::store::Store;

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
    pub fn check(&self, is_cache: bool) -> Result<(), String> {
        let has_log = self.dir.is_some() && Option::<SyncPolicy>::from(self.sync).is_some();
        match is_cache && has_log {
            true => Err(
                "--semantics cache has no log: add --sync snapshots, or leave --dir away".into(),
            ),
            false => Ok(()),
        }
    }

    /// The stores of all partitions, each with what its directory holds.
    pub fn open(
        &self,
        stores: Vec<Store>,
        hasher: &KeyHasher,
        clock: &Clock,
    ) -> Result<Vec<Box<dyn Backing + Send>>, String> {
        let Some(directory) = &self.dir else {
            let memory = |store| Box::new(Memory::new(store, clock.start_ms())) as _;
            return Ok(stores.into_iter().map(memory).collect());
        };
        let directory = path::absolute(directory).map_err(|error| error.to_string())?;
        let directories = partitions::directories(&directory, stores.len());
        let directories = directories.map_err(|error| error.to_string())?;
        let all = directories.into_iter().zip(stores);
        // Reading takes as long as it takes one core to execute all of it.
        thread::scope(|scope| {
            let threads: Vec<_> = all
                .map(|(directory, store)| {
                    scope.spawn(|| self.open_one(directory, store, hasher, clock))
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
    ) -> Result<Box<dyn Backing + Send>, String> {
        let options = PersistenceOptions {
            log: self.sync.into(),
            ..PersistenceOptions::new(directory)
        };
        let opened = Journaled::open(options, store, hasher, clock.start_ms());
        // The log says what was recovered.
        let (journaled, _) = opened.map_err(|error| match error.remedy() {
            remedy if remedy.is_empty() => error.to_string(),
            remedy => format!("{error}; {remedy}"),
        })?;
        Ok(Box::new(journaled))
    }
}
