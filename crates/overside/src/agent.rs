//! `overside agent`.

#[cfg(feature = "measure")]
pub(crate) mod measure;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_agent::{Agent, Limits, Settings, default_memory_bytes, keys};
use overside_backends::{BACKENDS, Options, open};
use overside_command::{
    complain, exit,
    logging::Verbosity,
    options::{Threads, size_within, time_within},
    system,
};
use overside_link::agent::{PORT, Probe};
use overside_log::LevelFilter;
use serde_json::json;

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
pub(crate) struct Arguments {
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
    /// Memory limit of the agent, including libraries; requests that need more are refused [default: half of
    /// the machine's memory, or two thirds of the service's limit if that is less]
    #[arg(long, value_name = "SIZE", value_parser = size_within(MEMORY))]
    memory: Option<usize>,
    #[cfg(feature = "kv")]
    #[command(flatten)]
    stores: overside_kv_cli::agent::StoreArguments,
    /// Do not act as the remote end of `network` and `dma` tests, and measure no tests here
    #[arg(long)]
    no_probes: bool,
    #[cfg(feature = "measure")]
    #[command(flatten)]
    measure: measure::MeasureArguments,
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

impl Arguments {
    /// Returns the built-in tests whose remote end the agent plays.
    fn probes(&self) -> io::Result<Vec<Arc<dyn Probe>>> {
        let built_in: [io::Result<Vec<Arc<dyn Probe>>>; _] = [
            #[cfg(feature = "measure")]
            Ok(self.measure.probes()),
            #[cfg(feature = "kv")]
            self.stores.probes(),
        ];
        let probes: io::Result<Vec<_>> = built_in.into_iter().collect();
        Ok(probes?.concat())
    }
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

/// Allowed values of `--memory` in bytes. With less than 64 MiB the agent could not serve any host.
const MEMORY: RangeInclusive<usize> = 64 << 20..=1 << 46;
const DRAIN_MAX_SECONDS: f64 = 3600.0;

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
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

/// Parses an address; the default port is added if it has none.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let ip = || text.parse().map(|ip| SocketAddr::new(ip, PORT));
    (text.parse().or_else(|_| ip()))
        .map_err(|_| format!("not an IP address; write it as 192.168.100.2:{PORT}"))
}

/// Refuses options that admit everyone by mistake.
fn check(all: &Arguments) -> Result<(), String> {
    match (&all.keys, all.insecure) {
        (Some(_), true) => Err("--keys and --insecure contradict each other".into()),
        (None, _) if !all.listen.ip().is_loopback() => Err(format!(
            "other machines can reach {}, so --keys DIR is required; create keys with \
             `overside agent keys DIR`",
            all.listen
        )),
        (None, false) => {
            Err("--keys DIR is required; create keys with `overside agent keys DIR`, \
             or use --insecure on this machine only"
                .into())
        }
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
    let probes = match all.no_probes {
        true => Vec::new(),
        false => match all.probes() {
            Ok(probes) => probes,
            Err(error) => return failed(&error),
        },
    };
    let plays_parts = !probes.is_empty();
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
        probes,
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
            json!({"schema": "agent/1", "address": address.to_string(), "devices": names, "probes": plays_parts})
        ),
        false => format!("listening at {address}, offering {}\n", names.join(", ")),
    };
    // The agent keeps running if stdout is closed.
    let _ = overside_command::print(&announcement);
    system::wait_for_shutdown();
    match agent.drain(Instant::now() + all.drain) {
        true => ExitCode::SUCCESS,
        false => {
            complain!("overside agent: some hosts did not fetch their results in time");
            ExitCode::from(exit::INCOMPLETE)
        }
    }
}

/// Returns the devices that this machine really has.
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
            overside_command::print(&names.into_iter().map(line).collect::<String>())
        }
        Err(error) => {
            complain!("overside agent keys: {error}");
            ExitCode::from(exit::USAGE)
        }
    }
}
