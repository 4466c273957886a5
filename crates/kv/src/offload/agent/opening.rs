//! What a host asks an agent to run.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use overside_link::verbs::Side;
use overside_probe::dma::Link;
use serde::{Deserialize, Serialize};

use super::super::Optimizations;
use super::keeping::Keeping;
use crate::KeyHasher;
use crate::clock::Clock;
use crate::design::{ClientMemory, Design, Layout, SideMemory};
use crate::directory::entry::is_server_name;
use crate::partitions::KeptPartitions;
use crate::persistence;
use crate::server::{Backing, DriverKind, Limits, Memory, Password, Settings};
use crate::store::{MEMORY_MAX_BYTES, MEMORY_MIN_BYTES, Semantics, Store, StoreOptions};

/// Most addresses to listen at.
const ADDRESSES_MAX: usize = 16;
/// Most memory of connections.
const CLIENT_MEMORY_MAX: u64 = 1 << 40;
const CLIENTS_MAX: usize = 1_000_000;

/// What is to be run.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opening {
    /// Which engines run where, with so many cores of each side.
    pub design: Design,
    /// See `design`.
    pub host_cores: usize,
    /// See `design`.
    pub dpu_cores: usize,
    /// What requests go over.
    pub link: Link,
    /// Clients of the DPU, where it has some.
    pub clients: ClientLimits,
    /// The store, where the DPU has a part of it.
    pub store: StoreLimits,
    /// That part outlives the agent; `None`: it does not.
    pub keeping: Option<Keeping>,
    /// How sockets of clients are served.
    pub driver: DriverKind,
    /// Threads spin instead of sleeping.
    pub busy_poll: bool,
    /// How requests go over the link.
    pub optimizations: Optimizations,
    /// The server's name in a directory, for `INFO`.
    pub name: Option<String>,
    /// The host's time, in milliseconds since 1970: expiries are counted by its clock.
    pub now_ms: u64,
}

/// Who may connect to the DPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientLimits {
    /// Where.
    pub listen: Vec<SocketAddr>,
    /// SHA-256 digest of the password that they need.
    pub password: Option<[u8; 32]>,
    /// Most of them.
    pub count: usize,
    /// Memory of their connections.
    pub memory_bytes: u64,
}

/// What is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreLimits {
    /// Memory of all partitions, those of the host included.
    pub memory_bytes: u64,
    /// Drops the oldest values when memory is full, instead of refusing writes.
    pub is_cache: bool,
    /// Asks for huge pages.
    pub huge_pages: bool,
}

impl Opening {
    /// Whether an agent does this: the threads of it.
    pub(super) fn check(&self) -> Result<Layout, String> {
        let layout = self.design.layout(self.host_cores, self.dpu_cores);
        let layout = layout.ok_or_else(|| {
            format!(
                "design {} does not run with {} cores of the host and {} of the DPU",
                self.design.name(),
                self.host_cores,
                self.dpu_cores
            )
        })?;
        if layout.dpu.serving() > 0 {
            self.clients.check()?;
        }
        if !self.name.as_deref().is_none_or(is_server_name) {
            return Err("an impossible name".into());
        }
        let part = self.store.memory_bytes / layout.partitions() as u64;
        let sizes = MEMORY_MIN_BYTES as u64..=MEMORY_MAX_BYTES as u64;
        if layout.dpu.partitions() > 0 && !sizes.contains(&part) {
            return Err("impossible memory of the store".into());
        }
        if let Some(keeping) = &self.keeping {
            if layout.dpu.partitions() == 0 {
                return Err("the DPU has no keys that could be kept".into());
            }
            if self.store.is_cache && keeping.log.is_some() {
                return Err("a cache has no log".into());
            }
        }
        Ok(layout)
    }

    /// What the DPU needs for it.
    pub(super) fn memory(&self, layout: &Layout) -> SideMemory {
        let store = self.store.memory_bytes;
        let clients = ClientMemory::new(self.clients.memory_bytes, self.driver);
        layout.memory(Side::Dpu, store, clients)
    }

    /// The DPU's partitions, with what is kept of them in the agent's directory for `kept` stores.
    pub(super) fn stores(
        &self,
        layout: &Layout,
        hasher: &KeyHasher,
        clock: &Clock,
        kept: Option<&Path>,
    ) -> Result<Vec<Box<dyn Backing + Send>>, String> {
        let directory = (self.keeping.as_ref())
            .map(|keeping| keeping.directory(kept).map(|path| (path, keeping.log)))
            .transpose()?;
        let store = |_| {
            let store = Store::new(StoreOptions {
                memory_bytes: self.store.memory_bytes as usize / layout.partitions(),
                semantics: match self.store.is_cache {
                    true => Semantics::Cache,
                    false => Semantics::Store,
                },
                hasher: hasher.clone(),
                huge_pages: self.store.huge_pages,
            });
            store.map_err(|error| error.to_string())
        };
        let count = layout.dpu.partitions();
        let stores = (0..count).map(store).collect::<Result<Vec<_>, String>>()?;
        let now_ms = clock.start_ms();
        let Some((directory, log)) = directory else {
            let memory = |store| Box::new(Memory::new(store, now_ms)) as _;
            return Ok(stores.into_iter().map(memory).collect());
        };
        let kept = KeptPartitions::open(&directory, count, 0);
        let kept = kept.map_err(|error| error.to_string())?;
        let opened = persistence::open_all(kept.here, stores, log, hasher, now_ms);
        let opened = opened.map_err(|error| error.with_remedy())?;
        Ok((opened.into_iter())
            .map(|(store, _)| Box::new(store) as _)
            .collect())
    }

    /// How the DPU serves clients, if it does.
    pub(super) fn settings(&self, layout: &Layout) -> Option<Settings> {
        let clients = &self.clients;
        (layout.dpu.serving() > 0).then(|| Settings {
            tcp: clients.listen.clone(),
            password: clients.password.map(Password::from_digest),
            limits: Limits {
                clients: clients.count,
                memory_bytes: clients.memory_bytes as usize,
                ..Limits::default()
            },
            driver: self.driver,
            busy_poll: self.busy_poll,
            workers: layout.dpu.serving(),
            drain: Duration::from_secs(1),
            is_cache: self.store.is_cache,
            sends_early: self.optimizations.sends_early,
            design: self.design,
            name: self.name.clone(),
            ..Settings::default()
        })
    }
}

impl ClientLimits {
    fn check(&self) -> Result<(), String> {
        let open = |address: &&SocketAddr| !address.ip().to_canonical().is_loopback();
        if !(1..=ADDRESSES_MAX).contains(&self.listen.len()) {
            return Err(format!(
                "from 1 to {ADDRESSES_MAX} addresses can be listened at"
            ));
        }
        if let Some(address) = self.listen.iter().find(open)
            && self.password.is_none()
        {
            return Err(format!(
                "other machines can reach {address}: a password is required"
            ));
        }
        if !(1..=CLIENTS_MAX).contains(&self.count)
            || !(1 << 20..=CLIENT_MEMORY_MAX).contains(&self.memory_bytes)
        {
            return Err("impossible limits of clients".into());
        }
        Ok(())
    }
}
