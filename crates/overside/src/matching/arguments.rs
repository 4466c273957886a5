//! The command line of `match`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};

use clap::builder::Resettable;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, value_parser};

use crate::logging::LogArguments;
use crate::messages::shown;
use crate::options::{Placement, size_within};

/// The longest pattern file in bytes; longer sets are refused anyway.
const PATTERNS_BYTES_MAX: u64 = 1 << 20;
const CHUNK_BYTES_MIN: usize = 64;
const CHUNK_BYTES_MAX: usize = 64 << 20;

/// Find lines, or rows of a column, that match patterns
#[derive(clap::Args, Debug)]
#[command(
    // -h is grep's: no file names.
    disable_help_flag = true,
    override_usage = "overside match [OPTIONS] -e PATTERN... [FILE...]\n       \
                      overside match [OPTIONS] PATTERN [FILE...]",
    after_help = "\
Patterns match bytes, not characters. They use the syntax that Rust's regex, RE2 and Hyperscan \
share.

Exit codes are grep's: 0 if a record was selected, 1 if none was, 2 on an error."
)]
pub struct Arguments {
    #[command(flatten)]
    patterns: Patterns,
    /// Files to search; without FILE, or for -, stdin
    #[arg(value_name = "FILE")]
    files: Vec<OsString>,
    /// Match letters in both cases
    #[arg(short, long)]
    pub ignore_case: bool,
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
#[command(next_help_heading = "Output")]
pub struct Output {
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
    /// Print a JSON object for each record, one a line
    #[arg(long)]
    json: bool,
    /// Prefix the record's number
    #[arg(short = 'n', long)]
    pub line_number: bool,
    /// Prefix the file's name [default: with several files]
    #[arg(short = 'H', long, overrides_with = "no_filename")]
    with_filename: bool,
    /// Do not prefix the file's name
    #[arg(short = 'h', long, overrides_with = "with_filename")]
    no_filename: bool,
}

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Search")]
pub struct Search {
    /// Search a column of CSV, TSV, Parquet or Arrow files
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    pub column: Option<String>,
    /// Library that searches on the CPU: auto, literal, hyperscan, regex or re2
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub engine: String,
    /// The longest piece that is searched at once, 64 to 64MiB
    #[arg(long = "chunk", value_name = "SIZE", default_value = "256KiB",
          value_parser = size_within(CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX))]
    pub chunk_bytes: usize,
}

/// What is printed of the selected records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputMode {
    Records,
    Matches,
    Json,
    Count,
    JsonCount,
    Names,
    Nothing,
}

impl OutputMode {
    pub fn is_json(self) -> bool {
        matches!(self, Self::Json | Self::JsonCount)
    }
}

impl Output {
    /// Of several the one that prints less, as in grep.
    pub fn mode(&self) -> OutputMode {
        match self {
            Self { quiet: true, .. } => OutputMode::Nothing,
            Self {
                files_with_matches: true,
                ..
            } => OutputMode::Names,
            Self {
                count: true,
                json: true,
                ..
            } => OutputMode::JsonCount,
            Self { count: true, .. } => OutputMode::Count,
            Self { json: true, .. } => OutputMode::Json,
            Self {
                only_matching: true,
                ..
            } => OutputMode::Matches,
            _ => OutputMode::Records,
        }
    }

    /// Whether each record is printed with its file's name.
    pub fn with_filename(&self, files: usize) -> bool {
        !self.no_filename && (self.with_filename || files > 1)
    }
}

impl Arguments {
    /// The patterns and the files, `-` being stdin. Reads pattern files.
    ///
    /// # Errors
    /// No pattern, one that is not UTF-8, or a pattern file that cannot be read.
    pub fn inputs(&self) -> Result<(Vec<String>, Vec<OsString>), String> {
        let mut files = self.files.clone();
        let mut patterns = Vec::new();
        for source in &self.patterns.0 {
            patterns.extend(source.read()?);
        }
        if self.patterns.0.is_empty() {
            if files.is_empty() {
                return Err("no pattern; try `overside match --help`".into());
            }
            patterns.extend(lines(&pattern(&files.remove(0))?));
        }
        if patterns.is_empty() {
            return Err("the pattern files are empty, so nothing can match".into());
        }
        if files.is_empty() {
            files.push("-".into());
        }
        Ok((patterns, files))
    }
}

/// `-e` and `-f` in the order in which they were given: where two patterns match at one place,
/// the first one counts.
#[derive(Debug)]
struct Patterns(Vec<PatternSource>);

#[derive(Debug)]
enum PatternSource {
    Text(OsString),
    File(OsString),
}

impl PatternSource {
    fn read(&self) -> Result<Vec<String>, String> {
        match self {
            Self::Text(text) => Ok(lines(&pattern(text)?)),
            Self::File(path) => read_patterns(path),
        }
    }
}

impl clap::Args for Patterns {
    fn augment_args(command: Command) -> Command {
        let option = |id, short| {
            (Arg::new(id).short(short).long(id).action(ArgAction::Append))
                .value_parser(value_parser!(OsString))
                .allow_hyphen_values(true)
        };
        let text = option("regexp", 'e').value_name("PATTERN");
        let file = option("file", 'f').value_name("FILE");
        command
            .arg(text.help("A pattern; with several, records that match any of them"))
            .arg(file.help("Read patterns from FILE, one a line"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Patterns {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |id: &str, source: fn(OsString) -> PatternSource| {
            let at = matches.indices_of(id).into_iter().flatten();
            let values = matches.get_many::<OsString>(id).into_iter().flatten();
            let sources = values.cloned().map(source);
            at.zip(sources).collect::<Vec<_>>()
        };
        let mut all = given("regexp", PatternSource::Text);
        all.extend(given("file", PatternSource::File));
        all.sort_by_key(|(at, _)| *at);
        Ok(Self(all.into_iter().map(|(_, source)| source).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Patterns are separated by line feeds, as in grep.
fn lines(text: &str) -> Vec<String> {
    text.split('\n').map(str::to_owned).collect()
}

fn pattern(text: &OsStr) -> Result<String, String> {
    let text = text.to_str().map(str::to_owned);
    text.ok_or_else(|| "a pattern is not UTF-8; write bytes as \\xff".into())
}

/// The lines of a pattern file or of stdin.
fn read_patterns(path: &OsStr) -> Result<Vec<String>, String> {
    let failed = |error: io::Error| format!("{}: {error}", shown(path));
    let from: Box<dyn Read> = match path == "-" {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(path).map_err(failed)?),
    };
    let mut text = String::new();
    let mut bounded = from.take(PATTERNS_BYTES_MAX + 1);
    bounded.read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > PATTERNS_BYTES_MAX {
        return Err(failed(io::ErrorKind::FileTooLarge.into()));
    }
    Ok(match text.is_empty() {
        true => Vec::new(),
        false => lines(text.strip_suffix('\n').unwrap_or(&text)),
    })
}
