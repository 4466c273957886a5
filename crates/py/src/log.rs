//! The log of a Python process: the switches of the native command, and Python's own events.

use std::path::PathBuf;

use overside_log::{Filter, LevelFilter, Log, LogError};
use pyo3::prelude::*;

use crate::refused;

/// Name of the Python part in log filters: `python=debug`.
const PART: &str = "python";

#[doc = stub!("start_log")]
#[pyfunction]
#[pyo3(signature = (level, file=None))]
pub(crate) fn start_log(level: &str, file: Option<PathBuf>) -> PyResult<&'static str> {
    let parsed = || -> Result<LevelFilter, LogError> {
        let default: Filter = level.parse()?;
        let log = Log { file, ..Log::default() };
        Ok(log.start(default.level())?.level_of(PART))
    };
    let level = parsed().map_err(refused)?;
    Ok(match level.into_level() {
        None => "off",
        Some(tracing::Level::ERROR) => "error",
        Some(tracing::Level::WARN) => "warn",
        Some(tracing::Level::INFO) => "info",
        Some(tracing::Level::DEBUG) => "debug",
        Some(tracing::Level::TRACE) => "trace",
    })
}

/// Logs an event of Python's: `level` in the numbers of its `logging`.
#[pyfunction]
pub(crate) fn log_event(level: u32, logger: &str, message: &str) {
    macro_rules! event {
        ($level:ident) => {
            tracing::event!(target: "overside_python", tracing::Level::$level, logger, "{message}")
        };
    }
    match level {
        40.. => event!(ERROR),
        30.. => event!(WARN),
        20.. => event!(INFO),
        10.. => event!(DEBUG),
        _ => event!(TRACE),
    }
}
