//! Tables in files: Arrow IPC, Parquet and comma-separated values, read as Arrow record batches
//! without believing what a file says of itself. Lengths are compared with what is there before
//! memory is taken for them, and a decoder that panics at a hostile file is an error of that file.
//!
//! | question | module |
//! |---|---|
//! | what kind of file is it? | `format` |
//! | its schema and batches, whatever the format | `table` |
//! | how each format is read | `ipc`, `parquet`, `csv` |

mod column;
mod csv;
mod error;
mod format;
pub mod ipc;
mod parquet;
mod table;

pub use column::{Columns, position};
pub use csv::CsvOptions;
pub use error::Error;
pub use format::Format;
pub use parquet::{Between, Strings};
pub use table::Table;
