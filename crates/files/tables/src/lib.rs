//! Tables in files: Arrow IPC, Parquet and comma-separated values, read as Arrow record batches
//! without believing what a file says of itself. Lengths are compared with what is there before
//! memory is taken for them, and a decoder that panics at a hostile file is an error of that file.
//!
//! | question | module |
//! |---|---|
//! | its schema and batches, whatever the format | `table` |
//! | where its row groups and batches lie in the file | `pieces` |
//! | how each format is read | `pack`, `parquet`, `csv` |
//! | how Arrow IPC and Parquet are written | `pack`, `parquet` |
//! | what a format makes of a type, and of a table that is written | `types`, `storage` |
//! | memory that goes round | `memory` |

mod column;
mod csv;
mod error;
mod format;
pub mod memory;
pub mod pack;
mod parquet;
mod pieces;
mod schema;
mod storage;
mod table;
pub mod types;

pub use column::{Columns, position};
pub use csv::CsvOptions;
pub use error::Error;
pub use format::Format;
pub use parquet::{Between, ParquetOptions, ParquetWriter, ROW_GROUP_ROWS, Strings};
pub use pieces::pieces;
pub use schema::{check_schema, schema_difference};
pub use storage::{Conversion, Storage};
pub use table::Table;
