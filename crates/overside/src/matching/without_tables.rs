//! Replacement of `tables` in builds without tables.

use std::ffi::OsStr;

use overside_match::{Error, Search, SearchSummary};

use super::input::Opened;
use super::printer::Printer;

/// Description of the verb in the help.
pub(super) const ABOUT: &str = "Find lines that match patterns";
/// `true` if `--column` is supported by this build.
pub(super) const BUILT_IN: bool = false;
/// Example for the help.
pub(super) const EXAMPLE: &str = "";

/// Reports that columns cannot be searched.
///
/// # Errors
/// Always.
pub(super) fn search(
    _: &mut Search,
    _: Opened,
    _: &OsStr,
    column: &str,
    _: &mut Printer,
) -> Result<SearchSummary, Error> {
    Err(Error::Format(format!(
        "column {column:?} cannot be searched: this overside was built without tables (feature `flow`); take the \
         complete one: cargo build --release -p overside"
    )))
}
