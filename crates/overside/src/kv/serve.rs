//! `overside kv serve`.

use std::io::ErrorKind;
use std::ops::RangeInclusive;
use std::process::{self, ExitCode};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use clap::value_parser;
use overside_agent::default_memory_bytes;
use overside_kv::clock::Clock;
use overside_kv::design::Layout;
use overside_kv::offload::agent::StoreLimits;
use overside_kv::offload::{Askers, SideEngines, SideError, SideStop};
use overside_kv::server::{DriverKind, Limits, Server, ServerError, Settings, Steering};
use overside_kv::store::{self, MEMORY_MAX_BYTES, MEMORY_MIN_BYTES, StoreOptions};
use overside_kv::udp::RX_QUEUE_DEFAULT;
use overside_kv::{KeyHasher, Store};
use overside_link::verbs::Side;
use overside_log::LevelFilter;

use super::access::Access;
use super::announcement;
use super::card::CardMode;
use super::cores::{self, Cores};
use super::design::DesignArguments;
use super::directory::{Description, DirectoryArguments};
use super::dpu_side::{self, DpuSide};
use super::durability::Durability;
use super::plan::Plan;
use super::replica::{ReplicaArguments, can_replicate};
use crate::logging::Verbosity;
use crate::options::size_within;
use crate::{exit, system};

/// Serve a key-value store to Redis and memcached clients
#[derive(clap::Args)]
#[command(after_help = "\
Clients speak RESP2 or RESP3: redis-cli, redis-py and other Redis clients work as they are; with \
--memcached, memcached's clients too, on the same keys. The server runs until SIGTERM, SIGINT or \
SHUTDOWN, and then answers what it has received.")]
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
    serving: ServingArguments,
    #[command(flatten)]
    verbosity: Verbosity,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Store")]
struct StoreArguments {
    /// Memory of the store, its index included [default: half of the machine's, or two thirds of what a
    /// service may have if that is less]
    #[arg(long, value_name = "SIZE", value_parser = size_within(MEMORY))]
    memory: Option<usize>,
    /// When memory is full: `store` refuses writes, `cache` drops the oldest values
    #[arg(long, value_enum, default_value_t = Semantics::Store)]
    semantics: Semantics,
    /// Huge pages for the store: `auto` uses them if the machine has them
    #[arg(long, value_enum, default_value_t = HugePages::Auto)]
    huge_pages: HugePages,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
struct LimitArguments {
    /// Most clients at a time
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = value_parser!(u32).range(1..=1_000_000))]
    max_clients: u32,
    /// Memory of all connections together; beyond it the one that holds most is closed
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size_within(CLIENT_MEMORY))]
    client_memory: usize,
    /// Close idle clients after so many seconds; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 0,
          value_parser = value_parser!(u64).range(..=SECONDS_MAX))]
    timeout: u64,
    /// Close clients that read none of their replies for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = value_parser!(u64).range(1..=SECONDS_MAX))]
    stall: u64,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Operation")]
struct ServingArguments {
    /// Stay on this core
    #[arg(long, value_name = "N", conflicts_with = "cores")]
    core: Option<usize>,
    /// Serve with so many cores, or with these (`0,2,3`): each has a part of the keys, memory divided by
    /// their number
    #[arg(long, value_name = "N|LIST", default_value = "1", value_parser = cores::parse)]
    cores: Cores,
    /// How clients' sockets are served, also on the DPU where that has clients: `io_uring` needs Linux 6.1 or
    /// later. `dpdk` answers datagrams at --dpdk-port, and serves sockets as `epoll` [default: epoll, or dpdk
    /// with --dpdk-port]
    #[arg(long, value_enum)]
    driver: Option<DriverName>,
    /// Never sleep: keeps a core busy, and answers sooner
    #[arg(long)]
    busy_poll: bool,
    /// Receive descriptors of each socket for datagrams, and of each queue of --dpdk-port: about so many datagrams
    /// wait before more are dropped. Of a UDP socket this is its receive buffer (SO_RCVBUF), 2 KiB a descriptor
    #[arg(long, value_name = "N", default_value_t = RX_QUEUE_DEFAULT as u32,
          value_parser = value_parser!(u32).range(8..=1 << 16),)]
    rx_queue: u32,
    /// With several cores, how datagrams arrive at the core that has their keys: `bpf` by a program in the kernel
    /// where it can, and by ports; `ports` by ports alone. At --dpdk-port by rules of the card where it has some
    /// (rte_flow), else the core that receives one hands it over
    #[arg(long, value_enum, default_value_t = SteeringName::Bpf)]
    steering: SteeringName,
    /// On shutdown, wait this long for clients to take their replies
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
          value_parser = value_parser!(u64).range(..=SECONDS_MAX))]
    drain: u64,
    /// Print what it would take and where it would listen, and exit
    #[arg(long)]
    dry_run: bool,
    /// Print addresses as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum DriverName {
    Epoll,
    #[value(name = "io_uring")]
    IoUring,
    Dpdk,
}

impl From<DriverName> for DriverKind {
    fn from(name: DriverName) -> Self {
        match name {
            DriverName::Epoll => Self::Epoll,
            DriverName::IoUring => Self::IoUring,
            DriverName::Dpdk => Self::Dpdk,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SteeringName {
    Bpf,
    Ports,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Semantics {
    Store,
    Cache,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum HugePages {
    Auto,
    Off,
}

impl From<Semantics> for store::Semantics {
    fn from(semantics: Semantics) -> Self {
        match semantics {
            Semantics::Store => Self::Store,
            Semantics::Cache => Self::Cache,
        }
    }
}

/// What can be asked for.
const MEMORY: RangeInclusive<usize> = MEMORY_MIN_BYTES..=MEMORY_MAX_BYTES;
const CLIENT_MEMORY: RangeInclusive<usize> = 1 << 20..=1 << 46;
const SECONDS_MAX: u64 = 1_000_000_000;

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
        let is_cache = self.store.semantics == Semantics::Cache;
        self.durability.check(is_cache, &layout)?;
        let is_registered = self.directory.is_given();
        (self.replication).check(self.can_replicate(), is_registered)?;
        let (store, clients) = (self.store_bytes(&layout), self.limits.client_memory as u64);
        self.design.check_memory(&layout, store, clients)?;
        let count = layout.partitions();
        match store / count as u64 >= MEMORY_MIN_BYTES as u64 {
            true => Ok(layout),
            false => Err(format!(
                "--memory is too little for {count} cores: each needs {} MiB at least",
                MEMORY_MIN_BYTES >> 20
            )),
        }
    }

    /// How sockets and the port are served.
    fn driver(&self) -> Result<DriverKind, String> {
        let has_port = self.access.dpdk.device().is_some();
        match (self.serving.driver, has_port) {
            (Some(DriverName::Dpdk), false) => Err(
                "--driver dpdk needs a port: --dpdk-port DEVICE and --dpdk-address ADDRESS".into(),
            ),
            (Some(DriverName::Epoll | DriverName::IoUring), true) => Err(
                "--dpdk-port goes with --driver dpdk, which serves sockets as epoll does".into(),
            ),
            (None, true) => Ok(DriverKind::Dpdk),
            (driver, _) => Ok(driver.map_or(DriverKind::Epoll, DriverKind::from)),
        }
    }

    /// Whether it can have replicas or be one, or why not.
    fn can_replicate(&self) -> Result<(), &'static str> {
        let is_cache = self.store.semantics == Semantics::Cache;
        let has_dpu = self.design.node().is_some();
        can_replicate(self.serving.cores.count(), has_dpu, is_cache)
    }

    /// Cores of the host; with everything on the DPU, none.
    fn host_cores(&self) -> usize {
        match (self.design.design().cores_min(), self.serving.cores.count()) {
            ((0, _), 1) => 0,
            (_, count) => count,
        }
    }

    /// Memory of all partitions.
    fn store_bytes(&self, layout: &Layout) -> u64 {
        let host = || default_memory_bytes().min(MEMORY_MAX_BYTES as u64);
        let clients = self.limits.client_memory as u64;
        let default = || self.design.default_store(layout, host(), clients);
        self.store.memory.map_or_else(default, |bytes| bytes as u64)
    }

    /// A store for each partition here.
    fn stores(&self, layout: &Layout, hasher: &KeyHasher) -> Result<Vec<Store>, String> {
        let memory_bytes = self.store_bytes(layout) as usize / layout.partitions();
        let store = |_| {
            let store = Store::new(StoreOptions {
                memory_bytes,
                semantics: self.store.semantics.into(),
                hasher: hasher.clone(),
                huge_pages: self.store.huge_pages == HugePages::Auto,
            });
            store.map_err(|error| format!("{error}; --memory SIZE takes less"))
        };
        layout.partitions_of(Side::Host).map(store).collect()
    }

    fn store_limits(&self, layout: &Layout) -> StoreLimits {
        StoreLimits {
            memory_bytes: self.store_bytes(layout),
            is_cache: self.store.semantics == Semantics::Cache,
            huge_pages: self.store.huge_pages == HugePages::Auto,
        }
    }

    /// The card that carries the DPU's side, if it is known and can. A dry run does without an agent.
    fn card(&self) -> Result<Option<CardMode>, String> {
        let found = self.design.card(dpu_side::card);
        let card = match self.serving.dry_run {
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
        clock: Clock,
    ) -> Result<Option<DpuSide>, String> {
        let Some(node) = self.design.node() else {
            return Ok(None);
        };
        let store = (self.host_cores(), self.store_limits(&layout));
        let opening = self.design.opening(store, settings);
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
    let clock = Clock::start();
    let hasher = KeyHasher::random();
    if all.serving.dry_run {
        let plan = Plan {
            design: &all.design,
            layout,
            settings: &settings,
            store_bytes: all.store_bytes(&layout),
            directory: all.durability.directory(),
            card,
            backlog_bytes: (all.can_replicate())
                .map_or(0, |()| all.replication.backlog_bytes() as u64),
        };
        return Ok(crate::print(&match all.serving.json {
            true => plan.json(),
            false => plan.text(),
        }));
    }
    system::return_freed_memory();
    system::block_shutdown_signals();
    let stores = all.stores(&layout, &hasher)?;
    let signals = stop_on_signals();
    let replication = all.can_replicate().is_ok().then_some(&all.replication);
    let mut stores = all.durability.open(stores, &hasher, &clock, replication)?;
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
    let dpu = all.dpu_side(layout, &settings, clock)?;
    announcement::print(server.as_ref(), dpu.as_ref(), all.serving.json);
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
            .serving
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
    if let Some(registration) = registration {
        registration.register(&listening)?;
    }
    let served = engines.run(&stop);
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

impl ServingArguments {
    /// The cores that threads stay on.
    fn pinned(&self) -> Vec<usize> {
        match &self.cores {
            Cores::Count(_) => self.core.into_iter().collect(),
            Cores::List(cores) => cores.clone(),
        }
    }
}

impl Arguments {
    fn settings(&self, layout: &Layout) -> Result<Settings, String> {
        let all = self;
        let (limits, serving) = (&all.limits, &all.serving);
        let clients = limits.max_clients as usize;
        Ok(Settings {
            limits: Limits {
                clients,
                unauthenticated: (clients / 4).clamp(1, 1_000),
                memory_bytes: limits.client_memory,
                stall: Duration::from_secs(limits.stall),
                idle: Duration::from_secs(limits.timeout),
                ..Limits::default()
            },
            driver: all.driver()?,
            busy_poll: serving.busy_poll,
            rx_queue: serving.rx_queue as usize,
            steering: match serving.steering {
                SteeringName::Bpf => Steering::Bpf,
                SteeringName::Ports => Steering::Ports,
            },
            workers: layout.host.serving(),
            // The first one is that of the thread with the store alone, if there is such a thread.
            cores: serving
                .pinned()
                .split_off(layout.host.processing.min(serving.pinned().len())),
            drain: Duration::from_secs(serving.drain),
            is_cache: all.store.semantics == Semantics::Cache,
            sends_early: all.design.optimizations().sends_early,
            design: all.design.design(),
            ..all.access.settings()?
        })
    }
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
