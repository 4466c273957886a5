//! The command line of `match`.

use std::ffi::OsString;

use clap::ArgAction;
use clap::builder::Resettable;
use overside_match::MatchScope;

use super::output::Output;
use super::patterns::Patterns;
use super::tables;
use overside_command::{
    logging::LogArguments,
    options::{Placement, size_within},
};

const CHUNK_BYTES_MIN: usize = 64;
const CHUNK_BYTES_MAX: usize = 64 << 20;

#[derive(clap::Args, Debug)]
#[command(
    about = tables::ABOUT,
    version,
    display_name = "overside match",
    // `-h` means no file names, as in grep.
    disable_help_flag = true,
    override_usage = "overside match [OPTIONS] -e PATTERN... [FILE...]\n       \
                      overside match [OPTIONS] PATTERN [FILE...]",
    after_help = after_help()
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    patterns: Patterns,
    /// Files to search; without FILE, or for -, stdin; with -r, the current directory
    #[arg(value_name = "FILE")]
    files: Vec<OsString>,
    /// Match letters in both cases
    #[arg(short, long)]
    pub ignore_case: bool,
    /// Treat patterns as literal strings
    #[arg(short = 'F', long)]
    pub fixed_strings: bool,
    /// Match whole words only
    #[arg(short, long)]
    pub word_regexp: bool,
    /// Match whole records only
    #[arg(short = 'x', long)]
    pub line_regexp: bool,
    /// Select records that do not match
    #[arg(short = 'v', long = "invert-match")]
    pub invert: bool,
    #[command(flatten)]
    pub output: Output,
    #[command(flatten)]
    pub search: Search,
    #[command(flatten)]
    pub placement: Placement,
    /// Print on stderr where it ran and why
    #[arg(long, help_heading = "Placement")]
    pub explain: bool,
    #[command(flatten)]
    pub log: LogArguments,
    /// Print help
    #[arg(long, action = ArgAction::Help, help_heading = Resettable::Reset)]
    help: Option<bool>,
}

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Search")]
pub(crate) struct Search {
    /// Search the regular files in named directories and below
    #[arg(short, long)]
    pub recursive: bool,
    /// Stop searching a file after N selected records
    #[arg(short, long, value_name = "N")]
    pub max_count: Option<u64>,
    /// Records end in a zero byte, not in a line feed
    #[arg(short = 'z', long, conflicts_with = "column")]
    pub null_data: bool,
    /// Treat binary files as text
    #[arg(short = 'a', long)]
    pub text: bool,
    /// Treat binary files as if nothing matched
    #[arg(short = 'I', long, overrides_with = "text")]
    pub skip_binary: bool,
    /// Search a column of CSV, TSV, Parquet or Arrow files
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, hide = !tables::BUILT_IN)]
    pub column: Option<String>,
    /// Library that searches on the CPU: auto, literal, hyperscan, regex or re2
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub engine: String,
    /// Largest piece that is searched at once, 64 to 64MiB
    #[arg(long = "chunk", value_name = "SIZE", default_value = "256KiB",
          value_parser = size_within(CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX))]
    pub chunk_bytes: usize,
}

/// Returns the text at the end of the help.
fn after_help() -> String {
    format!(
        "\
Patterns match bytes, not characters. They use the syntax that Rust's regex, RE2 and Hyperscan \
share.

Examples:
  overside match -c 'on (.+) at (.+)' accidents.txt
  overside match -rnw -C 2 TODO src           in all files below, with two lines around each
  overside match -F '[error]' log.1.zst       compressed files are searched inside{}

Exit codes are grep's: 0 if a record was selected, 1 if none was, 2 on an error.",
        tables::EXAMPLE
    )
}

impl Arguments {
    /// Returns the patterns and the files, in which `-` is stdin. Reads pattern files.
    ///
    /// # Errors
    /// Those of [`Patterns::read`].
    pub(crate) fn inputs(&self) -> Result<(Vec<String>, Vec<OsString>), String> {
        let mut files = self.files.clone();
        let patterns = self.patterns.read(&mut files)?;
        Ok((patterns, files))
    }

    /// Returns the part of a record that a pattern has to match, from `--line-regexp` and `--word-regexp`.
    pub(crate) fn scope(&self) -> MatchScope {
        match (self.line_regexp, self.word_regexp) {
            (true, _) => MatchScope::Record,
            (false, true) => MatchScope::Words,
            (false, false) => MatchScope::Anywhere,
        }
    }
}
