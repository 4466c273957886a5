//! `overside flow serve`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::value_parser;
use overside_flow::Definition;
use overside_flow_service::{Limits, Server, Settings, Work};
use overside_link::Password;
use overside_link::agent::keys;
use overside_log::LevelFilter;
use serde_json::json;

use super::output;
use overside_command::{
    complain, exit,
    logging::Verbosity,
    options::{Placement, size_within, time_within},
    system,
};

/// The port of Flight SQL's drivers, which others of Flight have taken up.
const PORT: u16 = 31337;
const SECONDS_MAX: f64 = 1e9;
const MESSAGE: RangeInclusive<usize> = 64 << 10..=2 << 30;

/// Run a pipeline on Arrow Flight streams
#[derive(clap::Args)]
#[command(after_help = "\
Producers put streams in, subscribers get what comes out (docs/flow/flow-service.md). With --node there is no \
pipeline: it runs single stages for other services. The service runs until SIGTERM or SIGINT, and then \
delivers what it has.

Example: overside flow serve errors.toml")]
pub(super) struct Arguments {
    /// The pipeline (docs/flow/flow-pipeline.md)
    #[arg(value_name = "PIPELINE.toml", required_unless_present = "node")]
    pipeline: Option<PathBuf>,
    /// Run stages for other services
    #[arg(long, conflicts_with = "pipeline")]
    node: bool,
    #[command(flatten)]
    access: Access,
    #[command(flatten)]
    limits: LimitArguments,
    #[command(flatten)]
    operation: Operation,
    #[command(flatten)]
    placement: Placement,
    #[command(flatten)]
    verbosity: Verbosity,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Access")]
struct Access {
    /// IP address to listen at, with or without a port
    #[arg(long, value_name = "ADDRESS", value_parser = address,
          default_value_t = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT))]
    listen: SocketAddr,
    /// File whose first line clients send as bearer token, or as password with any user name; others must
    /// not be able to read it. Required where other machines can connect without a certificate
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    password_file: Option<PathBuf>,
    /// TLS, with server.pem and server.key in DIR, and ca.pem for client certificates
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    tls_keys: Option<PathBuf>,
    /// Certificates of clients: `required` admits those that ca.pem signed
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = ClientCertificates::None,
          requires = "tls_keys")]
    tls_clients: ClientCertificates,
    /// Serve metrics for Prometheus at http://ADDRESS/metrics and a live page at http://ADDRESS/: counts and
    /// sizes, to anyone who can connect
    #[arg(long, value_name = "ADDRESS", value_parser = full_address)]
    metrics: Option<SocketAddr>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Operation")]
struct Operation {
    /// On shutdown, wait this long for what is on its way
    #[arg(long, value_name = "TIME", default_value = "10s",
          value_parser = time_within(0.0..=SECONDS_MAX))]
    drain: Duration,
    /// Start although batches that were acknowledged are lost from a damaged spill directory, and count them
    #[arg(long, conflicts_with = "node")]
    accept_loss: bool,
    /// Print addresses as JSON
    #[arg(long)]
    json: bool,
    /// Run stages so many times slower than this machine is
    #[arg(long, value_name = "FACTOR", hide = true, requires = "node", default_value_t = 1.0)]
    slowdown: f64,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Limits")]
struct LimitArguments {
    /// Most connections at a time
    #[arg(long, value_name = "N", default_value_t = 1_024,
          value_parser = value_parser!(u32).range(1..=1_000_000))]
    max_connections: u32,
    /// Most subscribers at a time
    #[arg(long, value_name = "N", default_value_t = 256,
          value_parser = value_parser!(u32).range(1..=1_000_000))]
    max_subscribers: u32,
    /// Most streams at a time of a node; a pipeline's definition has its own
    #[arg(long, value_name = "N", default_value_t = 64, requires = "node",
          value_parser = value_parser!(u32).range(1..=1_000_000))]
    streams: u32,
    /// Longest message
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size_within(MESSAGE))]
    message_size: usize,
    /// Let subscribers go that take nothing for so long while others wait for them
    #[arg(long, value_name = "TIME", default_value = "60s",
          value_parser = time_within(1.0..=SECONDS_MAX))]
    stall: Duration,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ClientCertificates {
    None,
    Required,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let ip = || text.parse().map(|ip| SocketAddr::new(ip, PORT));
    (text.parse().or_else(|_| ip()))
        .map_err(|_| format!("not an IP address; write it as 127.0.0.1:{PORT}"))
}

fn full_address(text: &str) -> Result<SocketAddr, String> {
    (text.parse()).map_err(|_| "not an address; write it as 127.0.0.1:9122".into())
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let verbosity = arguments.verbosity.clone();
    if let Err(code) = verbosity.start("flow", LevelFilter::INFO, exit::USAGE) {
        return code;
    }
    let complain = |code: u8| {
        move |message: String| {
            complain!("overside flow serve: {message}");
            ExitCode::from(code)
        }
    };
    let checked = arguments.access.check().and_then(|()| arguments.definition());
    let definition = match checked {
        Ok(definition) => definition,
        Err(message) => return complain(exit::USAGE)(message),
    };
    serve(arguments, definition).unwrap_or_else(complain(exit::ABSENT))
}

impl Access {
    /// Refuses what would admit other machines by mistake.
    fn check(&self) -> Result<(), String> {
        let has_certificates = self.tls_clients == ClientCertificates::Required;
        match self.password_file.is_some() || has_certificates || self.listen.ip().is_loopback() {
            true => Ok(()),
            false => Err(format!(
                "other machines can reach {}, so --password-file FILE is required, or --tls-clients required; \
                 create a password with `(umask 077; openssl rand -base64 24 > FILE)`",
                self.listen
            )),
        }
    }

    fn settings(&self, threads: usize) -> Result<Settings, String> {
        let read = |path: &PathBuf| Password::read(path).map_err(|error| error.to_string());
        let requires_certificates = self.tls_clients == ClientCertificates::Required;
        let tls = (self.tls_keys.as_deref())
            .map(|directory| keys::server(directory, requires_certificates))
            .transpose()
            .map_err(|error| error.to_string())?;
        Ok(Settings {
            listen: self.listen,
            tls,
            password: self.password_file.as_ref().map(read).transpose()?,
            metrics: self.metrics,
            threads,
        })
    }
}

impl Arguments {
    /// The pipeline; a node has none.
    fn definition(&self) -> Result<Option<Definition>, String> {
        if self.pipeline.is_some() && self.placement.device().is_some() {
            let reason = "--device is for --node; a pipeline's file has it in [unpack], [repack] and its stages";
            return Err(reason.into());
        }
        let read = |path: &PathBuf| Definition::read(path).map_err(|error| error.to_string());
        let mut definition = self.pipeline.as_ref().map(read).transpose()?;
        if let Some(spill) = definition.as_mut().and_then(|one| one.spill.as_mut()) {
            spill.accepts_loss = self.operation.accept_loss;
        }
        Ok(definition)
    }

    fn limits(&self) -> Limits {
        Limits {
            message_bytes: self.limits.message_size,
            connections: self.limits.max_connections as usize,
            subscribers: self.limits.max_subscribers as usize,
            stall: self.limits.stall,
            drain: self.operation.drain,
            ..Limits::default()
        }
    }
}

/// Longest time that the service keeps memory that it freed.
const FREED_MEMORY_KEPT: Duration = Duration::from_secs(2);

fn serve(arguments: &Arguments, definition: Option<Definition>) -> Result<ExitCode, String> {
    let failed = |error: overside_flow_service::ServiceError| error.to_string();
    let settings = arguments.access.settings(arguments.placement.threads())?;
    system::fail_writes_beyond_limits();
    // Messages of megabytes come and go; new pages for each would take longer than reading them.
    system::keep_freed_memory(64 << 20, 1);
    system::block_shutdown_signals();
    system::return_freed_memory_every(FREED_MEMORY_KEPT);
    let limits = arguments.limits();
    let work = match definition {
        Some(definition) => Work::Pipeline(Box::new(definition)),
        None => Work::Node {
            streams: arguments.limits.streams as usize,
            pool: output::pool(&arguments.placement)?,
        },
    };
    let server = Server::bind(work, limits, settings).map_err(failed)?;
    server.service().faults.slow_down(arguments.operation.slowdown);
    announce(&server, arguments.operation.json);
    let service = Arc::clone(server.service());
    thread::spawn(move || {
        system::wait_for_shutdown();
        service.end();
        // Another signal ends the process at once, by what signals do.
    });
    let ended = server.run().map_err(failed)?;
    if ended.unsafe_batches == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    complain!(
        "overside flow serve: {} batches were not delivered in time; their producers have no acknowledgement",
        ended.unsafe_batches
    );
    // A blocked thread must not keep the process alive.
    process::exit(exit::INCOMPLETE.into());
}

/// Says where it listens.
fn announce(server: &Server, as_json: bool) {
    let address = server.address();
    let metrics = server.metrics_address();
    let text = match as_json {
        true => format!(
            "{}\n",
            json!({
                "schema": "flow-server/1",
                "address": address.to_string(),
                "metrics": metrics.map(|address| address.to_string()),
            })
        ),
        false => {
            let page = metrics.map_or_else(String::new, |address| format!(", http://{address}/"));
            format!("listening at {address}{page}\n")
        }
    };
    // A closed stdout is no reason to end.
    let _ = overside_command::print(&text);
}
