//! Columns of tables: Arrow arrays, and files of Arrow, Parquet and comma-separated values.

mod arrow;
mod csv;

pub use arrow::values_are_text;
