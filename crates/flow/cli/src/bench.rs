//! `overside flow bench`.

use std::cell::RefCell;
use std::ffi::OsString;
use std::process::ExitCode;

use clap::ArgGroup;
use overside_backends::Options;
use overside_device::Clock;
use overside_flow::bench::{Algorithm, Bench, BenchOptions, Pass};
use overside_flow::pack::{Codec, Outer, PackOptions};
use overside_flow::{Error, TableError};
use overside_placement::{Policy, Verify};

use super::bench_text::{self, Measured};
use super::input::{CsvArguments, Input};
use super::method::MethodArguments;
use super::output;
use overside_command::{complain, exit, logging::Verbosity, options::Placement, print_result};

/// Measure unpacking, partitioning and packing a table, from memory to memory
#[derive(clap::Args)]
#[command(
    group(ArgGroup::new("method").args(["bits", "hash", "ranges"]).requires("key")),
    after_help = "\
The table is read and packed first. A pass then unpacks it, partitions it, and packs each partition, one \
stage after the other. Every pass is verified: each partition is unpacked and compared with what the \
other algorithm finds. A first pass is not measured.

Example: overside flow bench particles.arrow --key id --bits 2 --codec lz4 --threads 1"
)]
pub(super) struct Arguments {
    /// The table; - is stdin
    #[arg(value_name = "TABLE")]
    table: OsString,
    /// The column that decides [default: none; the table is unpacked and packed again]
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true, requires = "method")]
    key: Option<String>,
    #[command(flatten)]
    method: MethodArguments,
    /// one-pass, or filters: one filter over the whole table for each partition
    #[arg(long, value_name = "HOW", default_value = "one-pass")]
    algorithm: Algorithm,
    /// none, lz4 or zstd[:LEVEL] for each buffer
    #[arg(long, value_name = "CODEC", default_value = "none")]
    codec: Codec,
    /// deflate, gzip, zlib, lz4 or zstd[:LEVEL] for whole messages
    #[arg(long, value_name = "CODEC", conflicts_with = "codec")]
    outer: Option<Outer>,
    /// Passes that are measured
    #[arg(long, value_name = "N", default_value = "5",
          value_parser = clap::value_parser!(u32).range(1..=PASSES_MAX))]
    passes: u32,
    /// Print each pass as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    placement: Placement,
    #[command(flatten)]
    pub verbosity: Verbosity,
}

const PASSES_MAX: i64 = 1000;
/// The longest table in memory: there are up to five copies of it.
const TABLE_BYTES_MAX: usize = 8 << 30;

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, String> {
    match arguments.measure() {
        Ok(measured) => {
            let (json, text) = (|| bench_text::json(&measured), || bench_text::table(&measured));
            Ok(print_result(arguments.json, json, text))
        }
        Err(Failure::Refused(message)) => Err(message),
        Err(Failure::Exit(code, message)) => {
            complain!("overside flow bench: {message}");
            Ok(ExitCode::from(code))
        }
    }
}

/// Reason why a benchmark has no results.
enum Failure {
    Refused(String),
    Exit(u8, String),
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Refused(message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Verification(_) => Self::Exit(exit::UNVERIFIED, message),
            Error::Table(TableError::Job(_) | TableError::Placement(_)) => {
                Self::Exit(exit::FAILED, message)
            }
            _ => Self::Refused(message),
        }
    }
}

impl Arguments {
    fn measure(&self) -> Result<Measured, Failure> {
        let key = (self.key.as_ref()).map(|column| self.method.key(column)).transpose()?;
        let device = RefCell::new(None);
        let is_emulated = |name: &str| overside_backends::profile_of(name).is_some();
        let clock = match self.placement.device() {
            Some(name) if is_emulated(name) => Clock::of_work(),
            _ => Clock::default(),
        };
        let open = |name: &str, threads| {
            let options = Options { threads, clock: clock.clone(), ..Options::default() };
            let opened = overside_backends::open(name, &options)?;
            *device.borrow_mut() = Some(opened.info().clone());
            Ok(vec![opened])
        };
        // Every output is verified whatever the device says.
        let verify = self.placement.verify().unwrap_or(Verify::None);
        let pool = output::pool_with(&self.placement, verify, clock.clone(), open)?;
        let threads = output::threads(self.placement.threads())?;
        let mut input = Input::open(&self.table, &CsvArguments::default(), &threads)?;
        let batches = input.rows(TABLE_BYTES_MAX)?;
        let (name, schema) = (&input.name, input.reader.schema());
        let how = match &self.outer {
            Some(outer) => format!("{outer} of whole messages"),
            None => format!("codec {}", self.codec),
        };
        let title = match &key {
            Some(key) => format!("{name} partitioned ({key}, {}), {how}", self.algorithm),
            None => format!("{name} unpacked and packed, {how}"),
        };
        let is_partitioned = key.is_some();
        let options = BenchOptions {
            key,
            algorithm: self.algorithm,
            pack: PackOptions { codec: self.codec, outer: self.outer, ..PackOptions::default() },
        };
        let mut bench = Bench::new(schema, batches, options, &pool)?;
        let first = bench.pass()?;
        let device = device.into_inner();
        if let Some(device) = &device {
            self.takes_part(&first, &device.name)?;
        }
        let passes = (0..self.passes).map(|_| bench.pass()).collect::<Result<_, _>>()?;
        Ok(Measured {
            title,
            threads: self.placement.threads(),
            packed_bytes: bench.packed_bytes(),
            passes,
            device,
            algorithm: self.algorithm,
            is_partitioned,
        })
    }

    /// Refuses to measure a device that took no part, and work that the CPU did in its place.
    fn takes_part(&self, pass: &Pass, name: &str) -> Result<(), Failure> {
        let policy = self.placement.policy()?;
        if policy.uses_device() && policy != Policy::Adaptive && pass.device.jobs == 0 {
            let what = format!("{name} does nothing of it: there is no job that it can do");
            return Err(Failure::Exit(exit::ABSENT, what));
        }
        if policy == Policy::Device && pass.device.cpu_jobs > 0 {
            let what = format!("{} jobs failed on {name}", pass.device.cpu_jobs);
            return Err(Failure::Exit(exit::FAILED, what));
        }
        Ok(())
    }
}
