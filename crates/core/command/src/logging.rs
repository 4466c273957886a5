//! The log of a native verb: its options, and how it starts.

use std::path::PathBuf;
use std::process::ExitCode;

use overside_log::{Filter, Format, LevelFilter, Log};
use serde_json::{Value, json};

/// Options for the log.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Logging")]
pub struct LogArguments {
    /// Log level: off, error, warn, info or debug; also per part, as in info,link=debug
    /// [default: $OVERSIDE_LOG]
    #[arg(long, value_name = "LEVEL", global = true)]
    log: Option<Filter>,
    /// text or json [default: $OVERSIDE_LOG_FORMAT, otherwise text]
    #[arg(long, value_name = "FORMAT", global = true)]
    log_format: Option<Format>,
    /// Append the log to FILE [default: $OVERSIDE_LOG_FILE, otherwise stderr]
    #[arg(long = "log-file", value_name = "FILE", global = true, allow_hyphen_values = true)]
    log_file: Option<PathBuf>,
}

/// `-v` and `-q`, where a verb has no other use for them.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Logging")]
pub struct Verbosity {
    /// Log more; twice for even more
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
    /// Log less
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    quiet: u8,
    #[command(flatten)]
    output: LogArguments,
}

/// Levels, from the quietest to the most verbose.
const LEVELS: [LevelFilter; 6] = [
    LevelFilter::OFF,
    LevelFilter::ERROR,
    LevelFilter::WARN,
    LevelFilter::INFO,
    LevelFilter::DEBUG,
    LevelFilter::TRACE,
];

impl LogArguments {
    /// Starts the log of `verb`, at `level` unless another is given.
    ///
    /// # Errors
    /// The exit code, `code`, once the user knows why.
    pub fn start(self, verb: &str, level: LevelFilter, code: u8) -> Result<(), ExitCode> {
        let log = Log { filter: self.log, format: self.log_format, file: self.log_file };
        log.start(level).map(drop).map_err(|error| {
            complain!("overside {verb}: {error}");
            ExitCode::from(code)
        })
    }
}

impl Verbosity {
    /// Starts the log like [`LogArguments::start`]. Each `-v` raises `level` by one step, each `-q`
    /// lowers it by one. Both override `OVERSIDE_LOG`, and `--log` overrides them.
    pub fn start(mut self, verb: &str, level: LevelFilter, code: u8) -> Result<(), ExitCode> {
        let asked = self.verbose > 0 || self.quiet > 0;
        if asked && self.output.log.is_none() {
            self.output.log = Some(self.level(level).into());
        }
        self.output.start(verb, level, code)
    }

    /// `true` if the user wants to know more.
    pub fn is_verbose(&self) -> bool {
        self.verbose > self.quiet
    }

    /// Returns the same settings for another process, whose level is `level` unless another is given.
    pub fn settings(&self, level: LevelFilter) -> Value {
        let output = &self.output;
        let asked = (self.verbose > 0 || self.quiet > 0).then(|| self.level(level).to_string());
        json!({
            "quiet": self.quiet > 0,
            "log": output.log.as_ref().map(ToString::to_string).or(asked),
            "log_format": output.log_format.map(|format| format.to_string()),
            "log_file": output.log_file.as_ref().map(|path| json!({"$path": path})),
        })
    }

    fn level(&self, from: LevelFilter) -> LevelFilter {
        let at = LEVELS.iter().position(|level| *level == from);
        let raised = at.unwrap_or_default() + usize::from(self.verbose);
        let lowered = raised.saturating_sub(self.quiet.into());
        LEVELS[lowered.min(LEVELS.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_goes_up_and_down_by_steps() {
        let level = |verbose, quiet| {
            let verbosity = Verbosity {
                verbose,
                quiet,
                output: LogArguments { log: None, log_format: None, log_file: None },
            };
            verbosity.level(LevelFilter::WARN)
        };
        assert_eq!(level(0, 0), LevelFilter::WARN);
        assert_eq!(level(1, 0), LevelFilter::INFO);
        assert_eq!(level(9, 0), LevelFilter::TRACE);
        assert_eq!(level(1, 2), LevelFilter::ERROR);
        assert_eq!(level(0, 9), LevelFilter::OFF);
    }
}
