//! Log settings: the filter, the format and the destination of log events.
//!
//! Crates emit [`tracing`] events; the command and the Python module call [`Log::start`] once.
//! Settings that are missing on the command line are read from the environment: `OVERSIDE_LOG` (a
//! [`Filter`]), `OVERSIDE_LOG_FORMAT` (a [`Format`]) and `OVERSIDE_LOG_FILE`.
//! `docs/core/logging.md` describes both, and the events of each level.

mod filter;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

use tracing_subscriber::Layer as _;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;

pub use filter::Filter;
pub use tracing::level_filters::LevelFilter;

const FILTER_ENV: &str = "OVERSIDE_LOG";
const FORMAT_ENV: &str = "OVERSIDE_LOG_FORMAT";
const FILE_ENV: &str = "OVERSIDE_LOG_FILE";

/// Output format of log events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// A line for people.
    #[default]
    Text,
    /// A JSON object a line.
    Json,
}

/// Writes the format as it is read.
impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

impl FromStr for Format {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(LogError::Format(text.into())),
        }
    }
}

/// Error of [`Log::start`]: an invalid filter or format, or a file that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The text is not a filter.
    #[error(
        "{0:?} is no log level: use off, error, warn, info, debug or trace, also per part as in \
         info,link=debug"
    )]
    Filter(String),
    /// The text is not a format.
    #[error("{0:?} is no log format: use text or json")]
    Format(String),
    /// Invalid value of an environment variable.
    #[error("{name}: {error}")]
    Environment {
        /// The variable.
        name: &'static str,
        /// Error in the value of the variable.
        error: Box<Self>,
    },
    /// The file cannot be opened.
    #[error("cannot write the log {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error that the operating system returned when the file was opened.
        error: io::Error,
    },
}

/// Settings of logging: the filter, the format and the destination.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// `None`: `OVERSIDE_LOG`, otherwise the default of the verb.
    pub filter: Option<Filter>,
    /// `None`: `OVERSIDE_LOG_FORMAT`, otherwise text.
    pub format: Option<Format>,
    /// Appended to. `None`: `OVERSIDE_LOG_FILE`, otherwise stderr.
    pub file: Option<PathBuf>,
}

impl Log {
    /// Starts logging for the whole process, at `level` unless a filter is given, and returns the
    /// filter in effect. A second call in one process changes nothing.
    ///
    /// # Errors
    /// [`LogError`].
    pub fn start(self, level: LevelFilter) -> Result<Filter, LogError> {
        let filter = self.filter.map(Ok).or_else(|| environment(FILTER_ENV));
        let filter = filter.transpose()?.unwrap_or_else(|| level.into());
        let format = self.format.map(Ok).or_else(|| environment(FORMAT_ENV));
        let format = format.transpose()?.unwrap_or_default();
        if filter.is_off() {
            return Ok(filter);
        }
        let file = std::env::var_os(FILE_ENV).filter(|path| !path.is_empty());
        let writer = match self.file.or_else(|| file.map(PathBuf::from)) {
            None => BoxMakeWriter::new(io::stderr),
            Some(path) => BoxMakeWriter::new(std::sync::Arc::new(open(path)?)),
        };
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(writer)
            .with_ansi(false)
            // A closed stderr is ignored; the library would report it there, and panic.
            .log_internal_errors(false);
        let registry = tracing_subscriber::registry();
        // Fails only where a subscriber is set already.
        let _ = match format {
            Format::Text => {
                let subscriber = registry.with(layer.with_filter(filter.targets()));
                tracing::subscriber::set_global_default(subscriber)
            }
            Format::Json => {
                let layer = layer
                    .json()
                    .flatten_event(true)
                    .with_current_span(false)
                    .with_thread_names(true);
                let subscriber = registry.with(layer.with_filter(filter.targets()));
                tracing::subscriber::set_global_default(subscriber)
            }
        };
        Ok(filter)
    }
}

fn open(path: PathBuf) -> Result<File, LogError> {
    let opened = OpenOptions::new().append(true).create(true).open(&path);
    opened.map_err(|error| LogError::File { path, error })
}

/// The value of a variable that is set and not empty.
fn environment<T: FromStr<Err = LogError>>(name: &'static str) -> Option<Result<T, LogError>> {
    let text = std::env::var_os(name).filter(|text| !text.is_empty())?;
    let parsed = text.to_string_lossy().parse();
    Some(parsed.map_err(|error| LogError::Environment { name, error: Box::new(error) }))
}
