//! Tables in files, read and written: Arrow IPC under a thread budget, Parquet and comma-separated values.

mod output;
mod reader;
mod writer;

use std::fmt;
use std::str::FromStr;

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

impl FileFormat {
    const ALL: [(Self, &str, &str); 4] = [
        (Self::Arrow, "arrow", "arrow"),
        (Self::ArrowStream, "arrow-stream", "arrows"),
        (Self::Parquet, "parquet", "parquet"),
        (Self::Csv, "csv", "csv"),
    ];

    /// Returns the extension of files of this format, without the dot.
    pub fn extension(self) -> &'static str {
        let found = Self::ALL.iter().find(|(format, ..)| *format == self);
        found.map_or("arrow", |(_, _, extension)| extension)
    }
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::ALL.iter().find(|(format, ..)| format == self);
        f.write_str(found.map_or("", |(_, name, _)| name))
    }
}

impl FromStr for FileFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name, _)| *name == text);
        found.map(|(format, ..)| *format).ok_or_else(|| {
            let names = Self::ALL.map(|(_, name, _)| name);
            format!("there is no table format {text:?}; there are: {}", names.join(", "))
        })
    }
}
