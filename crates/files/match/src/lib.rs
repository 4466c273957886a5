//! Finds the records that match patterns: lines of text, and rows of a column in CSV, Parquet and
//! Arrow files. Records are gathered into chunks that end where a record ends, and the chunks run
//! through an [`overside_placement::Executor`], on the CPU, on a device or on both.
//!
//! Records and matches are defined in the same way everywhere: patterns see a record's bytes,
//! `^` and `$` are its ends. A line's `\n` is not part of it; a row's value may contain `\n`, and is
//! one record all the same. Without the feature `tables` there are only lines.
//!
//! ```
//! use overside_match::{Answer, Options, Search};
//! let mut options = Options::new(["on (.+) at"]);
//! options.answer = Answer::Count;
//! let mut search = Search::new(options)?;
//! let text = b"Accident on I-70 at Exit 41.\nRoad closed.\n";
//! let tally = search.text(&mut &text[..], &mut ())?;
//! assert_eq!(tally.selected, 1);
//! # Ok::<(), overside_match::Error>(())
//! ```

mod context;
mod error;
mod exact;
mod expressions;
mod input;
mod memory;
mod null_data;
mod options;
mod rows;
mod search;
mod sink;
mod stream;
#[cfg(feature = "tables")]
mod tables;
mod text;

pub use context::Context;
pub use error::Error;
pub use exact::Exact;
pub use input::Input;
pub use options::{Answer, CHUNK_BYTES, MatchScope, Options, RECORD_BYTES_MAX};
pub use search::Search;
pub use sink::{SelectedRecord, Sink};
pub use stream::SearchSummary;
#[cfg(feature = "tables")]
pub use tables::values_are_text;
