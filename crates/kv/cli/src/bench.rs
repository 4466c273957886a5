//! `overside kv bench`.

mod generators;
pub(super) mod text;

use std::net::ToSocketAddrs;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::value_parser;
use overside_kv::client::ServerTls;
use overside_kv::server::Password;
use overside_kv_bench::{
    Address, BenchError, CoreRoundTrip, Distribution, Generator, LoadMode, Point, ProtocolKind,
    Records, Settings, Workload, hash_ns,
};
use overside_link::agent::keys;
use overside_log::LevelFilter;

use self::generators::Generators;
use super::dpdk::LoadPortArguments;
use overside_command::{
    complain, exit,
    logging::Verbosity,
    options::{size_within, time_within},
    print_result,
};

/// Allowed durations of the measurement at one load, and of the warm-up, in seconds.
const SECONDS: RangeInclusive<f64> = 0.0..=86_400.0;

/// Measure a key-value server: this one, Redis or memcached
#[derive(clap::Args)]
#[command(after_help = "\
Records are written first, then the workload runs. Every value that comes back is verified: it is \
one that was stored for its key (values shorter than 9 bytes are the same each time). Throughput \
and latency are medians of the windows, with the least and the greatest window.

Example: a latency curve in open loop, from 10 % to 90 % of what the closed loop reaches:
  overside kv bench redis://127.0.0.1:6379 --workload b --curve 9")]
pub(super) struct Arguments {
    /// The server: redis://HOST:PORT, rediss://HOST:PORT (by TLS), memcached://HOST:PORT (text),
    /// memcached-meta://HOST:PORT, datagram://HOST:PORT (this store's, over UDP), redis:PATH for a Unix socket, or herd:PATH
    /// (requests by one-sided writes; herd://HOST:PORT by UCX). Several endpoints of one server:
    /// connections are dealt out among them
    #[arg(value_name = "SERVER", value_parser = server, default_value = "redis://127.0.0.1:6379")]
    servers: Vec<Server>,
    #[command(flatten)]
    work: WorkArguments,
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    rates: RateArguments,
    #[command(flatten)]
    from: FromArguments,
    #[command(flatten)]
    run: RunArguments,
    #[command(flatten)]
    tls: TlsArguments,
    #[command(flatten)]
    cores: CoreArguments,
    #[command(flatten)]
    dpdk: LoadPortArguments,
    #[command(flatten)]
    verbosity: Verbosity,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Workload")]
pub(super) struct WorkArguments {
    /// YCSB workload: a (half updates), b (5 % updates), c (reads only), d (reads of the latest), e
    /// (scans; Redis only), f (read-modify-write)
    #[arg(long, value_name = "LETTER", default_value = "b", value_parser = workload)]
    workload: Workload,
    /// Reads in percent, the rest updates, instead of a YCSB workload
    #[arg(long, value_name = "PERCENT", conflicts_with = "workload",
          value_parser = value_parser!(u8).range(..=100))]
    reads: Option<u8>,
    /// Distribution of the requested records: uniform, zipf or latest [default: the workload's]
    #[arg(long, value_enum)]
    distribution: Option<DistributionName>,
    /// Exponent of zipf and latest
    #[arg(long, value_name = "S", default_value_t = 0.99)]
    skew: f64,
    /// Records written first
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    records: u64,
    /// Length of keys
    #[arg(long, value_name = "SIZE", default_value = "16", value_parser = size_within(1..=64 << 10))]
    key_size: usize,
    /// Length of values
    #[arg(long, value_name = "SIZE", default_value = "100", value_parser = size_within(0..=64 << 20))]
    value_size: usize,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Load")]
pub(super) struct LoadArguments {
    /// Connections of all threads together
    #[arg(short, long, value_name = "N", default_value_t = 50)]
    connections: usize,
    /// Requests in flight on a connection
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1)]
    pipeline: usize,
    /// Threads that make the load
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    threads: usize,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Load")]
struct RateArguments {
    /// Requests a second in open loop: they come at random times, and latency counts from when one
    /// should have been sent [default: closed loop]
    #[arg(long, value_name = "RATE", value_delimiter = ',', conflicts_with = "curve")]
    rate: Vec<f64>,
    /// Measure the closed loop, and then N rates from 10 % to 90 % of it in open loop
    #[arg(long, value_name = "N", value_parser = value_parser!(u8).range(2..=50))]
    curve: Option<u8>,
}

#[derive(clap::Args)]
pub(super) struct RunArguments {
    /// Time that counts, at each load
    #[arg(long, value_name = "TIME", default_value = "6s", value_parser = time_within(SECONDS))]
    seconds: Duration,
    /// Warm-up time before each load, which does not count
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time_within(SECONDS))]
    warm_up: Duration,
    /// Parts that the time is cut into
    #[arg(long, value_name = "N", default_value_t = 6)]
    windows: usize,
    /// Seed of the random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run on this core, further threads on the next ones
    #[arg(long, value_name = "N")]
    core: Option<usize>,
    /// Never sleep while waiting for answers
    #[arg(long)]
    busy_poll: bool,
    /// Do not write the records first: an earlier run with the same sizes has
    #[arg(long)]
    pub(super) no_load: bool,
    /// File whose first line is the password
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    password_file: Option<PathBuf>,
    /// Print results as JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Load")]
struct FromArguments {
    /// Sources of the load: agents, as `overside agents` lists them, or local; several at once,
    /// each with the connections and threads that are asked for
    #[arg(long, value_name = "NODE", value_delimiter = ',', default_value = "local")]
    from: Vec<String>,
}

#[derive(clap::Args)]
struct TlsArguments {
    /// Keys for rediss://: directory with ca.pem, and with host.pem and host.key where the server wants a
    /// client's certificate
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    tls_keys: Option<PathBuf>,
    /// Name that the server's certificate must have [default: that of agents]
    #[arg(long, value_name = "NAME", requires = "tls_keys")]
    tls_name: Option<String>,
}

impl TlsArguments {
    /// TLS settings for connections to the servers; `None` without TLS. Returns an error if keys
    /// are missing, or given without TLS.
    fn tls(&self, is_tls: bool) -> Result<Option<ServerTls>, String> {
        match (is_tls, &self.tls_keys) {
            (true, Some(directory)) => {
                let config = keys::client(directory).map_err(|error| error.to_string())?;
                let name = self.tls_name.as_deref().unwrap_or(keys::AGENT);
                let tls = ServerTls::new(config, name);
                tls.map(Some).map_err(|error| format!("--tls-name: {error}"))
            }
            (true, None) => Err("rediss:// needs --tls-keys DIR with ca.pem".into()),
            (false, Some(_)) => Err("--tls-keys is for rediss://HOST:PORT".into()),
            (false, None) => Ok(None),
        }
    }
}

#[derive(clap::Args)]
struct CoreArguments {
    /// Core of the server: beside the results stands how long a cache line takes from there to --core and back
    /// [default: another core]
    #[arg(long, value_name = "N", requires = "core")]
    server_core: Option<usize>,
    /// Do not measure how far two cores are apart and what hashing a key takes, which adds some 40 ms
    #[arg(long)]
    no_calibration: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum DistributionName {
    Uniform,
    Zipf,
    Latest,
}

#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) protocol: ProtocolKind,
    pub(super) address: Address,
    pub(super) is_tls: bool,
}

pub(super) fn server(text: &str) -> Result<Server, String> {
    const FORM: &str = "write it as redis://127.0.0.1:6379, rediss://127.0.0.1:6380, \
                        memcached://127.0.0.1:11211, memcached-meta://127.0.0.1:11211, datagram://127.0.0.1:6379, redis:/path/of/socket, \
                        herd:/path/of/socket or herd://127.0.0.1:6380";
    let (scheme, rest) = text.split_once(':').ok_or(FORM)?;
    let protocol = match scheme {
        "redis" | "rediss" => ProtocolKind::Resp,
        "memcached" => ProtocolKind::Memcached,
        "memcached-meta" => ProtocolKind::MemcachedMeta,
        "datagram" => ProtocolKind::Datagram,
        "herd" => ProtocolKind::Herd,
        _ => return Err(FORM.into()),
    };
    let is_tls = scheme == "rediss";
    let server = |address| Server { protocol, address, is_tls };
    let Some(place) = rest.strip_prefix("//") else {
        return Ok(server(Address::Unix(rest.into())));
    };
    let found = place.trim_end_matches('/').to_socket_addrs();
    let mut found = found.map_err(|error| format!("{place}: {error}; {FORM}"))?;
    let address = found.next().ok_or_else(|| format!("{place} has no address"))?;
    Ok(server(Address::Tcp(address)))
}

fn workload(text: &str) -> Result<Workload, String> {
    let letter = text.parse().ok().and_then(Workload::ycsb);
    letter.ok_or_else(|| "a YCSB workload is a letter from a to f".into())
}

impl Arguments {
    fn settings(&self) -> Result<Settings, String> {
        let mut servers = self.servers.iter().cloned();
        let first = servers.next().ok_or("no server was named")?;
        let (protocol, is_tls) = (first.protocol, first.is_tls);
        let mut settings = settings(first, &self.work, &self.load, &self.run)?;
        settings.tls = self.tls.tls(is_tls)?;
        settings.port = self.dpdk.settings();
        for server in servers {
            if (server.protocol, server.is_tls) != (protocol, is_tls) {
                return Err("all endpoints of a server speak the same".into());
            }
            settings.further.push(server.address);
        }
        Ok(settings)
    }
}

/// Results of a benchmark, with the calibration of this machine's cores.
struct Report {
    settings: Settings,
    /// Records written a second.
    loaded: Option<f64>,
    core_round_trip: Option<CoreRoundTrip>,
    /// Time for hashing a key as the store does it, in nanoseconds, measured on this machine;
    /// `None` if not measured.
    hash_ns: Option<f64>,
    from: Vec<String>,
    points: Vec<Point>,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let verbosity = arguments.verbosity.clone();
    if let Err(code) = verbosity.start("kv bench", LevelFilter::WARN, exit::USAGE) {
        return code;
    }
    let all = arguments.settings();
    let settings = match all {
        Ok(settings) => settings,
        Err(message) => {
            complain!("overside kv bench: {message}");
            return ExitCode::from(exit::USAGE);
        }
    };
    match measure(arguments, settings) {
        Ok(report) => print_result(arguments.run.json, || report.to_json(), || report.to_text()),
        Err(error) => {
            complain!("overside kv bench: {error}{}", remedy(&error));
            exit_code(&error)
        }
    }
}

pub(super) fn exit_code(error: &BenchError) -> ExitCode {
    ExitCode::from(match error {
        BenchError::Settings(_) => exit::USAGE,
        BenchError::WrongValue { .. } | BenchError::Remote { is_wrong_value: true, .. } => {
            exit::UNVERIFIED
        }
        _ => exit::ABSENT,
    })
}

pub(super) fn remedy(error: &BenchError) -> &'static str {
    match error {
        BenchError::Connection { .. } => {
            "; is the server running, and does it speak this protocol?"
        }
        BenchError::WrongValue { .. } => {
            "; --no-load needs the key and value sizes that the records were written with"
        }
        _ => "",
    }
}

impl RunArguments {
    /// Writes the records unless that is switched off. Returns the number per second.
    pub(super) fn load(&self, settings: &Settings) -> Result<Option<f64>, BenchError> {
        match self.no_load {
            true => Ok(None),
            false => overside_kv_bench::load(settings).map(Some),
        }
    }
}

/// Settings of a closed-loop benchmark, from the command line.
pub(super) fn settings(
    server: Server,
    work: &WorkArguments,
    load: &LoadArguments,
    run: &RunArguments,
) -> Result<Settings, String> {
    let mut workload = match work.reads {
        Some(percent) => Workload::reads(f64::from(percent) / 100.0),
        None => work.workload.clone(),
    };
    workload.distribution = match (work.distribution, workload.distribution) {
        (Some(DistributionName::Uniform), _) => Distribution::Uniform,
        (Some(DistributionName::Zipf), _) => Distribution::Zipf(work.skew),
        (Some(DistributionName::Latest), _) => Distribution::Latest(work.skew),
        (None, Distribution::Zipf(_)) => Distribution::Zipf(work.skew),
        (None, Distribution::Latest(_)) => Distribution::Latest(work.skew),
        (None, Distribution::Uniform) => Distribution::Uniform,
    };
    let password = run.password_file.as_deref().map(Password::read_line).transpose();
    Ok(Settings {
        address: server.address,
        further: Vec::new(),
        port: None,
        protocol: server.protocol,
        password: password.map_err(|error| error.to_string())?,
        tls: None,
        workload,
        records: Records {
            count: work.records,
            key_bytes: work.key_size,
            value_bytes: work.value_size,
        },
        connections: load.connections,
        threads: load.threads,
        core: run.core,
        pipeline: load.pipeline,
        mode: LoadMode::Closed,
        warm_up: run.warm_up,
        duration: run.seconds,
        windows: run.windows,
        seed: run.seed,
        busy_poll: run.busy_poll,
        generator: Generator::ONLY,
    })
}

impl Arguments {
    /// Returns `true` if the load is generated only on this machine. Then the calibration of this
    /// machine's cores belongs to the results.
    fn is_here(&self) -> bool {
        self.from.from == ["local"]
    }

    /// Measures the round trip of a cache line between the two cores. `None` if calibration is off,
    /// or if it fails for cores that the user has not named.
    fn core_round_trip(&self) -> Result<Option<CoreRoundTrip>, BenchError> {
        let (core, server_core) = (self.run.core, self.cores.server_core);
        if self.cores.no_calibration || !(self.is_here() || server_core.is_some()) {
            return Ok(None);
        }
        let measured = CoreRoundTrip::between([core, server_core]).map(CoreRoundTrip::measure);
        match measured.transpose() {
            Err(source) if server_core.is_some() => {
                Err(BenchError::System { what: "the round trip between the cores", source })
            }
            other => Ok(other.unwrap_or(None)),
        }
    }
}

fn measure(arguments: &Arguments, settings: Settings) -> Result<Report, BenchError> {
    settings.check()?;
    let at = |mode| Settings { mode, ..settings.clone() };
    // None is found to be impossible after others were measured.
    (arguments.rates.rate.iter()).try_for_each(|&rate| at(LoadMode::Open { rate }).check())?;
    let mut generators = Generators::open(&arguments.from.from, &settings)?;
    let mut report = Report {
        core_round_trip: arguments.core_round_trip()?,
        hash_ns: (arguments.is_here() && !arguments.cores.no_calibration)
            .then(|| hash_ns(&settings.records)),
        loaded: match arguments.run.no_load {
            true => None,
            false => Some(generators.load(&settings)?),
        },
        from: arguments.from.from.clone(),
        points: Vec::new(),
        settings,
    };
    let base = report.settings.clone();
    let mut at = |mode| generators.run(&Settings { mode, ..base.clone() });
    let mut rates = arguments.rates.rate.clone();
    if rates.is_empty() {
        let closed = at(LoadMode::Closed)?;
        if let Some(count) = arguments.rates.curve {
            let (most, ..) = closed.throughput();
            let step = |index| 0.1 + 0.8 * f64::from(index) / f64::from(count - 1);
            rates = (0..count).map(|index| most * step(index)).collect();
        }
        report.points.push(closed);
    }
    for rate in rates {
        let point = at(LoadMode::Open { rate })?;
        report.points.push(point);
    }
    Ok(report)
}
