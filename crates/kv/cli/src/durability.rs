//! Persistence of a key-value store: the data that it keeps after it ends, and when they reach the
//! disk.

use std::path::{self, PathBuf};

use overside_kv::KeyHasher;
use overside_kv::clock::Clock;
use overside_kv::persistence::{Replicable, SyncPolicy, open_all};
use overside_kv::replica::{GroupMember, ReplicationLayer};
use overside_kv::server::{Memory, StorageBackend};
use overside_kv::store::Store;
use overside_kv_offload::agent::PersistenceRequest;
use overside_kv_offload::design::Layout;
use overside_kv_offload::partitions::KeptPartitions;
use overside_link::verbs::Side;

use super::limits::one_of;
use super::replica::ReplicaArguments;

#[derive(clap::Args)]
#[command(next_help_heading = "Durability")]
pub(super) struct Durability {
    /// Store everything in this directory, created if it does not exist; without it data is lost when the
    /// server ends. The agent of a DPU stores the DPU's data (`overside agent --kv-dir`), under a name that
    /// is written here
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    dir: Option<PathBuf>,
    /// Time at which writes reach the disk: before each reply (`always`), every second
    /// (`everysec`), when the kernel writes it (`no`); `snapshots`: at SAVE, BGSAVE and the end only
    #[arg(long, value_name = "WHEN", default_value = "everysec", requires = "dir", value_parser = one_of([
        ("always", Log(Some(SyncPolicy::Always))),
        ("everysec", Log(Some(SyncPolicy::EverySecond))),
        ("no", Log(Some(SyncPolicy::Never))),
        ("snapshots", Log(None)),
    ]))]
    sync: Log,
}

/// Policy by which logs are written to the disk; `None` if there are no logs.
#[derive(Clone, Copy)]
struct Log(Option<SyncPolicy>);

impl Durability {
    pub(super) fn directory(&self) -> Option<&PathBuf> {
        self.dir.as_ref()
    }

    /// Refuses a cache with a log: the keys that a cache drops depend on earlier reads, which are not in the
    /// log.
    pub(super) fn check(&self, is_cache: bool) -> Result<(), String> {
        let has_log = self.dir.is_some() && self.sync.0.is_some();
        match is_cache && has_log {
            true => {
                Err("--semantics cache has no log: add --sync snapshots, or leave --dir away"
                    .into())
            }
            false => Ok(()),
        }
    }

    /// The stores of all partitions of the host, each with what its directory holds. With `replication` each can
    /// have replicas and be one. And what an agent keeps of the DPU's.
    pub(super) fn open(
        &self,
        stores: Vec<Store>,
        layout: &Layout,
        hasher: &KeyHasher,
        clock: &Clock,
        replication: Option<&ReplicaArguments>,
    ) -> Result<(Partitions, Option<PersistenceRequest>), String> {
        let layers = Layers::new(stores.len(), replication)?;
        let now_ms = clock.start_ms();
        let Some(directory) = self.absolute()? else {
            let memory = |store| Memory::new(store, now_ms);
            let layered = |(number, store)| layers.around(number, memory(store), hasher, false);
            return Ok((stores.into_iter().enumerate().map(layered).collect(), None));
        };
        let there = layout.partitions_of(Side::Dpu).len();
        let kept = KeptPartitions::open(&directory, stores.len(), there);
        let KeptPartitions { here, elsewhere } = kept.map_err(|error| error.to_string())?;
        // The log says what was recovered.
        let opened = open_all(here.clone(), stores, self.sync.0, hasher, now_ms);
        let opened = opened.map_err(|error| error.with_remedy())?;
        let is_replica = replication.is_some_and(ReplicaArguments::is_replica);
        let mut layered = Vec::new();
        for (number, ((journaled, recovery), path)) in opened.into_iter().zip(here).enumerate() {
            if recovery.is_partial && !is_replica {
                return Err(format!(
                    "{} holds a part of another server's state: that copy was not completed; add \
                     --replica-of HOST:PORT to go on, or give another directory",
                    path.display()
                ));
            }
            layered.push(layers.around(number, journaled, hasher, recovery.is_partial));
        }
        let keeping = elsewhere.map(|elsewhere| PersistenceRequest {
            id: elsewhere.id,
            is_new: elsewhere.is_new,
            log: self.sync.0,
        });
        Ok((layered, keeping))
    }

    /// Records that the agent has stored the data.
    pub(super) fn confirm(&self) -> Result<(), String> {
        let confirmed = self.absolute()?.as_deref().map(KeptPartitions::confirm);
        confirmed.transpose().map(drop).map_err(|error| error.to_string())
    }

    fn absolute(&self) -> Result<Option<PathBuf>, String> {
        let absolute = self.dir.as_ref().map(path::absolute).transpose();
        absolute.map_err(|error| error.to_string())
    }
}

/// Partitions, in order.
type Partitions = Vec<Box<dyn StorageBackend + Send>>;

/// Layers of replication around partitions, if there are any.
struct Layers {
    members: Vec<GroupMember>,
    /// Backlog of each partition, in bytes.
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
    ) -> Box<dyn StorageBackend + Send> {
        let Some(member) = self.members.get(partition) else {
            return Box::new(backing);
        };
        let (member, backlog) = (member.clone(), self.backlog_bytes);
        let layer = ReplicationLayer::new(backing, member, hasher, backlog, is_partial);
        Box::new(layer)
    }
}
