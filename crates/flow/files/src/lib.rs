//! Tables in files, read and written: Arrow IPC under a thread budget, Parquet and comma-separated values.

mod output;
mod reader;
mod writer;

pub use output::OutputFile;
pub use overside_tables::CsvOptions;
pub use reader::{FileReader, ReadOptions};
pub use writer::{FileWriter, WriteOptions};

/// Format of a written file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileFormat {
    /// An Arrow IPC file.
    #[default]
    Arrow,
    /// An Arrow IPC stream.
    ArrowStream,
    /// Apache Parquet.
    Parquet,
    /// Comma-separated values with a header.
    Csv,
}

overside_base::words! {
    FileFormat, "there is no table format";
    Arrow "arrow", ArrowStream "arrow-stream", Parquet "parquet", Csv "csv"
}

impl FileFormat {
    /// Returns the extension of files of this format, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::ArrowStream => "arrows",
            other => other.name(),
        }
    }
}
