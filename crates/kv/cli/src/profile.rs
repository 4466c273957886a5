//! `overside kv profile`.
//!
//! 1. Starts a server in a process of its own, or takes one that runs.
//! 2. Writes the records and warms up, as `overside kv bench` does.
//! 3. Reads the server's counters with `INFO`, runs the workload, and reads them again.
//! 4. Says how the difference is shared out among the stages.

mod breakdown;
mod info;
mod server_process;
mod text;

use std::process::ExitCode;
use std::time::Duration;

use overside_kv_bench::{BenchError, Point, ProtocolKind, Settings};
use overside_kv_offload::{LinkCost, link_cost};
use overside_log::LevelFilter;

use super::bench::{
    LoadArguments, RunArguments, Server, WorkArguments, exit_code, remedy, server, settings,
};
use breakdown::Breakdown;
use info::ServerCounters;
use overside_command::{complain, exit, logging::Verbosity, print_result};
use server_process::ServerProcess;

/// Measure where the server's time goes: receive, parse, process, respond
#[derive(clap::Args)]
#[command(after_help = "\
Records are written first, then the workload runs in closed loop while the server counts the time of each \
stage. Other clients of the server are counted too.

Examples:
  overside kv profile --server-core 0 --core 1 -P 64 --key-size 8 --value-size 8 --reads 100
                                small requests in deep pipelines, server and load on a core each
  overside kv profile -P 64 -- --design sav --dpu dpu0
                                both sides of a design")]
pub(super) struct Arguments {
    /// A running `overside kv serve`: redis://HOST:PORT, or redis:PATH for a Unix socket [default: one is
    /// started, and ended afterwards]
    #[arg(value_name = "SERVER", value_parser = redis)]
    server: Option<Server>,
    #[command(flatten)]
    work: WorkArguments,
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    run: RunArguments,
    #[command(flatten)]
    own: OwnServerArguments,
    #[command(flatten)]
    verbosity: Verbosity,
}

/// Options of the server that the profile starts.
#[derive(clap::Args)]
#[command(next_help_heading = "Server that is started")]
struct OwnServerArguments {
    /// Core that it runs on
    #[arg(long, value_name = "N", conflicts_with = "server")]
    server_core: Option<usize>,
    /// Never let it sleep
    #[arg(long, conflicts_with = "server")]
    server_busy_poll: bool,
    /// More options of its `kv serve`, such as `-- --design sav --dpu dpu0`
    #[arg(last = true, value_name = "OPTION", conflicts_with = "server")]
    options: Vec<String>,
}

/// Results of a profile.
struct Report {
    settings: Settings,
    point: Point,
    /// Breakdown of the time of the threads that serve clients.
    breakdown: Breakdown,
    /// Breakdown of the time of the thread that has the keys; `None` if the threads with clients
    /// have them.
    keys: Option<Breakdown>,
    /// Time for hashing a key, in nanoseconds. It is part of the time for parsing.
    hash_ns: f64,
    /// Cost that the link of an offloaded design would add; `None` if it could not be measured.
    link: Option<LinkCost>,
}

fn redis(text: &str) -> Result<Server, String> {
    let server = server(text)?;
    match server.protocol {
        ProtocolKind::Resp if !server.is_tls => Ok(server),
        _ => Err("the counters are read with INFO: write redis://127.0.0.1:6379".into()),
    }
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let verbosity = arguments.verbosity.clone();
    if let Err(code) = verbosity.start("kv profile", LevelFilter::WARN, exit::USAGE) {
        return code;
    }
    match profile(arguments) {
        Ok(report) => print_result(arguments.run.json, || report.to_json(), || report.to_text()),
        Err(Failure { message, code }) => {
            complain!("overside kv profile: {message}");
            code
        }
    }
}

/// Message and exit code if there is no result.
struct Failure {
    message: String,
    code: ExitCode,
}

impl Failure {
    fn new(message: impl Into<String>, code: u8) -> Self {
        let (message, code) = (message.into(), ExitCode::from(code));
        Self { message, code }
    }
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        Self { message: format!("{error}{}", remedy(&error)), code: exit_code(&error) }
    }
}

fn profile(arguments: &Arguments) -> Result<Report, Failure> {
    // The address of the server that is started is not known yet.
    let nowhere = || server("redis://127.0.0.1:0");
    let at = arguments.server.clone().map_or_else(nowhere, Ok);
    let settings = at.and_then(|at| settings(at, &arguments.work, &arguments.load, &arguments.run));
    let mut settings = settings.map_err(|message| Failure::new(message, exit::USAGE))?;
    settings.check()?;
    if arguments.server.is_none() && arguments.run.no_load {
        let message =
            "--no-load is for a server that has the records; the one started here has none";
        return Err(Failure::new(message, exit::USAGE));
    }
    let own = match arguments.server {
        Some(_) => None,
        None => {
            let own = ServerProcess::start(&arguments.own, &settings)
                .map_err(|message| Failure::new(message, exit::ABSENT))?;
            settings.address = own.address();
            // The server requires no password.
            settings.password = None;
            Some(own)
        }
    };
    let counters =
        || ServerCounters::read(&settings).map_err(|message| Failure::new(message, exit::ABSENT));
    counters()?;
    arguments.run.load(&settings)?;
    if !settings.warm_up.is_zero() {
        overside_kv_bench::run(&Settings {
            duration: settings.warm_up,
            warm_up: Duration::ZERO,
            windows: 1,
            ..settings.clone()
        })?;
    }
    let before = counters()?;
    let point = overside_kv_bench::run(&Settings { warm_up: Duration::ZERO, ..settings.clone() })?;
    let after = counters()?;
    let breakdown = Breakdown::new(&before.clients, &after.clients);
    let keys = before.keys.as_ref().zip(after.keys.as_ref());
    let keys = keys.map(|(before, after)| Breakdown::new(before, after));
    drop(own);
    let link = link(&settings, &breakdown);
    Ok(Report {
        hash_ns: overside_kv_bench::hash_ns(&settings.records),
        settings,
        point,
        breakdown,
        keys,
        link,
    })
}

/// Measures the cost of passing requests of this load over a link, on the core of the load. Returns `None` if
/// that fails, after a message to the user.
fn link(settings: &Settings, breakdown: &Breakdown) -> Option<LinkCost> {
    let batch = breakdown.per_batch(breakdown.commands as f64)?;
    let records = settings.records;
    let reads = settings.workload.read_share();
    let cost = link_cost(records.key_bytes, records.value_bytes, reads, batch.round() as usize);
    cost.inspect_err(|error| complain!("overside kv profile: the cost of a link: {error}")).ok()
}
