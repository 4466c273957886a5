//! Tables that are read.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use clap::builder::{PathBufValueParser, TypedValueParser};
use overside_command::complain;
use overside_command::messages::shown;
use overside_flow::files::{CsvOptions, FileReader, ReadOptions};
use overside_flow::operators::type_named;
use overside_flow::pack::CodecPool;
use overside_flow::{Destination, TableError, check_schema};

/// Types of columns in comma-separated values.
#[derive(clap::Args, Clone, Default)]
#[command(next_help_heading = "CSV")]
pub(super) struct CsvArguments {
    /// Types of columns of CSV, as in id=text,price='decimal(8,2)',at=timestamptz
    #[arg(long, value_name = "NAME=TYPE,...", allow_hyphen_values = true)]
    types: Option<String>,
    /// Read columns of CSV without a named type as text [default: as the type from which all text comes back the same]
    #[arg(long)]
    no_guess: bool,
}

impl CsvArguments {
    fn options(&self) -> Result<CsvOptions, String> {
        let mut options = CsvOptions { is_guessing: !self.no_guess, ..CsvOptions::default() };
        for entry in entries(self.types.as_deref().unwrap_or_default()) {
            let (name, kind) = (entry.rsplit_once('='))
                .ok_or_else(|| format!("--types: {entry:?} is not NAME=TYPE"))?;
            let kind = type_named(kind).map_err(|error| format!("--types: {name}: {error}"))?;
            options.types.insert(name.to_owned(), kind);
        }
        Ok(options)
    }
}

/// The entries of a list. Commas within parentheses separate none.
fn entries(list: &str) -> Vec<String> {
    let (mut depth, mut entries) = (0, vec![String::new()]);
    for letter in list.chars() {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        match entries.last_mut() {
            Some(entry) if letter != ',' || depth > 0 => entry.push(letter),
            _ => entries.push(String::new()),
        }
    }
    entries.retain(|entry| !entry.trim().is_empty());
    entries
}

/// Parser of the path of an output or a tree.
pub(super) fn local_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(local)
}

/// Takes a directory or a bucket for written tables.
pub(super) fn output_place() -> impl TypedValueParser<Value = Destination> {
    PathBufValueParser::new().try_map(|path| match path.to_str() {
        Some(text) if text.starts_with("s3://") => Ok(Destination::ObjectStore(text.into())),
        _ => local(path).map(Destination::Directory),
    })
}

/// Refuses an address, of which a local directory would be made.
fn local<P: AsRef<OsStr>>(path: P) -> Result<P, &'static str> {
    let text = path.as_ref().to_string_lossy();
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    match scheme.is_empty() || !scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => Ok(path),
        false => Err(
            "only local files are read and written here; `overside flow partition` and `flow run` write to \
             s3://BUCKET/PREFIX; copy an input here first",
        ),
    }
}

/// Open table with its name.
pub(super) struct Input {
    pub name: String,
    pub reader: FileReader,
}

/// The columns of the first of several tables, which all are to have.
pub(super) struct Columns {
    /// Name of the first table.
    pub of: String,
    pub schema: SchemaRef,
}

impl Columns {
    /// Returns an error if the table of `input` has other columns.
    pub(super) fn check(&self, input: &Input) -> Result<(), String> {
        check_schema(&self.schema, input.reader.schema()).map_err(|error| match error {
            TableError::SchemaChange { difference } => {
                let (name, of) = (&input.name, &self.of);
                format!("{name}: the columns are not those of {of}: {difference}")
            }
            other => format!("{}: {other}", input.name),
        })
    }
}

impl Input {
    /// Opens a file, or stdin for `-`. If the name ends with `.tsv`, tabs separate the values.
    pub(super) fn open(
        path: &OsString,
        csv: &CsvArguments,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, String> {
        let name = match path == "-" {
            true => "stdin".into(),
            false => shown(path),
        };
        local(path).map_err(|reason| format!("{name}: {reason}"))?;
        let failed = |error: io::Error| format!("{name}: {error}");
        let file = match path == "-" {
            true => File::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?),
            false => File::open(path).map_err(failed)?,
        };
        if file.metadata().map_err(failed)?.is_dir() {
            return Err(format!("{name}: a directory; name the files in it"));
        }
        let mut options = ReadOptions { csv: csv.options()?, ..ReadOptions::default() };
        if path.to_string_lossy().to_lowercase().ends_with(".tsv") {
            options.csv.delimiter = b'\t';
        }
        let reader = FileReader::open(file, &options, pool);
        let reader = reader.map_err(|error| format!("{name}: {error}"))?;
        for note in reader.notes() {
            complain!("overside flow: {name}: {note}");
        }
        Ok(Self { name, reader })
    }

    /// Reads all rows, of which there have to be some, and at most `bytes_max` bytes.
    pub(super) fn rows(&mut self, bytes_max: usize) -> Result<Vec<RecordBatch>, String> {
        let name = &self.name;
        let (mut batches, mut bytes) = (Vec::new(), 0_usize);
        for batch in &mut self.reader {
            let batch = batch.map_err(|error| format!("{name}: {error}"))?;
            bytes = bytes.saturating_add(batch.get_array_memory_size());
            if bytes > bytes_max {
                let most = bytes_max >> 30;
                return Err(format!("{name}: more than {most} GiB; take fewer rows"));
            }
            batches.push(batch);
        }
        match batches.iter().any(|batch| batch.num_rows() > 0) {
            true => Ok(batches),
            false => Err(format!("{name}: no rows")),
        }
    }

    pub(super) fn columns(&self) -> Columns {
        Columns { of: self.name.clone(), schema: self.reader.schema().clone() }
    }
}
