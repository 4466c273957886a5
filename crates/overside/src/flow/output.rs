//! Tables that are written.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use overside_flow::Error;
use overside_flow::files::{FileFormat, FileWriter, WriteOptions};
use overside_flow::pack::{Codec, CodecPool, Outer, Placement as CodecPlacement};
use overside_placement::Verify;
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, flock, linkat, openat};
use rustix::io::Errno;

use crate::files::rename_to_new;
use crate::logging::Verbosity;
use crate::messages::shown;
use crate::options::Placement;

/// What is gathered for a file before it is written.
const BUFFER_BYTES: usize = 256 << 10;

/// Rows of a batch that is written.
const BATCH_ROWS: usize = 64 << 10;

/// How tables are written, and where they are compressed.
#[derive(clap::Args)]
#[command(next_help_heading = "Output")]
pub struct OutputArguments {
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
    pub fn options(&self) -> WriteOptions {
        WriteOptions {
            format: self.format,
            codec: self.codec,
            outer: self.outer,
        }
    }
}

/// The threads, and the device beside them.
pub fn pool(placement: &Placement) -> Result<Arc<CodecPool>, String> {
    let threads = NonZeroUsize::new(placement.threads()).unwrap_or(NonZeroUsize::MIN);
    let policy = placement.policy()?;
    let pool = match placement.device() {
        None => CodecPool::new(threads),
        Some(name) => {
            let device = overside_backends::open_accelerator(name, threads.get());
            let device = device.map_err(|error| error.to_string())?;
            let verify = placement.verify().unwrap_or(Verify::All);
            let placement = CodecPlacement {
                policy,
                device,
                verify,
            };
            CodecPool::with_placement(threads, placement)
        }
    };
    Ok(Arc::new(pool.map_err(|error| error.to_string())?))
}

/// A file that gets its name when it is whole. Until then it has none where the file system can do
/// that (`O_TMPFILE`, open(2)), so that nothing is left of it however the process ends.
pub struct Output {
    writer: BufWriter<File>,
    path: PathBuf,
    /// What it is called until then, if it has to have a name; removed by `overside clean` too.
    temporary: Option<PathBuf>,
    force: bool,
}

impl Output {
    /// Begins the file.
    pub fn create(path: &Path, force: bool) -> Result<Self, String> {
        let name = shown(path);
        if !force && path.symlink_metadata().is_ok() {
            return Err(format!("{name} exists; --force replaces it"));
        }
        let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let opened = openat(CWD, directory(path), flags, Mode::from_raw_mode(0o666));
        let (file, temporary) = match opened {
            Ok(file) => (Ok(File::from(file)), None),
            Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
                let temporary = temporary_name(path);
                (File::create_new(&temporary), Some(temporary))
            }
            Err(error) => (Err(error.into()), None),
        };
        let file = file.and_then(|file| {
            if temporary.is_some() {
                flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            }
            Ok(file)
        });
        let file = file.map_err(|error| format!("{name}: {error}"))?;
        Ok(Self {
            writer: BufWriter::with_capacity(BUFFER_BYTES, file),
            path: path.into(),
            temporary,
            force,
        })
    }

    /// Gives the file its name. That, and its length in bytes.
    pub fn finish(mut self) -> Result<(String, u64), String> {
        let name = shown(&self.path);
        let len = self.writer.flush().and_then(|()| {
            let len = self.writer.get_ref().metadata()?.len();
            self.give_name().map(|()| len)
        });
        let len = len.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => format!("{name} exists; --force replaces it"),
            _ => format!("{name}: {error}"),
        })?;
        Ok((name, len))
    }

    fn give_name(&mut self) -> io::Result<()> {
        if self.temporary.is_none() {
            let own = format!("/proc/self/fd/{}", self.writer.get_ref().as_raw_fd());
            let link = |path: &Path| linkat(CWD, &own, CWD, path, AtFlags::SYMLINK_FOLLOW);
            match link(&self.path) {
                // A link replaces nothing; a file that has another name can.
                Err(Errno::EXIST) if self.force => {
                    let temporary = temporary_name(&self.path);
                    link(&temporary)?;
                    self.temporary = Some(temporary);
                }
                linked => return Ok(linked?),
            }
        }
        let Some(temporary) = self.temporary.as_ref() else {
            return Ok(());
        };
        match self.force {
            true => std::fs::rename(temporary, &self.path)?,
            false => rename_to_new(temporary, &self.path)?,
        }
        self.temporary = None;
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = std::fs::remove_file(temporary);
        }
    }
}

fn directory(path: &Path) -> &Path {
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Nobody else's: the process and a number of its own.
fn temporary_name(path: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    directory(path).join(format!(".overside-{process:08x}{number:08x}.tmp"))
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// A table that is made: which file, and how.
#[derive(clap::Args)]
pub struct TableArguments {
    /// The file to write
    #[arg(value_name = "FILE")]
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
    pub fn pool(&self) -> Result<Arc<CodecPool>, String> {
        pool(&self.placement)
    }

    /// Writes the first so many rows of `batches`.
    pub fn write(
        &self,
        pool: &Arc<CodecPool>,
        schema: &SchemaRef,
        rows: u64,
        batches: impl Iterator<Item = Result<RecordBatch, Error>>,
    ) -> Result<ExitCode, String> {
        let failed = |error: Error| error.to_string();
        let output = Output::create(&self.file, self.output.force)?;
        let writer = FileWriter::new(output, schema, self.output.options(), pool);
        let mut writer = writer.map_err(failed)?;
        let mut left = usize::try_from(rows).map_err(|error| error.to_string())?;
        for batch in batches {
            let batch = batch.map_err(failed)?;
            let rows = left.min(batch.num_rows());
            left -= rows;
            for begin in (0..rows).step_by(BATCH_ROWS) {
                let part = batch.slice(begin, BATCH_ROWS.min(rows - begin));
                writer.write(&part).map_err(failed)?;
            }
            if left == 0 {
                break;
            }
        }
        let (output, _) = writer.finish().map_err(failed)?;
        output.finish().map(|_| ExitCode::SUCCESS)
    }
}
