//! `overside agent`.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_agent::{Agent, Limits, Settings, default_memory_bytes, keys};
use overside_backends::{BACKENDS, Options, open};
use overside_kv::offload::agent::EngineProbe;
use overside_link::agent::{PORT, Probe};
use overside_log::LevelFilter;
use overside_measure::node::{self, DataCache, MeasureProbe, WORKER_VERB, WorkerCommand};
use overside_probe::network::Role;
use overside_probe::{dma, network, perftest};
use serde_json::json;

use crate::logging::Verbosity;
use crate::options::{Threads, size_within, time_within};
use crate::{exit, system};

/// Offer this machine's devices to a host
#[derive(clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
A host uses these devices as NODE/DEVICE after `overside agents add NODE ADDRESS`. The agent runs \
until SIGTERM or SIGINT, and then finishes the jobs it has.

Examples:
  overside agent keys keys                           once: an authority and certificates
  overside agent --keys keys --listen 192.168.100.2  on a DPU
  overside agent --insecure --device cpu             on this machine, to try it"
)]
pub struct Arguments {
    #[command(subcommand)]
    command: Option<AgentCommand>,
    /// Address to listen at, with or without a port
    #[arg(long, value_name = "ADDRESS", value_parser = address,
          default_value_t = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT))]
    listen: SocketAddr,
    /// Admit hosts with a certificate of the authority in DIR, which holds ca.pem, agent.pem and
    /// agent.key
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    keys: Option<PathBuf>,
    /// No authentication and no encryption: anyone on this machine may use the agent. Loopback
    /// addresses only
    #[arg(long)]
    insecure: bool,
    /// Device to offer; may be repeated [default: the CPU and the cards that
    /// OVERSIDE_DPDK_ARGS names]
    #[arg(long = "device", value_name = "NAME", allow_hyphen_values = true)]
    devices: Vec<String>,
    #[command(flatten)]
    threads: Threads,
    /// Whose cores these are: CPU time of tests played here is accounted to that side
    #[arg(long, value_enum, default_value_t = CoreOwner::Dpu)]
    role: CoreOwner,
    /// Most memory the agent takes, libraries included; what needs more is refused [default: half of
    /// the machine's, or two thirds of what a service may have if that is less]
    #[arg(long, value_name = "SIZE", value_parser = size_within(MEMORY))]
    memory: Option<usize>,
    /// Let hosts keep key-value stores (`kv serve --dir`) in this directory, 16 at most, each under a name of its
    /// own [default: in memory only]
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    kv_dir: Option<PathBuf>,
    /// Certificates for TLS clients of hosts' key-value stores here: directory with server.pem and server.key,
    /// and ca.pem for client certificates
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    kv_tls_keys: Option<PathBuf>,
    /// Let hosts' key-value stores serve datagrams at this network port by DPDK (`kv serve --dpdk-port`); may be
    /// repeated
    #[arg(long = "kv-dpdk-port", value_name = "DEVICE")]
    kv_dpdk_ports: Vec<String>,
    /// Do not act as the remote end of `network` and `dma` tests, and measure no tests here
    #[arg(long)]
    no_probes: bool,
    /// Most tests measured here at a time; others wait, as timings would disturb one another
    #[arg(long, value_name = "N", default_value = "1",
          value_parser = clap::value_parser!(u16).range(1..=64))]
    tests: u16,
    /// Directory for the data of tests measured here; one for each agent [default: $CACHE_DIRECTORY,
    /// or overside/agent of the user's cache]
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    data_dir: Option<PathBuf>,
    /// Most bytes of data kept there; the oldest go first
    #[arg(long, value_name = "SIZE", default_value = "4GiB", value_parser = size_within(DATA))]
    data_size: usize,
    /// On shutdown, wait this long for hosts to fetch their results
    #[arg(long, value_name = "TIME", default_value = "30s",
          value_parser = time_within(0.0..=DRAIN_MAX_SECONDS))]
    drain: Duration,
    /// Print address and devices as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    verbosity: Verbosity,
}

#[derive(clap::Subcommand)]
enum AgentCommand {
    /// Create keys: an authority, and certificates for agents and for hosts signed by it
    #[command(after_help = "\
Copy ca.pem, agent.pem and agent.key to agents, and ca.pem, host.pem and host.key to hosts. Store \
ca.key in a safe place.")]
    Keys {
        /// Directory to create
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum CoreOwner {
    Dpu,
    Host,
}

/// What can be asked for: less serves nobody.
const MEMORY: RangeInclusive<usize> = 64 << 20..=1 << 46;
/// Bytes of data kept: a test of a few buffers, or a disk.
const DATA: RangeInclusive<usize> = 1 << 20..=1 << 46;
const DRAIN_MAX_SECONDS: f64 = 3600.0;

pub fn run(arguments: &Arguments) -> ExitCode {
    let verbosity = arguments.verbosity.clone();
    if let Err(code) = verbosity.start("agent", LevelFilter::INFO, exit::USAGE) {
        return code;
    }
    if let Some(AgentCommand::Keys { directory }) = &arguments.command {
        return make_keys(directory);
    }
    match check(arguments) {
        Ok(()) => serve(arguments),
        Err(message) => {
            complain!("overside agent: {message}");
            ExitCode::from(exit::USAGE)
        }
    }
}

/// An address, with the usual port if it has none.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let ip = || text.parse().map(|ip| SocketAddr::new(ip, PORT));
    (text.parse().or_else(|_| ip()))
        .map_err(|_| format!("not an IP address; write it as 192.168.100.2:{PORT}"))
}

/// Admits nobody by mistake.
fn check(all: &Arguments) -> Result<(), String> {
    match (&all.keys, all.insecure) {
        (Some(_), true) => Err("--keys and --insecure contradict each other".into()),
        (None, _) if !all.listen.ip().is_loopback() => Err(format!(
            "other machines can reach {}, so --keys DIR is required; create keys with \
             `overside agent keys DIR`",
            all.listen
        )),
        (None, false) => Err(
            "--keys DIR is required; create keys with `overside agent keys DIR`, \
             or use --insecure on this machine only"
                .into(),
        ),
        _ => Ok(()),
    }
}

fn serve(all: &Arguments) -> ExitCode {
    let failed = |message: &dyn std::fmt::Display| {
        complain!("overside agent: {message}");
        ExitCode::from(exit::ABSENT)
    };
    let keys = match all.keys.as_deref().map(keys::agent).transpose() {
        Ok(keys) => keys,
        Err(error) => return failed(&error),
    };
    let kept = match all.kv_dir.as_deref().map(std::path::absolute).transpose() {
        Ok(kept) => kept,
        Err(error) => return failed(&error),
    };
    system::return_freed_memory();
    system::block_shutdown_signals();
    system::fail_writes_beyond_limits();
    let names = match all.devices.is_empty() {
        true => usable(),
        false => all.devices.clone(),
    };
    let options = Options {
        threads: all.threads.count(),
        timing: Some(overside_device::Timing::Paced),
        ..Options::default()
    };
    let settings = Settings {
        probes: match all.no_probes {
            true => Vec::new(),
            false => probes(all, kept),
        },
        limits: Limits {
            memory: (all.memory).map_or_else(default_memory_bytes, |bytes| bytes as u64),
            ..Limits::default()
        },
        ..Settings::new(all.listen, keys)
    };
    let agent = match Agent::start(settings, &names, |name| open(name, &options)) {
        Ok(agent) => agent,
        Err(error) => return failed(&error),
    };
    let address = agent.address();
    let announcement = match all.json {
        true => format!(
            "{}\n",
            json!({"schema": "agent/1", "address": address.to_string(), "devices": names, "probes": !all.no_probes})
        ),
        false => format!("listening at {address}, offering {}\n", names.join(", ")),
    };
    // A closed stdout is no reason to end.
    let _ = crate::print(&announcement);
    system::wait_for_shutdown();
    match agent.drain(Instant::now() + all.drain) {
        true => ExitCode::SUCCESS,
        false => {
            complain!("overside agent: some hosts did not fetch their results in time");
            ExitCode::from(exit::INCOMPLETE)
        }
    }
}

/// The tests whose remote end the agent plays.
fn probes(all: &Arguments, kept: Option<PathBuf>) -> Vec<Arc<dyn Probe>> {
    let (role, owner) = match all.role {
        CoreOwner::Dpu => (Role::Dpu, node::CoreOwner::Dpu),
        CoreOwner::Host => (Role::Host, node::CoreOwner::Host),
    };
    let mut probes: Vec<Arc<dyn Probe>> = vec![
        Arc::new(network::remote::NetworkProbe { role }),
        Arc::new(dma::remote::DmaProbe),
        Arc::new(perftest::PerftestProbe),
        Arc::new(EngineProbe {
            kept,
            tls_keys: all.kv_tls_keys.clone(),
            ports: all.kv_dpdk_ports.clone(),
        }),
        Arc::new(overside_kv::bench::remote::LoadProbe),
    ];
    match std::env::current_exe() {
        Ok(program) => {
            let worker = worker_command(program);
            let directory = all.data_dir.clone().unwrap_or_else(data_directory);
            let cache = DataCache::new(directory, all.data_size as u64);
            let tests = usize::from(all.tests);
            probes.push(Arc::new(MeasureProbe::new(worker, cache, tests, owner)));
        }
        Err(error) => complain!("overside agent: no tests are measured here: {error}"),
    }
    probes
}

/// Where data are kept: what systemd gives a service (`CacheDirectory=`), or the user's cache.
fn data_directory() -> PathBuf {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(directory) = named("CACHE_DIRECTORY") {
        return directory.into();
    }
    let cache = named("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || named("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = cache.or_else(home).unwrap_or_else(|| "/var/cache".into());
    cache.join("overside/agent")
}

/// The devices that this machine really has.
fn usable() -> Vec<String> {
    (BACKENDS.iter())
        .flat_map(|backend| backend.offered())
        .filter(|device| device.unavailable.is_none())
        .map(|device| device.name)
        .collect()
}

fn make_keys(directory: &Path) -> ExitCode {
    match keys::make(directory) {
        Ok(names) => {
            let line = |name: &str| format!("{}\n", directory.join(name).display());
            crate::print(&names.into_iter().map(line).collect::<String>())
        }
        Err(error) => {
            complain!("overside agent keys: {error}");
            ExitCode::from(exit::USAGE)
        }
    }
}

/// What starts programs where a kernel cannot: `qemu-aarch64-static -L ROOT`, before this one's path.
const RUNNER_ENV: &str = "OVERSIDE_RUNNER";

/// A process of this program that measures tests.
fn worker_command(program: PathBuf) -> WorkerCommand {
    let runner = std::env::var(RUNNER_ENV).unwrap_or_default();
    let mut words =
        (runner.split_whitespace().map(OsString::from)).chain([program.into(), WORKER_VERB.into()]);
    WorkerCommand {
        program: words.next().unwrap_or_default().into(),
        arguments: words.collect(),
    }
}
