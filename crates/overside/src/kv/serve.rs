//! `overside kv serve`.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use clap::value_parser;
use overside_agent::default_memory_bytes;
use overside_kv::clock::Clock;
use overside_kv::offload::agent::LINK_BYTES;
use overside_kv::partitions;
use overside_kv::server::{Design, Limits, Server, ServerError, Settings};
use overside_kv::store::{self, MEMORY_MAX_BYTES, MEMORY_MIN_BYTES, StoreOptions};
use overside_kv::udp::RX_QUEUE_DEFAULT;
use overside_kv::{KeyHasher, Store};
use overside_log::LevelFilter;
use serde_json::{Value, json};

use super::access::Access;
use super::cores::{self, Cores};
use super::design::{self, DesignArguments};
use super::directory::{Description, DirectoryArguments, ServerRegistration};
use super::durability::Durability;
use super::replica::{ReplicaArguments, can_replicate};
use crate::logging::Verbosity;
use crate::messages::shown;
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
    design: DesignArguments,
    #[command(flatten)]
    directory: DirectoryArguments,
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
    /// Never sleep: keeps a core busy, and answers sooner
    #[arg(long)]
    busy_poll: bool,
    /// Receive descriptors of each socket for datagrams: about so many datagrams wait before more are dropped.
    /// Of a UDP socket this is its receive buffer (SO_RCVBUF), 2 KiB a descriptor
    #[arg(long, value_name = "N", default_value_t = RX_QUEUE_DEFAULT as u32,
          value_parser = value_parser!(u32).range(8..=1 << 16), requires = "datagram")]
    rx_queue: u32,
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
    let checked =
        (arguments.access.check()).and_then(|()| arguments.design.check(&arguments.access));
    let is_cache = arguments.store.semantics == Semantics::Cache;
    let checked = checked.and_then(|()| arguments.durability.check(is_cache));
    let checked = checked.and_then(|()| arguments.check_cores());
    let checked = checked.and_then(|()| arguments.directory.check(&arguments.access));
    let can_replicate = arguments.can_replicate();
    let checked = checked.and_then(|()| arguments.replication.check(can_replicate));
    if let Err(message) = checked {
        complain!("overside kv serve: {message}");
        return ExitCode::from(exit::USAGE);
    }
    serve(arguments).unwrap_or_else(|message| {
        complain!("overside kv serve: {message}");
        ExitCode::from(exit::ABSENT)
    })
}

impl Arguments {
    fn check_cores(&self) -> Result<(), String> {
        let count = self.serving.cores.count();
        if count > 1 && self.design.node().is_some() {
            return Err("--cores needs --design cpu-only".into());
        }
        match self.store.memory_bytes() / count >= MEMORY_MIN_BYTES {
            true => Ok(()),
            false => Err(format!(
                "--memory is too little for {count} cores: each needs {} MiB at least",
                MEMORY_MIN_BYTES >> 20
            )),
        }
    }

    /// Whether it can have replicas or be one, or why not.
    fn can_replicate(&self) -> Result<(), &'static str> {
        let is_cache = self.store.semantics == Semantics::Cache;
        let has_dpu = self.design.node().is_some();
        can_replicate(self.serving.cores.count(), has_dpu, is_cache)
    }

    /// A store for each core.
    fn stores(&self, hasher: &KeyHasher) -> Result<Vec<Store>, String> {
        let count = self.serving.cores.count();
        let store = |_| {
            let store = Store::new(StoreOptions {
                memory_bytes: self.store.memory_bytes() / count,
                semantics: self.store.semantics.into(),
                hasher: hasher.clone(),
                huge_pages: self.store.huge_pages == HugePages::Auto,
            });
            store.map_err(|error| format!("{error}; --memory SIZE takes less"))
        };
        (0..count).map(store).collect()
    }
}

fn serve(all: &Arguments) -> Result<ExitCode, String> {
    let mut settings = settings(all)?;
    let registration = all.directory.prepare()?;
    if let Some(registration) = &registration {
        registration.apply(&mut settings);
    }
    let withdrawn = registration.clone();
    let withdraw = move || withdrawn.iter().for_each(|one| one.withdraw());
    let clock = Clock::start();
    let hasher = KeyHasher::random();
    let memory_bytes = all.store.memory_bytes();
    if all.serving.dry_run {
        return Ok(crate::print(&plan(all, &settings, memory_bytes)));
    }
    system::return_freed_memory();
    system::block_shutdown_signals();
    let stores = all.stores(&hasher)?;
    let stop = stop_on_signals();
    let replication = all.can_replicate().is_ok().then_some(&all.replication);
    let mut backings = all.durability.open(stores, &hasher, &clock, replication)?;
    if let (Some(node), [backing]) = (all.design.node(), backings.as_mut_slice()) {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_stopped);
        // It is set here only.
        let _ = stop.set(Box::new(move || {
            withdraw();
            flag.store(true, Ordering::Relaxed);
        }));
        let said = |addresses: &[SocketAddr]| {
            announce_on(node, all.serving.json, addresses);
            let there = Settings {
                tcp: addresses.to_vec(),
                ..settings.clone()
            };
            register(registration.as_deref(), &there, Design::Lat, "dpu")
        };
        let (keys, how) = (
            (&hasher, clock),
            (&said as design::Announce<'_>, &*is_stopped),
        );
        return design::serve(node, &all.design, &settings, &mut **backing, keys, how);
    }
    let server = Server::bind(settings).map_err(|error| remedy(&error))?;
    // It is set here only.
    let handle = server.stop_handle();
    let _ = stop.set(Box::new(move || {
        withdraw();
        handle.stop();
    }));
    for backing in &mut backings {
        all.replication.begin(server.settings(), &mut **backing)?;
    }
    announce(all, server.settings());
    register(
        registration.as_deref(),
        server.settings(),
        Design::CpuOnly,
        "host",
    )?;
    let served = match backings.as_mut_slice() {
        [backing] => server.run(&mut **backing, &hasher, clock),
        _ => {
            let engines = partitions::connect(backings, &hasher);
            let engines = engines.map_err(|error| error.to_string())?;
            let engines = engines.into_iter().map(|engine| Box::new(engine) as _);
            server.run_workers(engines.collect(), &hasher, clock)
        }
    };
    match served {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => {
            complain!("overside kv serve: some clients did not take their replies in time");
            Ok(ExitCode::from(exit::INCOMPLETE))
        }
        Err(error) => Err(remedy(&error)),
    }
}

/// Registers a server at its addresses, if it is to be.
fn register(
    registration: Option<&ServerRegistration>,
    settings: &Settings,
    design: Design,
    side: &str,
) -> Result<(), String> {
    let description = Description {
        design: design.name(),
        side,
        partitions: settings.workers.max(1),
    };
    registration.map_or(Ok(()), |one| one.register(settings, description))
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

fn settings(all: &Arguments) -> Result<Settings, String> {
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
        busy_poll: serving.busy_poll,
        rx_queue: serving.rx_queue as usize,
        workers: serving.cores.count(),
        cores: match &serving.cores {
            Cores::Count(_) => serving.core.into_iter().collect(),
            Cores::List(cores) => cores.clone(),
        },
        drain: Duration::from_secs(serving.drain),
        is_cache: all.store.semantics == Semantics::Cache,
        ..all.access.settings()?
    })
}

impl StoreArguments {
    fn memory_bytes(&self) -> usize {
        let default = || default_memory_bytes().min(MEMORY_MAX_BYTES as u64) as usize;
        self.memory.unwrap_or_else(default)
    }
}

fn remedy(error: &ServerError) -> String {
    match error {
        ServerError::Listen { error: cause, .. } | ServerError::ListenUnix { error: cause, .. }
            if cause.kind() == ErrorKind::AddrInUse =>
        {
            format!("{error}; another server is there, or give another address")
        }
        ServerError::Core { .. } => {
            format!("{error}; --core and --cores take those that nproc counts")
        }
        _ => error.to_string(),
    }
}

/// Says where it listens.
fn announce(all: &Arguments, settings: &Settings) {
    let text = match all.serving.json {
        true => format!("{}\n", endpoints(settings)),
        false => format!("listening at {}\n", listed(settings)),
    };
    // A closed stdout is no reason to end.
    let _ = crate::print(&text);
}

/// Says where an agent listens.
fn announce_on(node: &str, as_json: bool, addresses: &[SocketAddr]) {
    let listen = texts(addresses);
    let text = match as_json {
        true => format!("{}\n", json!({"listen": listen, "dpu": node})),
        false => format!("listening at {} on {node}\n", listen.join(", ")),
    };
    // A closed stdout is no reason to end.
    let _ = crate::print(&text);
}

fn texts(addresses: &[SocketAddr]) -> Vec<String> {
    addresses.iter().map(SocketAddr::to_string).collect()
}

fn tls_addresses(settings: &Settings) -> &[SocketAddr] {
    (settings.tls.as_ref()).map_or(&[], |(addresses, _)| addresses)
}

fn endpoints(settings: &Settings) -> Value {
    json!({
        "listen": texts(&settings.tcp),
        "tls": texts(tls_addresses(settings)),
        "memcached": texts(&settings.memcached),
        "datagram": texts(&settings.datagram),
        "unix": settings.unix,
        "metrics": settings.metrics.map(|address| address.to_string()),
    })
}

fn listed(settings: &Settings) -> String {
    let tls = texts(tls_addresses(settings));
    let unix = settings.unix.iter();
    let all: Vec<String> = (texts(&settings.tcp).into_iter())
        .chain(tls.into_iter().map(|address| format!("{address} (TLS)")))
        .chain((settings.memcached.iter()).map(|address| format!("{address} (memcached)")))
        .chain((settings.datagram.iter()).map(|address| format!("{address} (datagrams)")))
        .chain(unix.map(shown))
        .chain((settings.metrics).map(|address| format!("http://{address}/metrics")))
        .collect();
    all.join(", ")
}

/// What a dry run prints.
fn plan(all: &Arguments, settings: &Settings, memory_bytes: usize) -> String {
    let clients = settings.limits.memory_bytes;
    let link = LINK_BYTES as usize;
    let (design, place) = match all.design.node() {
        None => (Design::CpuOnly, "everything on the host's CPU".to_owned()),
        Some(node) => (
            Design::Lat,
            format!("clients connect to {node}, the store is here"),
        ),
    };
    let cores = all.serving.cores.count();
    let channels = partitions::channel_bytes(cores);
    let backlog = match all.can_replicate() {
        Ok(()) => all.replication.backlog_bytes(),
        Err(_) => 0,
    };
    let (here, there) = match design {
        Design::CpuOnly => (memory_bytes + clients + channels + backlog, 0),
        Design::Lat => (memory_bytes + link, clients + link),
    };
    if all.serving.json {
        let mut plan = endpoints(settings);
        plan["design"] = json!(design.name());
        plan["cores"] = json!(cores);
        plan["directory"] = json!(all.durability.directory());
        plan["memory_bytes"] = json!({
            "host": {"store": memory_bytes, "total": here},
            "dpu": {"total": there},
            "connections": clients,
        });
        return format!("{plan}\n");
    }
    let mib = |bytes: usize| format!("{} MiB", bytes.div_ceil(1 << 20));
    let mut text = String::new();
    line!(text, "design: {} ({place})", design.name());
    if cores > 1 {
        line!(text, "cores, each with a part of the keys: {cores}");
    }
    line!(text, "listens at: {}", listed(settings));
    match all.durability.directory() {
        Some(directory) => line!(text, "keeps everything in: {}", shown(directory)),
        None => line!(text, "keeps nothing when it ends (--dir DIR does)"),
    }
    line!(text, "memory of the host, at most: {}", mib(here));
    line!(text, "  store, index included: {}", mib(memory_bytes));
    if design == Design::CpuOnly {
        line!(text, "  connections: {}", mib(clients));
    }
    if cores > 1 {
        line!(text, "  channels between cores: {}", mib(channels));
    }
    if backlog > 0 {
        line!(text, "  changes for replicas: {}", mib(backlog));
    }
    line!(text, "memory of the DPU, at most: {}", mib(there));
    text
}
