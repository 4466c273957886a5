//! Settings: reading the files that users write, and writing sizes, rates and times for people.
//!
//! 1. [`read_text`] reads a file of bounded length.
//! 2. [`Document`] parses it (TOML or JSON) into a tree that keeps where each value stands, of bounded
//!    depth and count.
//! 3. [`Document::read`] turns the tree into a type with serde. A problem is an [`Error`] with
//!    file, line, column, key, problem and remedy: unknown keys and words come with the one that
//!    was probably meant.
//! 4. Rules beyond types (bounds, contradictions) are checked with [`Document::error`], which finds
//!    the key's position.
//!
//! A file that Overside itself writes, while other processes may as well, is a [`LockedFile`].
//!
//! [`units`] has the one convention for figures that people read.

#![forbid(unsafe_code)]

mod amount;
mod de;
mod document;
mod error;
mod file;
mod interval;
mod json;
mod locked_file;
mod node;
mod suggest;
mod unit;
pub mod units;

pub use amount::{ByteSize, TimeSpan};
pub use document::{Document, parse_yaml};
pub use error::{Error, Position, quoted};
pub use file::{Source, read_text};
pub use interval::{Interval, Number, Rate, Size};
pub use locked_file::LockedFile;
pub use node::{Key, Limits, Node, Value};
pub use suggest::suggest;
pub use unit::{Dimension, Unit, parse_amount, parse_seconds};
