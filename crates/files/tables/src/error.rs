//! Errors of reading and writing tables.

use std::io;

use arrow_schema::ArrowError;
use overside_base::quietly;

use crate::Format;

/// Reason why a table cannot be read or written completely.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading or writing failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file does not have the expected format.
    #[error("{0}")]
    Format(String),
    /// Arrow IPC data are invalid.
    #[error("the Arrow data is damaged: {0}")]
    Damaged(String),
    /// Data would need too much memory.
    #[error("a message would be {bytes} bytes long, more than {bytes_max}")]
    TooLong {
        /// Length of the message in bytes, decompressed.
        bytes: u64,
        /// Maximum length in bytes.
        bytes_max: u64,
    },
    /// The format does not have this compression.
    #[error("the Arrow data is compressed in a way that is not known here: {0}")]
    UnknownCompression(String),
    /// The numbers have the byte order of another kind of machine.
    #[error(
        "the numbers of the Arrow data are in the other byte order; write them on this kind of machine"
    )]
    ByteOrder,
    /// There is no compression of that name.
    #[error("no codec is called {0:?}; there are: none, lz4, zstd, zstd:LEVEL with levels 1 to 22")]
    UnknownCodec(String),
    /// There is no outer compression of that name.
    #[error(
        "no outer compression is called {0:?}; there are: deflate, gzip, zlib, lz4-block, lz4, zstd, \
         each also with a level, as in zstd:9"
    )]
    UnknownOuter(String),
    /// Options exclude each other, or the format does not have them.
    #[error("{0}")]
    Options(String),
    /// A batch in the middle of a stream has another schema.
    #[error("the schema changed: {difference}")]
    SchemaChange {
        /// Difference from the first schema of the stream.
        difference: String,
    },
    /// A file would need two dictionaries for one column.
    #[error(
        "the dictionary of a column changes, and a file has one for each column; write a stream, \
         or the column without a dictionary"
    )]
    DictionaryReplaced,
    /// The format cannot store a column.
    #[error("column {column:?} has {kind}, which {format} cannot hold: {reason}")]
    Unstorable {
        /// Name of the column.
        column: String,
        /// Arrow type that is refused: the column's, or one within it.
        kind: String,
        /// Format that cannot store it.
        format: Format,
        /// Reason or remedy.
        reason: String,
    },
    /// A call follows one that failed.
    #[error("an earlier error ended the stream")]
    Spent,
    /// A codec failed.
    #[error(transparent)]
    Codec(#[from] overside_ops::Error),
    /// A job on a device failed, and no other device could run it.
    #[error(transparent)]
    Job(#[from] overside_device::JobError),
    /// The placement cannot be set up, or cannot continue.
    #[error(transparent)]
    Placement(#[from] overside_placement::Error),
    /// There is not enough memory.
    #[error(transparent)]
    Memory(#[from] overside_device::MemoryError),
    /// There is no column of that name.
    #[error("there is no column {name:?}{}; there are: {known}", hint(.meant))]
    NoColumn {
        /// Requested name.
        name: String,
        /// Column with the most similar name.
        meant: Option<String>,
        /// Names of the columns, separated by commas.
        known: String,
    },
    /// Several columns have that name.
    #[error("{count} columns are called {name:?}; rename all but one")]
    SameColumns {
        /// Name of the columns.
        name: String,
        /// Number of columns with that name.
        count: usize,
    },
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        Self::format(error)
    }
}

impl Error {
    /// Makes an error from a format library's message, in one line.
    pub(crate) fn format(error: impl std::fmt::Display) -> Self {
        let words: Vec<_> = error.to_string().split_whitespace().map(str::to_owned).collect();
        Self::Format(words.join(" "))
    }
}

fn hint(meant: &Option<String>) -> String {
    let meant = meant.as_ref();
    meant.map_or_else(String::new, |name| format!(", did you mean {name:?}?"))
}

/// Runs a file format's decoder. If a hostile file makes it panic, the error is the file's.
pub(crate) fn guarded<T, E: From<Error>>(decode: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let damaged = || Error::Format("the file is damaged".into()).into();
    quietly(decode).unwrap_or_else(|_| Err(damaged()))
}

/// Replaces each byte that is not UTF-8 by a question mark and logs it: metadata of Arrow are text.
/// Returns `false` if there is none.
pub(crate) fn replace_invalid(bytes: &mut [u8]) -> bool {
    let mut begin = 0;
    while let Err(error) = std::str::from_utf8(&bytes[begin..]) {
        if begin == 0 {
            tracing::warn!("metadata that are not UTF-8 are read with question marks in them");
        }
        begin += error.valid_up_to() + 1;
        bytes[begin - 1] = b'?';
    }
    begin > 0
}
