//! Tables that are written.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use overside_backends::OpenError;
use overside_command::{complain, logging::Verbosity, messages::shown, options::Placement};
use overside_device::{Clock, Device};
use overside_flow::Error;
use overside_flow::files::{FileFormat, FileWriter, OutputFile, WriteOptions};
use overside_flow::operators::parts;
use overside_flow::pack::{Codec, CodecPool, Outer, Placement as CodecPlacement};
use overside_placement::Verify;

use crate::input::local_path;

/// Rows of a batch that is written.
pub(super) const BATCH_ROWS: usize = 64 << 10;

/// Format of written tables, and placement of their compression.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArguments {
    /// arrow, arrow-stream, parquet or csv
    #[arg(long, value_name = "FORMAT", default_value = "arrow")]
    pub format: FileFormat,
    /// none, lz4 or zstd[:LEVEL] for each buffer of Arrow and each page of Parquet, for every reader
    #[arg(long, value_name = "CODEC", default_value = "none")]
    pub codec: Codec,
    /// deflate, gzip, zlib, lz4 or zstd[:LEVEL] for whole messages of Arrow, which only overside reads
    #[arg(long, value_name = "CODEC", conflicts_with = "codec")]
    pub outer: Option<Outer>,
    /// Replace files that are there
    #[arg(short, long)]
    pub force: bool,
}

impl OutputArguments {
    pub(super) fn options(&self) -> WriteOptions {
        WriteOptions {
            format: self.format,
            codec: self.codec,
            outer: self.outer,
            ..WriteOptions::default()
        }
    }
}

/// The threads, and the device beside them. An emulated device takes the time that its card would.
pub(super) fn pool(placement: &Placement) -> Result<Arc<CodecPool>, String> {
    let open = |name: &str, threads| overside_backends::open_accelerators(name, threads);
    let verify = placement.verify().unwrap_or(Verify::All);
    pool_with(placement, verify, Clock::default(), open)
}

/// The threads, and the devices that `open` makes of their names.
pub(super) fn pool_with(
    placement: &Placement,
    verify: Verify,
    clock: Clock,
    open: impl FnOnce(&str, usize) -> Result<Vec<Arc<dyn Device>>, OpenError>,
) -> Result<Arc<CodecPool>, String> {
    let threads = NonZeroUsize::new(placement.threads()).unwrap_or(NonZeroUsize::MIN);
    let policy = placement.policy()?;
    let pool = match placement.device() {
        None => CodecPool::on_clock(threads, clock),
        Some(name) => {
            let devices = open(name, threads.get()).map_err(|error| error.to_string())?;
            let placement = CodecPlacement { policy, devices, verify };
            CodecPool::on_clock(threads, clock).map(|pool| pool.beside_devices(placement))
        }
    };
    Ok(Arc::new(pool.map_err(|error| error.to_string())?))
}

/// Threads without a device.
pub(super) fn threads(count: usize) -> Result<Arc<CodecPool>, String> {
    let count = NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
    let pool = CodecPool::new(count).map_err(|error| error.to_string())?;
    Ok(Arc::new(pool))
}

/// Says which columns the format stores as another type. Those that only get a finer unit are named with `-v`.
pub(super) fn say_conversions(
    options: WriteOptions,
    schema: &SchemaRef,
    verbosity: &Verbosity,
) -> Result<(), Error> {
    for note in options.check_columns(schema)? {
        if !note.is_minor || verbosity.is_verbose() {
            complain!("overside flow: {}", note.text);
        }
    }
    Ok(())
}

/// Message for an error of a file that is written; it names `--force` if the file exists.
pub(super) fn said(error: impl Into<Error>) -> String {
    let error = error.into();
    match error {
        Error::Exists(path) => format!("{} exists; --force replaces it", shown(path)),
        other => other.to_string(),
    }
}

/// A table that is made: which file, and how.
#[derive(clap::Args)]
pub(super) struct TableArguments {
    /// The file to write
    #[arg(value_name = "FILE", value_parser = local_path())]
    file: PathBuf,
    /// The same seed gives the same rows
    #[arg(long, value_name = "N", default_value = "0")]
    pub seed: u64,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    placement: Placement,
    #[command(flatten)]
    pub verbosity: Verbosity,
}

impl TableArguments {
    /// The threads, and the device beside them.
    pub(super) fn pool(&self) -> Result<Arc<CodecPool>, String> {
        pool(&self.placement)
    }

    /// Writes the first `rows` rows of `batches`.
    pub(super) fn write(
        &self,
        pool: &Arc<CodecPool>,
        schema: &SchemaRef,
        rows: u64,
        batches: impl Iterator<Item = Result<RecordBatch, Error>>,
    ) -> Result<ExitCode, String> {
        let failed = said;
        let output = OutputFile::create(&self.file, self.output.force).map_err(failed)?;
        let writer = FileWriter::new(output, schema, self.output.options(), pool);
        let mut writer = writer.map_err(failed)?;
        let mut left = usize::try_from(rows).map_err(|error| error.to_string())?;
        for batch in batches {
            let batch = batch.map_err(failed)?;
            let rows = left.min(batch.num_rows());
            left -= rows;
            for part in parts(&batch.slice(0, rows), BATCH_ROWS) {
                writer.write(&part).map_err(failed)?;
            }
            if left == 0 {
                break;
            }
        }
        let (output, _) = writer.finish().map_err(failed)?;
        let finished = output.finish(false).map_err(failed);
        finished.map(|_| ExitCode::SUCCESS)
    }
}
