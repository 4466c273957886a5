//! Reads files of bounded length.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::{Error, units};

/// Kinds of files that [`read_text`] accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A regular file. Opening a pipe would wait for a writer.
    Regular,
    /// A pipe, too, as `<(...)` of a shell makes them.
    Any,
}

/// The text of a file of at most `bytes_max` bytes.
///
/// # Errors
/// [`Error`]: it cannot be read, is longer, is not UTF-8, or is no regular file and must be one.
pub fn read_text(path: &Path, bytes_max: u64, source: Source) -> Result<String, Error> {
    let file = path.display().to_string();
    let failed = |error: std::io::Error| {
        Error::of_file(&file, format!("cannot be read: {error}"), "name a readable file")
    };
    if source == Source::Regular && !path.metadata().map_err(failed)?.is_file() {
        return Err(Error::of_file(&file, "not a regular file", "name a readable file"));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|open| open.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > bytes_max {
        return Err(too_long(&file, bytes_max));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::of_file(&file, format!("not UTF-8, line {line}"), "write it as UTF-8")
    })
}

pub(crate) fn too_long(file: &str, bytes_max: u64) -> Error {
    let most = units::size(bytes_max as f64);
    Error::of_file(
        file,
        format!("longer than {bytes_max} bytes"),
        format!("at most {most} are read"),
    )
}
