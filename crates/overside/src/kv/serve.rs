//! `overside kv serve`.

use std::io::ErrorKind;
use std::process::{self, ExitCode};
use std::sync::{Arc, OnceLock};
use std::thread;

use overside_kv::KeyHasher;
use overside_kv::clock::Clock;
use overside_kv::design::{ClientMemory, Layout};
use overside_kv::offload::agent::{Keeping, Opening};
use overside_kv::offload::{Askers, SideEngines, SideError, SideStop};
use overside_kv::server::{DriverKind, Server, ServerError, Settings};
use overside_link::verbs::Side;
use overside_log::LevelFilter;

use super::access::Access;
use super::announcement;
use super::card::CardMode;
use super::design::DesignArguments;
use super::directory::{Description, DirectoryArguments};
use super::dpu_side::{self, DpuSide};
use super::durability::Durability;
use super::limits::LimitArguments;
use super::operation::OperationArguments;
use super::plan::Plan;
use super::replica::{ReplicaArguments, can_replicate};
use super::store::StoreArguments;
use crate::logging::Verbosity;
use crate::{exit, system};

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
  overside kv serve --dry-run                      what it would take")]
pub struct Arguments {
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

pub fn run(arguments: &Arguments) -> ExitCode {
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
    serve(arguments, layout).unwrap_or_else(|message| {
        complain!("overside kv serve: {message}");
        ExitCode::from(exit::ABSENT)
    })
}

impl Arguments {
    /// Refuses what contradicts itself. Which threads there are otherwise.
    fn check(&self) -> Result<Layout, String> {
        self.access.check()?;
        self.driver()?;
        self.directory.check(&self.access)?;
        let layout = self.design.check(&self.access, self.host_cores())?;
        self.durability.check(self.store.is_cache(), &layout)?;
        let is_registered = self.directory.is_given();
        (self.replication).check(self.can_replicate(), is_registered)?;
        let store = self.store_bytes(&layout);
        (self.design).check_memory(&layout, store, self.client_memory())?;
        StoreArguments::check(store, layout.partitions()).map(|()| layout)
    }

    /// How sockets and the port are served.
    fn driver(&self) -> Result<DriverKind, String> {
        self.operation.driver(self.access.dpdk.device().is_some())
    }

    /// Whether it can have replicas or be one, or why not.
    fn can_replicate(&self) -> Result<(), &'static str> {
        let has_dpu = self.design.node().is_some();
        can_replicate(has_dpu, self.store.is_cache())
    }

    /// Cores of the host; with everything on the DPU, none.
    fn host_cores(&self) -> usize {
        match (
            self.design.design().cores_min(),
            self.operation.cores.count(),
        ) {
            ((0, _), 1) => 0,
            (_, count) => count,
        }
    }

    /// Memory of the clients of a side.
    fn client_memory(&self) -> ClientMemory {
        // What contradicts itself has been refused.
        let driver = self.driver().unwrap_or_default();
        ClientMemory::new(self.limits.client_memory_bytes(), driver)
    }

    /// Memory of all partitions.
    fn store_bytes(&self, layout: &Layout) -> u64 {
        let default = || {
            let host = StoreArguments::default_bytes();
            (self.design).default_store(layout, host, self.client_memory())
        };
        self.store.memory_bytes().unwrap_or_else(default)
    }

    fn settings(&self, layout: &Layout) -> Result<Settings, String> {
        let others = Settings {
            limits: self.limits.limits(),
            is_cache: self.store.is_cache(),
            sends_early: self.design.optimizations().sends_early,
            design: self.design.design(),
            ..self.access.settings()?
        };
        Ok(self.operation.settings(layout, self.driver()?, others))
    }

    /// What a dry run prints.
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
            directory: self.durability.directory(),
            card,
            backlog_bytes: self.can_replicate().map_or(0, |()| backlog_bytes()),
        };
        Ok(crate::print(&match self.operation.json {
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
        let checked = card.as_ref().map(|card| card.check(self.design.design()));
        checked.transpose()?;
        Ok(card)
    }

    /// The DPU's side, if the design has one.
    fn dpu_side(
        &self,
        layout: Layout,
        settings: &Settings,
        keeping: Option<Keeping>,
        clock: Clock,
    ) -> Result<Option<DpuSide>, String> {
        let Some(node) = self.design.node() else {
            return Ok(None);
        };
        let store = (
            self.host_cores(),
            self.store.limits(self.store_bytes(&layout)),
        );
        let opening = Opening {
            keeping,
            ..self.design.opening(store, settings)
        };
        DpuSide::connect(node, opening, layout, clock).map(Some)
    }
}

fn serve(all: &Arguments, layout: Layout) -> Result<ExitCode, String> {
    let mut settings = all.settings(&layout)?;
    let registration = all.directory.prepare()?;
    if let Some(registration) = &registration {
        registration.apply(&mut settings);
    }
    let card = all.card()?;
    if all.operation.dry_run {
        return all.plan(layout, &settings, card);
    }
    let clock = Clock::start();
    let hasher = KeyHasher::random();
    system::return_freed_memory();
    system::block_shutdown_signals();
    let part_bytes = all.store_bytes(&layout) as usize / layout.partitions();
    let here = layout.partitions_of(Side::Host).len();
    let stores = all.store.open(here, part_bytes, &hasher)?;
    let signals = stop_on_signals();
    let replication = all.can_replicate().is_ok().then_some(&all.replication);
    let opened = (all.durability).open(stores, &layout, &hasher, &clock, replication);
    let (mut stores, keeping) = opened?;
    let has_clients = layout.host.serving() > 0;
    let server = has_clients
        .then(|| Server::bind(settings.clone()))
        .transpose();
    let server = server.map_err(|error| remedy(&error))?;
    if let Some(server) = &server {
        for store in &mut stores {
            let is_registered = all.directory.is_given();
            (all.replication).begin(server.settings(), is_registered, &mut **store)?;
        }
    }
    let is_new = keeping.as_ref().is_some_and(|keeping| keeping.is_new);
    let dpu = all.dpu_side(layout, &settings, keeping, clock)?;
    if is_new {
        all.durability.confirm()?;
    }
    announcement::print(server.as_ref(), dpu.as_ref(), all.operation.json);
    let listening = listening(&layout, &settings, server.as_ref(), dpu.as_ref());
    let stop = SideStop::new(server.as_ref());
    let mut engines = SideEngines {
        side: Side::Host,
        layout,
        server,
        stores,
        asking: Vec::new(),
        askers: Askers::default(),
        optimizations: all.design.optimizations(),
        on_loss: dpu
            .as_ref()
            .map_or_else(|| Arc::new(|_: &_| {}) as _, DpuSide::on_loss),
        hasher,
        clock,
        busy_poll: settings.busy_poll,
        store_core: all
            .operation
            .pinned()
            .first()
            .copied()
            .filter(|_| layout.host.processing > 0),
    };
    let end = dpu
        .map(|dpu| dpu.attach(&mut engines, stop.clone()))
        .transpose()?;
    let (handle, withdrawn) = (stop.clone(), registration.clone());
    // It is set here only.
    let _ = signals.set(Box::new(move || {
        withdrawn.iter().for_each(|one| one.withdraw());
        handle.stop();
    }));
    if let Some(registration) = &registration {
        registration.register(&listening)?;
    }
    let served = engines.run(&stop);
    // What handles signals keeps one too, until the process ends.
    registration.iter().for_each(|one| one.end());
    if let Some(reason) = end.and_then(|end| end.try_recv().ok()) {
        return Err(reason);
    }
    match served {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => {
            complain!("overside kv serve: some clients did not take their replies in time");
            Ok(ExitCode::from(exit::INCOMPLETE))
        }
        Err(SideError::Server(error)) => Err(remedy(&error)),
        Err(error) => Err(error.to_string()),
    }
}

/// What clients can find in a directory: where each side listens.
fn listening(
    layout: &Layout,
    settings: &Settings,
    server: Option<&Server>,
    dpu: Option<&DpuSide>,
) -> Vec<(Settings, Description<'static>)> {
    let description = |side| Description {
        design: settings.design.name(),
        side,
        partitions: layout.partitions(),
        is_advertised: side == "host" || server.is_none(),
    };
    let here = server.map(|server| (server.settings().clone(), description("host")));
    let there = dpu.map(|dpu| {
        let there = Settings {
            tcp: dpu.addresses().to_vec(),
            is_cache: settings.is_cache,
            ..Settings::default()
        };
        (there, description("dpu"))
    });
    here.into_iter().chain(there).collect()
}

/// Asks whatever serves to end.
type Stop = Box<dyn Fn() + Send + Sync>;

/// Ends the server at the first signal, and the process at the second, or while there is no server yet:
/// recovery changes nothing. The thread ends with the process.
fn stop_on_signals() -> Arc<OnceLock<Stop>> {
    let stop = Arc::new(OnceLock::<Stop>::new());
    let handle = Arc::clone(&stop);
    thread::spawn(move || {
        system::wait_for_shutdown();
        match handle.get() {
            Some(stop) => stop(),
            None => process::exit(0),
        }
    });
    stop
}

fn remedy(error: &ServerError) -> String {
    match error {
        ServerError::Listen { error: cause, .. } | ServerError::ListenUnix { error: cause, .. }
            if cause.kind() == ErrorKind::AddrInUse =>
        {
            format!("{error}; another server is there, or give another address")
        }
        ServerError::Driver(_) => format!("{error}; or leave --driver away"),
        ServerError::Core { .. } => {
            format!("{error}; --core and --cores take those that nproc counts")
        }
        _ => error.to_string(),
    }
}
