//! Tables that are read.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use arrow_schema::SchemaRef;
use overside_flow::files::{FileReader, ReadOptions};
use overside_flow::pack::CodecPool;
use overside_flow::{TableError, check_schema};

use crate::messages::shown;

/// A table and what it is called.
pub struct Input {
    pub name: String,
    pub reader: FileReader,
}

/// The columns of the first of several tables, which all are to have.
pub struct Columns {
    /// What the first is called.
    pub of: String,
    pub schema: SchemaRef,
}

impl Columns {
    /// Refuses a table with others.
    pub fn check(&self, input: &Input) -> Result<(), String> {
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
    /// Opens a file, or stdin for `-`; tabs separate the values of what ends with `.tsv`.
    pub fn open(path: &OsString, pool: &Arc<CodecPool>) -> Result<Self, String> {
        let name = match path == "-" {
            true => "stdin".into(),
            false => shown(path),
        };
        let failed = |error: io::Error| format!("{name}: {error}");
        let file = match path == "-" {
            true => File::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?),
            false => File::open(path).map_err(failed)?,
        };
        if file.metadata().map_err(failed)?.is_dir() {
            return Err(format!("{name}: a directory; name the files in it"));
        }
        let mut options = ReadOptions::default();
        if path.to_string_lossy().to_lowercase().ends_with(".tsv") {
            options.csv.delimiter = b'\t';
        }
        let reader = FileReader::open(file, &options, pool);
        let reader = reader.map_err(|error| format!("{name}: {error}"))?;
        Ok(Self { name, reader })
    }

    pub fn columns(&self) -> Columns {
        Columns {
            of: self.name.clone(),
            schema: self.reader.schema().clone(),
        }
    }
}
