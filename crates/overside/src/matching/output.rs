//! Output options of the command line: which records are printed, and in which format.

use std::io;

use clap::builder::{RangedU64ValueParser, TypedValueParser};
use overside_match::Context;

use crate::colors::{self, ColorChoice};

/// Maximum number of records around a selected one.
const CONTEXT_MAX: u64 = 1_000_000;

fn context_records() -> impl TypedValueParser<Value = usize> {
    RangedU64ValueParser::<usize>::new().range(0..=CONTEXT_MAX)
}

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct Output {
    /// Print the number of selected records of each file
    #[arg(short, long)]
    count: bool,
    /// Print each match on a line of its own
    #[arg(short, long)]
    only_matching: bool,
    /// Print the names of files with selected records
    #[arg(short = 'l', long)]
    files_with_matches: bool,
    /// Print nothing; only the exit code counts
    #[arg(short, long)]
    quiet: bool,
    /// Print a JSON object for each record, one per line
    #[arg(long)]
    json: bool,
    /// Prefix the record's number
    #[arg(short = 'n', long)]
    line_number: bool,
    /// Prefix the file's name [default: with several files]
    #[arg(short = 'H', long, overrides_with = "no_filename")]
    with_filename: bool,
    /// Do not prefix the file's name
    #[arg(short = 'h', long, overrides_with = "with_filename")]
    no_filename: bool,
    /// Print N records after each selected one, too
    #[arg(short = 'A', long, value_name = "N", value_parser = context_records())]
    after_context: Option<usize>,
    /// Print N records before each selected one, too
    #[arg(short = 'B', long, value_name = "N", value_parser = context_records())]
    before_context: Option<usize>,
    /// Same as -A N -B N
    #[arg(short = 'C', long, value_name = "N", value_parser = context_records())]
    context: Option<usize>,
    /// Color names, numbers and matches: always, never, or auto, which is on a terminal unless
    /// NO_COLOR is set
    #[arg(long, visible_alias = "colour", value_name = "WHEN", num_args = 0..=1, require_equals = true,
          default_value = "auto", default_missing_value = "auto", hide_possible_values = true)]
    color: ColorChoice,
    /// Print the file's name on a line of its own above its records
    #[arg(long)]
    heading: bool,
    /// Same as --color=always --heading -n
    #[arg(long)]
    pretty: bool,
}

/// Format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputMode {
    Records,
    Matches,
    Json,
    Count,
    JsonCount,
    Names,
    Nothing,
}

impl OutputMode {
    pub(crate) fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::JsonCount)
    }
}

impl Output {
    /// Returns the output mode. If several options are given, the one with less output counts, as in grep.
    pub(crate) fn mode(&self) -> OutputMode {
        match self {
            Self { quiet: true, .. } => OutputMode::Nothing,
            Self { files_with_matches: true, .. } => OutputMode::Names,
            Self { count: true, json: true, .. } => OutputMode::JsonCount,
            Self { count: true, .. } => OutputMode::Count,
            Self { json: true, .. } => OutputMode::Json,
            Self { only_matching: true, .. } => OutputMode::Matches,
            _ => OutputMode::Records,
        }
    }

    /// Returns `true` if each record is printed with its file's name. `several` is `true` if more
    /// than one file is searched.
    pub(crate) fn with_filename(&self, several: bool) -> bool {
        !self.no_filename && (self.with_filename || several)
    }

    /// Returns `true` if each record is printed with its number.
    pub(crate) fn with_number(&self) -> bool {
        self.line_number || self.pretty
    }

    /// Returns `true` if a file's name is printed once, on a line above its records.
    pub(crate) fn with_heading(&self) -> bool {
        self.heading || self.pretty
    }

    /// Returns the numbers of records that are printed around selected ones, in modes that print
    /// whole records.
    pub(crate) fn context(&self) -> Context {
        if !matches!(self.mode(), OutputMode::Records | OutputMode::Json) {
            return Context::default();
        }
        let both = self.context.unwrap_or(0);
        Context {
            before: self.before_context.unwrap_or(both),
            after: self.after_context.unwrap_or(both),
        }
    }

    /// Returns `true` if the output is colored.
    pub(crate) fn is_colored(&self) -> bool {
        let choice = match self.pretty {
            true => ColorChoice::Always,
            false => self.color,
        };
        colors::are_wanted(choice, &io::stdout())
    }
}
