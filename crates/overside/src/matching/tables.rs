//! Search in columns of tables.

use std::ffi::OsStr;
use std::io::Read;

use overside_base::FileFormat;
use overside_match::{Error, Search, SearchSummary};

use super::input::{Opened, Source};
use super::printer::Printer;

/// Description of the verb in the help.
pub(super) const ABOUT: &str = "Find lines, or rows of a column, that match patterns";
/// `true` if `--column` is supported by this build.
pub(super) const BUILT_IN: bool = true;
/// Example for the help.
pub(super) const EXAMPLE: &str =
    "\n  overside match --column comment 'express.*packages' orders.parquet";

/// Searches a column.
///
/// # Errors
/// Those of [`Search`], and a file that is not a table.
pub(super) fn search(
    search: &mut Search,
    opened: Opened,
    file: &OsStr,
    column: &str,
    printer: &mut Printer,
) -> Result<SearchSummary, Error> {
    let lower = OsStr::to_string_lossy(file).to_lowercase();
    let plain = ["", ".gz", ".zst", ".lz4"]
        .iter()
        .find_map(|end| lower.strip_suffix(end).filter(|name| name.ends_with(".tsv")));
    let delimiter = if plain.is_some() { b'\t' } else { b',' };
    let format = opened.format();
    let not_seekable = |what: &str| {
        let reason = "must be a file that is not compressed as a whole, and not a pipe";
        Err(Error::Format(format!("{what} {reason}")))
    };
    let mut input: Box<dyn Read + Send> = match (format, opened.source) {
        (FileFormat::Parquet, Source::File(file)) => return search.parquet(file, column, printer),
        (FileFormat::ArrowFile, Source::File(file)) => {
            return search.arrow_file(file, column, printer);
        }
        (FileFormat::Parquet, _) => return not_seekable("Parquet"),
        (FileFormat::ArrowFile, _) => return not_seekable("an Arrow file"),
        (FileFormat::Compressed(program), _) => {
            let reason = format!("compressed by {program}; decompress it first");
            return Err(Error::Format(reason));
        }
        (_, Source::File(file)) => Box::new(file),
        (_, Source::Stream(pipe)) => Box::new(pipe),
        (_, Source::Decompressed(inside)) => inside,
    };
    match format {
        FileFormat::ArrowStream => search.arrow_stream(&mut input, column, printer),
        _ => search.csv(&mut input, column, delimiter, printer),
    }
}
