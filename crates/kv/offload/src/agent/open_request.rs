//! Request of a host to an agent: which engines to run, and how.

use std::path::Path;
use std::time::Duration;

use overside_link::agent::keys;
use overside_link::codec::clean;
use overside_link::verbs::Side;
use overside_probe::dma::Link;
use serde::{Deserialize, Serialize};

use super::super::Optimizations;
use super::EngineProbe;
use super::persistence_request::PersistenceRequest;
use crate::KeyHasher;
use crate::clock::Clock;
use crate::design::{ClientMemory, Design, Layout, SideMemory};
use crate::partitions::KeptPartitions;
use crate::store::{MEMORY_MAX_BYTES, MEMORY_MIN_BYTES, Semantics, Store, StoreOptions};
use overside_kv::server::{Addresses, Limits, Password, Settings, Steering, Tls};
use overside_kv_backend::Memory;
use overside_kv_backend::StorageBackend;
use overside_kv_backend::persistence;
use overside_kv_client::directory::entry::is_server_name;
use overside_kv_datagram::herd::RegionAddress;

/// Maximum number of addresses to listen at.
const ADDRESSES_MAX: usize = 16;
/// Maximum memory of connections.
const CLIENT_MEMORY_MAX: u64 = 1 << 40;
const CLIENTS_MAX: usize = 1_000_000;
/// Maximum number of descriptors of a queue.
const RX_QUEUE_MAX: usize = 1 << 16;
/// Bytes of a device's name that are shown.
const DEVICE_MAX_BYTES: usize = 128;

/// Engines to run, and their settings.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenRequest {
    /// Design: which engines run where, with the cores of each side.
    pub design: Design,
    /// See `design`.
    pub host_cores: usize,
    /// See `design`.
    pub dpu_cores: usize,
    /// Kind of link that carries the requests.
    pub link: Link,
    /// Clients of the DPU, where it has some.
    pub clients: Clients,
    /// The store, where the DPU has a part of it.
    pub store: StoreLimits,
    /// Name and rule by which that part is kept on disk; `None` if it ends with the agent.
    pub keeping: Option<PersistenceRequest>,
    /// Threads spin instead of sleeping.
    pub busy_poll: bool,
    /// Optimizations of the requests over the link.
    pub optimizations: Optimizations,
    /// The server's name in a directory, for `INFO`.
    pub name: Option<String>,
    /// The host's time, in milliseconds since 1970: expiries are counted by its clock.
    pub now_ms: u64,
}

/// Clients of the DPU: where they connect, and their limits.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// Addresses where they connect.
    pub addresses: Addresses,
    /// `true` if TLS clients need a certificate of the agent's authority.
    pub requires_certificates: bool,
    /// `true` if every sender that can reach the port may use the store without a password.
    pub trusts_port: bool,
    /// Receive descriptors for datagrams; 0: as many as the system allows.
    pub rx_queue: usize,
    /// `true` if datagrams are assigned to cores by their ports.
    pub by_ports: bool,
    /// SHA-256 digest of the password that they need.
    pub password: Option<[u8; 32]>,
    /// Maximum number of clients.
    pub count: usize,
    /// Memory of their connections.
    pub memory_bytes: u64,
}

/// Limits and semantics of the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreLimits {
    /// Memory of all partitions, those of the host included.
    pub memory_bytes: u64,
    /// Drops the oldest values when memory is full, instead of refusing writes.
    pub is_cache: bool,
    /// `true` to request huge pages.
    pub huge_pages: bool,
}

impl OpenRequest {
    /// Checks that an agent can run this. Returns the threads that it needs.
    pub(super) fn check(&self, agent: &EngineProbe) -> Result<Layout, String> {
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
            self.clients.check(agent)?;
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

    /// Returns the memory that the DPU needs for it.
    pub(super) fn memory(&self, layout: &Layout) -> SideMemory {
        let store = self.store.memory_bytes;
        layout.memory(Side::Dpu, store, self.clients.memory())
    }

    /// The DPU's partitions, with their files in the agent's directory for `kept` stores.
    pub(super) fn stores(
        &self,
        layout: &Layout,
        hasher: &KeyHasher,
        clock: &Clock,
        kept: Option<&Path>,
    ) -> Result<Vec<Box<dyn StorageBackend + Send>>, String> {
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
        Ok((opened.into_iter()).map(|(store, _)| Box::new(store) as _).collect())
    }

    /// Returns the settings of the DPU's server, with the agent's certificates and ports; `None` if
    /// the DPU has no clients.
    pub(super) fn settings(
        &self,
        layout: &Layout,
        agent: &EngineProbe,
    ) -> Result<Option<Settings>, String> {
        let clients = &self.clients;
        if layout.dpu.serving() == 0 {
            return Ok(None);
        }
        Ok(Some(Settings {
            addresses: clients.addresses.clone(),
            tls: clients.tls(agent)?,
            trusts_port: clients.trusts_port,
            rx_queue: clients.rx_queue,
            steering: match clients.by_ports {
                true => Steering::Ports,
                false => Steering::Bpf,
            },
            password: clients.password.map(Password::from_digest),
            limits: Limits {
                clients: clients.count,
                memory_bytes: clients.memory_bytes as usize,
                ..Limits::default()
            },
            busy_poll: self.busy_poll,
            workers: layout.dpu.serving(),
            drain: Duration::from_secs(1),
            is_cache: self.store.is_cache,
            sends_early: self.optimizations.sends_early,
            design: Some(self.design.name()),
            name: self.name.clone(),
            ..Settings::default()
        }))
    }
}

impl Clients {
    /// Returns upper bounds on the memory that the clients need.
    fn memory(&self) -> ClientMemory {
        ClientMemory::new(self.memory_bytes, &self.addresses, self.rx_queue)
    }

    /// The agent's certificates, where there are addresses for TLS.
    fn tls(&self, agent: &EngineProbe) -> Result<Option<Tls>, String> {
        if self.addresses.tls.is_empty() {
            return Ok(None);
        }
        let directory = (agent.tls_keys.as_deref())
            .ok_or("the agent has no certificates for clients: start it with --kv-tls-keys DIR")?;
        let config = keys::server(directory, self.requires_certificates);
        Ok(Some(Tls {
            config: config.map_err(|error| error.to_string())?,
            requires_certificates: self.requires_certificates,
        }))
    }

    fn check(&self, agent: &EngineProbe) -> Result<(), String> {
        let addresses = &self.addresses;
        if !addresses.has_clients() || addresses.of_clients().count() > ADDRESSES_MAX {
            return Err(format!("from 1 to {ADDRESSES_MAX} addresses can be listened at"));
        }
        // They would be files of the DPU.
        if addresses.unix.is_some() || matches!(addresses.herd, Some(RegionAddress::Path(_))) {
            return Err("only addresses can be listened at, and no paths".into());
        }
        if let Some(port) = &addresses.port
            && !agent.ports.contains(&port.device)
        {
            return Err(format!(
                "the agent does not give hosts the port {}: start it with --kv-dpdk-port {0}",
                clean(&port.device, DEVICE_MAX_BYTES)
            ));
        }
        if self.rx_queue > RX_QUEUE_MAX {
            return Err(format!("{RX_QUEUE_MAX} receive descriptors at most"));
        }
        if !(1..=CLIENTS_MAX).contains(&self.count)
            || !(1 << 20..=CLIENT_MEMORY_MAX).contains(&self.memory_bytes)
        {
            return Err("impossible limits of clients".into());
        }
        Ok(())
    }
}
