//! Content of an output's files at the start, as their names and metadata say.

use std::collections::HashMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use overside_flow::files::{FileReader, ReadOptions};
use overside_flow::pack::CodecPool;
use overside_flow::tree::Sequences;
use overside_flow::{Destination, Output};

/// The key of the metadata: `{"PRODUCER": NUMBER, ...}`.
pub(crate) const METADATA_KEY: &str = "overside.sequences";
/// Prefix of the file names.
pub(crate) const PREFIX: &str = "part-";

/// Content of an output's files at the start.
#[derive(Default)]
pub(crate) struct Written {
    /// The last number of each producer.
    pub(crate) last: Sequences,
    /// The number of the next files.
    pub(crate) files: u64,
}

impl Written {
    /// Reads what an output has. Trees know it themselves. A bucket is not searched: its objects are numbered from the
    /// current time in milliseconds, so that they have new names.
    pub(crate) fn of(output: &Output, pool: &Arc<CodecPool>) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        match &output.to {
            Destination::Directory(directory) if output.tree.is_none() => {
                Self::read(directory, pool)
            }
            _ => {
                Self { files: since.map_or(0, |since| since.as_millis() as u64), ..Self::default() }
            }
        }
    }

    /// Reads the metadata of all files. Files that cannot be read are not ours.
    fn read(directory: &Path, pool: &Arc<CodecPool>) -> Self {
        let mut found = Self::default();
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| {
                let rest = name.strip_prefix(PREFIX)?;
                rest.split(['-', '.']).next()?.parse::<u64>().ok()
            });
            let Some(number) = number else {
                continue;
            };
            found.files = found.files.max(number + 1);
            let sequences = File::open(entry.path()).ok().and_then(|file| {
                let reader = FileReader::open(file, &ReadOptions::default(), pool).ok()?;
                let text = reader.schema().metadata().get(METADATA_KEY)?.clone();
                serde_json::from_str::<HashMap<String, u64>>(&text).ok()
            });
            for (producer, sequence) in sequences.into_iter().flatten() {
                found.last.note(&producer, sequence);
            }
        }
        found
    }
}
