//! `overside kv serve`.

mod running;

use std::io::ErrorKind;
use std::process::ExitCode;

use overside_kv::server::{ServerError, Settings};
use overside_kv_offload::design::{ClientMemory, Layout};
use overside_link::verbs::Side;
use overside_log::LevelFilter;

use super::access::Access;
use super::card::CardMode;
use super::design::DesignArguments;
use super::directory::DirectoryArguments;
use super::dpu_side;
use super::durability::Durability;
use super::limits::LimitArguments;
use super::operation::OperationArguments;
use super::plan::Plan;
use super::replica::{ReplicaArguments, can_replicate};
use super::store::StoreArguments;
use overside_command::{complain, exit, logging::Verbosity};

/// Serve a key-value store to Redis and memcached clients
#[derive(clap::Args)]
#[command(after_help = "\
Clients speak RESP2 or RESP3: redis-cli, redis-py and other Redis clients work as they are; with \
--memcached, memcached's clients too, on the same keys. The server runs until SIGTERM, SIGINT or \
SHUTDOWN, and then answers what it has received.

Examples:
  overside kv serve
  overside kv serve --dir data --memory 4GiB       keys outlive the server
  overside kv serve --dpu dpu0 --design sav        requests are parsed on a DPU
  overside kv serve --directory etcd://10.0.0.1 --name a --cluster --slots 0-5460
                                                   one of several servers
  overside kv serve --dry-run                      what it would take")]
pub(super) struct Arguments {
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    store: StoreArguments,
    #[command(flatten)]
    durability: Durability,
    #[command(flatten)]
    replication: ReplicaArguments,
    #[command(flatten)]
    directory: DirectoryArguments,
    #[command(flatten)]
    design: DesignArguments,
    #[command(flatten)]
    limits: LimitArguments,
    #[command(flatten)]
    operation: OperationArguments,
    #[command(flatten)]
    verbosity: Verbosity,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let verbosity = arguments.verbosity.clone();
    if let Err(code) = verbosity.start("kv", LevelFilter::INFO, exit::USAGE) {
        return code;
    }
    let checked = arguments.check();
    let layout = match checked {
        Ok(layout) => layout,
        Err(message) => {
            complain!("overside kv serve: {message}");
            return ExitCode::from(exit::USAGE);
        }
    };
    running::serve(arguments, layout).unwrap_or_else(|message| {
        complain!("overside kv serve: {message}");
        ExitCode::from(exit::ABSENT)
    })
}

impl Arguments {
    /// Refuses what contradicts itself. Which threads there are otherwise.
    fn check(&self) -> Result<Layout, String> {
        self.operation.check_cores()?;
        self.directory.check(&self.access, self.design.node().is_some())?;
        let layout = self.design.check(&self.access, self.host_cores())?;
        self.durability.check(self.store.is_cache())?;
        let is_registered = self.directory.is_given();
        (self.replication).check(self.can_replicate(), is_registered)?;
        let store = self.store_bytes(&layout);
        (self.design).check_memory(&layout, store, self.client_memory(Side::Dpu))?;
        StoreArguments::check(store, layout.partitions()).map(|()| layout)
    }

    /// Returns `Ok` if this server can have replicas and can be one; otherwise the reason why not.
    fn can_replicate(&self) -> Result<(), &'static str> {
        let has_dpu = self.design.node().is_some();
        can_replicate(has_dpu, self.store.is_cache())
    }

    /// Cores of the host; with everything on the DPU, none.
    fn host_cores(&self) -> usize {
        match (self.design.design.cores_min(), self.operation.cores.count()) {
            ((0, _), 1) => 0,
            (_, count) => count,
        }
    }

    /// Memory of the clients of a side.
    fn client_memory(&self, side: Side) -> ClientMemory {
        let host = self.access.addresses();
        let addresses = match side {
            Side::Host => host,
            Side::Dpu => self.design.dpu_addresses(&host),
        };
        let connections = self.limits.client_memory_bytes();
        ClientMemory::new(connections, &addresses, self.operation.rx_queue())
    }

    /// Memory of all partitions.
    fn store_bytes(&self, layout: &Layout) -> u64 {
        let default = || {
            let host = StoreArguments::default_bytes();
            (self.design).default_store(layout, host, self.client_memory(Side::Dpu))
        };
        self.store.memory_bytes().unwrap_or_else(default)
    }

    fn settings(&self, layout: &Layout) -> Result<Settings, String> {
        let others = Settings {
            limits: self.limits.limits(),
            is_cache: self.store.is_cache(),
            sends_early: self.design.optimizations().sends_early,
            design: Some(self.design.design.name()),
            ..self.access.settings()?
        };
        Ok(self.operation.settings(layout, others))
    }

    /// Prints the plan of a dry run.
    fn plan(
        &self,
        layout: Layout,
        settings: &Settings,
        card: Option<CardMode>,
    ) -> Result<ExitCode, String> {
        let backlog_bytes = || self.replication.backlog_bytes() as u64;
        let plan = Plan {
            design: &self.design,
            layout,
            settings,
            store_bytes: self.store_bytes(&layout),
            clients: [Side::Host, Side::Dpu].map(|side| self.client_memory(side)),
            directory: self.durability.directory(),
            card,
            backlog_bytes: self.can_replicate().map_or(0, |()| backlog_bytes()),
        };
        Ok(overside_command::print(&match self.operation.json {
            true => plan.json(),
            false => plan.text(),
        }))
    }

    /// The card that carries the DPU's side, if it is known and can. A dry run does without an agent.
    fn card(&self) -> Result<Option<CardMode>, String> {
        let found = self.design.card(dpu_side::card);
        let card = match self.operation.dry_run {
            true => found.unwrap_or_default(),
            false => found?,
        };
        let checked = card.as_ref().map(|card| card.check(self.design.design));
        checked.transpose()?;
        Ok(card)
    }
}

fn remedy(error: &ServerError) -> String {
    match error {
        ServerError::Listen { error: cause, .. } | ServerError::ListenUnix { error: cause, .. }
            if cause.kind() == ErrorKind::AddrInUse =>
        {
            format!("{error}; another server is there, or give another address")
        }
        _ => error.to_string(),
    }
}
