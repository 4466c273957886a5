//! `overside agent`.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lexopt::Arg::{Long, Short, Value};
use overside_agent::{Agent, Settings, keys};
use overside_backends::{BACKENDS, Options, open};
use overside_link::agent::{PORT, Probe};
use overside_probe::network::Role;
use overside_probe::{dma, network};
use serde_json::json;

use crate::{exit, options, system};

const HELP: &str = "\
Offers this machine's devices to a host, which uses them as `NODE/DEVICE` once it has
`overside agents add NODE ADDR`. Runs until it is asked to end (SIGTERM), and then lets jobs finish.

Usage: overside agent [OPTIONS]
       overside agent keys DIR

  --listen ADDR     address, or address and port, to listen at; 127.0.0.1:7433 unless told
                    otherwise
  --keys DIR        who may come: hosts with a certificate of the authority in DIR; needs ca.pem,
                    agent.pem and agent.key
  --insecure        everybody may who reaches the address, and nothing is encrypted; only for an
                    address of this machine itself
  --device NAME     a device to offer, may be given several times; unless told otherwise this
                    machine's cores and what DPDK drives
  -p, --threads N   threads of a context on this machine's cores; one for each core unless told
                    otherwise
  --role dpu|host   whose cores these are: dpu unless given. The CPU time of an end of a test that
                    is played here goes to that ledger
  --no-probes       play no end of a test for a host: no `dpu0` as source or destination of the
                    task `network`, and no `dpu0/ucx` as device of the task `dma`
  --drain SECONDS   how long hosts have to fetch what is done when the agent ends, 0 to 3600; 30
                    unless told otherwise
  --json            tell programs where it listens and what it offers

`overside agent keys DIR` makes an authority and, signed by it, an agent's and a host's certificate:
ca.pem, agent.pem and agent.key are for agents; ca.pem, host.pem and host.key for hosts; ca.key is
to be put away.
";

const DRAIN_MAX_SECONDS: u64 = 3600;
const KNOWN: [&str; 9] = [
    "listen",
    "keys",
    "insecure",
    "device",
    "threads",
    "role",
    "no-probes",
    "drain",
    "json",
];

struct Arguments {
    listen: SocketAddr,
    keys: Option<PathBuf>,
    insecure: bool,
    devices: Vec<String>,
    threads: usize,
    role: Role,
    probes: bool,
    drain: Duration,
    json: bool,
}

pub fn main(arguments: &[OsString]) -> ExitCode {
    if arguments.first().is_some_and(|first| first == "keys") {
        return make_keys(&arguments[1..]);
    }
    match parse(arguments) {
        Ok(None) => crate::print(HELP),
        Ok(Some(arguments)) => serve(&arguments),
        Err(message) => refuse(&message),
    }
}

fn refuse(message: &str) -> ExitCode {
    complain!("overside agent: {message}");
    ExitCode::from(exit::USAGE)
}

/// `None` if help is asked for.
fn parse(arguments: &[OsString]) -> Result<Option<Arguments>, String> {
    let mut parser = lexopt::Parser::from_args(arguments);
    let mut all = Arguments {
        listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT),
        keys: None,
        insecure: false,
        devices: Vec::new(),
        threads: options::threads_default(),
        role: Role::Dpu,
        probes: true,
        drain: Duration::from_secs(30),
        json: false,
    };
    while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
        match argument {
            Long("help") | Short('h') => return Ok(None),
            Long("listen") => {
                all.listen = address(&options::value::<String>(&mut parser, "--listen")?)?
            }
            Long("keys") => {
                let directory = parser.value().map_err(|error| error.to_string())?;
                all.keys = Some(directory.into());
            }
            Long("insecure") => all.insecure = true,
            Long("device") => all.devices.push(options::value(&mut parser, "--device")?),
            Long("threads") | Short('p') => all.threads = options::threads(&mut parser)?,
            Long("role") => all.role = options::role(&mut parser)?,
            Long("no-probes") => all.probes = false,
            Long("drain") => {
                let seconds = options::value(&mut parser, "--drain")?;
                if seconds > DRAIN_MAX_SECONDS {
                    return Err(format!("--drain is from 0 to {DRAIN_MAX_SECONDS} seconds"));
                }
                all.drain = Duration::from_secs(seconds);
            }
            Long("json") => all.json = true,
            Long(option) => {
                let option = option.to_owned();
                return Err(options::unknown(
                    "agent",
                    &option,
                    &KNOWN.map(str::to_owned),
                ));
            }
            Short(option) => {
                return Err(options::unknown("agent", &option.to_string(), &[]));
            }
            Value(word) => {
                return Err(format!(
                    "{} is not understood; `overside agent --help` says more",
                    word.display()
                ));
            }
        }
    }
    check(&all)?;
    Ok(Some(all))
}

/// An address, with the usual port if it has none.
fn address(text: &str) -> Result<SocketAddr, String> {
    let ip = || text.parse().map(|ip| SocketAddr::new(ip, PORT));
    text.parse().or_else(|_| ip()).map_err(|_| {
        format!("--listen {text}: this is no address; it is written 192.168.100.2:{PORT}")
    })
}

/// Nobody is let in by mistake.
fn check(all: &Arguments) -> Result<(), String> {
    let here = all.listen.ip().is_loopback();
    match (&all.keys, all.insecure) {
        (Some(_), true) => Err("--keys and --insecure contradict each other".into()),
        (None, _) if !here => Err(format!(
            "{} can be reached from other machines, so it takes --keys DIR; `overside agent keys \
             DIR` makes them",
            all.listen
        )),
        (None, false) => Err(
            "it takes --keys DIR (`overside agent keys DIR` makes them); or, for everybody on this \
             machine and without encryption, --insecure"
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
    system::hold_asking();
    let names = match all.devices.is_empty() {
        true => usable(),
        false => all.devices.clone(),
    };
    let options = Options {
        threads: all.threads,
        timing: Some(overside_device::Timing::Paced),
        ..Options::default()
    };
    let settings = Settings {
        probes: match all.probes {
            true => probes(all.role),
            false => Vec::new(),
        },
        tell: Some(Arc::new(|line: &str| complain!("overside agent: {line}"))),
        ..Settings::new(all.listen, keys)
    };
    let agent = match Agent::start(settings, &names, |name| open(name, &options)) {
        Ok(agent) => agent,
        Err(error) => return failed(&error),
    };
    let address = agent.address();
    let said = match all.json {
        true => format!(
            "{}\n",
            json!({"address": address.to_string(), "devices": names, "probes": all.probes})
        ),
        false => format!("listening at {address}, offering {}\n", names.join(", ")),
    };
    // That nobody reads it is no reason to end.
    let _ = crate::print(&said);
    system::wait_to_be_asked();
    match agent.drain(Instant::now() + all.drain) {
        true => ExitCode::SUCCESS,
        false => {
            complain!("overside agent: some hosts did not fetch what was done for them in time");
            ExitCode::from(exit::INCOMPLETE)
        }
    }
}

/// The kinds of tests of which it plays an end.
fn probes(role: Role) -> Vec<Arc<dyn Probe>> {
    vec![
        Arc::new(network::remote::NetworkProbe { role }),
        Arc::new(dma::remote::DmaProbe),
    ]
}

/// The devices that this machine really has.
fn usable() -> Vec<String> {
    let own = BACKENDS.iter().filter(|backend| backend.is_local());
    own.flat_map(|backend| backend.list())
        .filter(|device| device.unavailable.is_none())
        .map(|device| device.name)
        .collect()
}

fn make_keys(arguments: &[OsString]) -> ExitCode {
    let directory = match arguments {
        [help] if help == "--help" || help == "-h" => return crate::print(HELP),
        [directory] if !directory.as_encoded_bytes().starts_with(b"-") => PathBuf::from(directory),
        _ => return refuse("keys: it takes a directory, as in `overside agent keys DIR`"),
    };
    match keys::make(&directory) {
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
