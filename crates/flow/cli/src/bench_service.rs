//! `overside flow bench-service`.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use arrow_array::RecordBatch;
use overside_config::units;
use overside_flow::operators::parts;
use overside_flow::pack::{Codec, Outer, PackOptions};
use overside_flow_service::Target;
use overside_flow_service::load_waves::{BATCHES_MAX, Wave, WaveOptions, send_waves};
use serde_json::json;

use super::input::{CsvArguments, Input};
use super::output;
use overside_command::{
    columns::columns,
    line,
    logging::Verbosity,
    messages::shown,
    options::{size_within, time_within},
    print_result,
};

/// Send waves of a table to a pipeline that is served, and tell how it copes
#[derive(clap::Args)]
#[command(after_help = "\
A wave has --burst times --rate bytes of values a second, for --burst-time; until the next one nothing is sent. \
Batches are sent when they are due, however long the service takes (open loop). The backlog, memory and \
disk are what the service's statistics say, every 20 ms. A wave has drained when all of it is acknowledged and \
no queue has any batch left: outputs to subscribers need some.

Example: overside flow bench-service grpc://127.0.0.1:31337/positions positions.parquet --rate 50MiB --burst 4")]
pub(super) struct Arguments {
    /// The pipeline: grpc://HOST:PORT/PATH or grpc+tls://HOST:PORT/PATH
    #[arg(value_name = "SERVICE")]
    service: String,
    /// The table, which is sent over and over again; - is stdin
    #[arg(value_name = "TABLE")]
    table: OsString,
    #[command(flatten)]
    waves: WaveArguments,
    /// File whose first line is the service's password
    #[arg(long, value_name = "FILE", allow_hyphen_values = true)]
    password_file: Option<PathBuf>,
    /// Directory with ca.pem, and host.pem and host.key if the service wants certificates
    #[arg(long, value_name = "DIR", allow_hyphen_values = true)]
    tls_keys: Option<PathBuf>,
    /// Print each wave as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    pub verbosity: Verbosity,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Waves")]
struct WaveArguments {
    /// The sustained rate: bytes of values a second that the service takes all the time
    #[arg(long, value_name = "SIZE", value_parser = size_within(1..=(1 << 40)))]
    rate: usize,
    /// Rate of a wave, as a multiple of the rate
    #[arg(long, value_name = "FACTOR", default_value_t = 4.0, value_parser = factor)]
    burst: f64,
    /// Duration of a wave
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = time_within(SECONDS))]
    burst_time: Duration,
    /// Time from the beginning of a wave to that of the next [default: --burst times --burst-time, twice]
    #[arg(long, value_name = "TIME", value_parser = time_within(SECONDS))]
    every: Option<Duration>,
    /// Number of waves
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    waves: u32,
    /// Longest time that the last wave may take to drain
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time_within(SECONDS))]
    drain: Duration,
    /// none, lz4 or zstd[:LEVEL] for each buffer of what is sent
    #[arg(long, value_name = "CODEC", default_value = "none")]
    codec: Codec,
    /// deflate, gzip, zlib, lz4 or zstd[:LEVEL] for whole messages, if the service says that it reads that
    #[arg(long, value_name = "CODEC", conflicts_with = "codec")]
    outer: Option<Outer>,
    /// Rows of a batch
    #[arg(long, value_name = "N", default_value_t = 8_192, value_parser = rows)]
    rows: usize,
}

/// Allowed times, in seconds.
const SECONDS: RangeInclusive<f64> = 0.001..=1e5;
/// The longest table in memory.
const TABLE_BYTES_MAX: usize = 4 << 30;

fn factor(text: &str) -> Result<f64, String> {
    let parsed = text.parse().ok().filter(|factor| (0.001..=1e6).contains(factor));
    parsed.ok_or_else(|| "a number from 0.001 to 1000000".into())
}

fn rows(text: &str) -> Result<usize, String> {
    let parsed = text.parse().ok().filter(|rows| (1..=1 << 20).contains(rows));
    parsed.ok_or_else(|| "from 1 to 1048576".into())
}

impl WaveArguments {
    fn options(&self) -> Result<WaveOptions, String> {
        let length = self.burst_time;
        let usual = || length.mul_f64(2.0 * self.burst.max(1.0));
        let every = self.every.unwrap_or_else(usual);
        if every < length {
            return Err("--every is shorter than --burst-time: waves would overlap".into());
        }
        Ok(WaveOptions {
            bytes_per_s: self.rate as f64 * self.burst,
            length,
            every,
            waves: self.waves,
            drain: self.drain,
            pack: PackOptions { codec: self.codec, outer: self.outer, ..PackOptions::default() },
        })
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    let options = arguments.waves.options()?;
    let (keys, password) = (&arguments.tls_keys, &arguments.password_file);
    let target = Target::with_files(&arguments.service, keys, password);
    let target = target.map_err(|error| error.to_string())?;
    let pool = output::threads(1)?;
    let mut input = Input::open(&arguments.table, &CsvArguments::default(), &pool)?;
    let whole = input.rows(TABLE_BYTES_MAX)?;
    let bytes: usize = whole.iter().map(RecordBatch::get_array_memory_size).sum();
    let batches: Vec<RecordBatch> =
        whole.iter().flat_map(|batch| parts(batch, arguments.waves.rows)).collect();
    let sent = options.bytes_per_s * options.length.as_secs_f64() * f64::from(options.waves);
    let batch_bytes = (bytes / batches.len()).max(1) as f64;
    if sent / batch_bytes > BATCHES_MAX as f64 {
        return Err("too many batches: take more --rows, or fewer or shorter waves".into());
    }
    let waves = send_waves(&target, input.reader.schema(), &batches, &options, &pool);
    let waves = waves.map_err(|error| error.to_string())?;
    let json = || {
        json!({
            "schema": "flow-waves/1",
            "service": arguments.service,
            "rate_bytes_per_s": arguments.waves.rate,
            "wave_bytes_per_s": options.bytes_per_s,
            "wave_ns": options.length.as_nanos() as u64,
            "every_ns": options.every.as_nanos() as u64,
            "waves": waves,
        })
    };
    let text = || table(&arguments.service, &options, &waves);
    Ok(print_result(arguments.json, json, text))
}

fn table(service: &str, options: &WaveOptions, waves: &[Wave]) -> String {
    let mut text = String::new();
    let drained = waves.iter().filter(|wave| wave.drain_ns.is_some()).count();
    let spilled: u64 = waves.iter().map(|wave| wave.spilled_batches).sum();
    let memory = waves.iter().filter_map(|wave| wave.memory_max_bytes).max();
    line!(
        text,
        "{drained} of {} waves of {} for {} drained in time; {}; {}",
        waves.len(),
        units::rate(options.bytes_per_s),
        units::duration(options.length.as_secs_f64()),
        match spilled {
            0 => "nothing went to disk".into(),
            spilled => format!("{} batches went to disk", units::count(spilled)),
        },
        match memory {
            Some(bytes) =>
                format!("{} has {} of memory at most", shown(service), units::size(bytes as f64)),
            None => format!("{} does not say its memory", shown(service)),
        }
    );
    let head = [
        "wave",
        "sent",
        "rate",
        "behind",
        "backlog",
        "waiting",
        "on disk",
        "memory",
        "drained after",
        "acknowledged p50",
        "p99",
    ];
    let time = |ns: u64| units::duration(ns as f64 / 1e9);
    let known = |ns: Option<u64>| ns.map_or("–".into(), time);
    let rows = waves.iter().enumerate().map(|(number, wave)| {
        let seconds = options.length.as_secs_f64().max(wave.send_ns as f64 / 1e9);
        [
            (number + 1).to_string(),
            units::size(wave.bytes as f64),
            units::rate(wave.bytes as f64 / seconds),
            time(wave.behind_max_ns),
            units::count(wave.backlog_max_batches),
            units::size(wave.queue_memory_max_bytes as f64),
            units::size(wave.spilled_max_bytes as f64),
            wave.memory_max_bytes.map_or("–".into(), |bytes| units::size(bytes as f64)),
            known(wave.drain_ns),
            known(wave.acknowledged_p50_ns),
            known(wave.acknowledged_p99_ns),
        ]
    });
    text += &columns(head, rows);
    text
}
