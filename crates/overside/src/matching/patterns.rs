//! Patterns to search for, from the command line and from pattern files.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, value_parser};
use overside_command::messages::shown;

/// Maximum length of a pattern file in bytes: longer sets would be refused anyway.
const PATTERNS_BYTES_MAX: u64 = 1 << 20;

/// `-e` and `-f` in the order in which they were given: if two patterns match at one place, the
/// first one counts.
#[derive(Debug)]
pub(super) struct Patterns(Vec<PatternSource>);

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

impl Patterns {
    /// Returns all patterns; none if all pattern files are empty. If no option gives a pattern, the first
    /// of `files` becomes the pattern.
    ///
    /// # Errors
    /// No option and no file, a pattern that is not UTF-8, or a pattern file that cannot be read.
    pub(super) fn read(&self, files: &mut Vec<OsString>) -> Result<Vec<String>, String> {
        let mut patterns = Vec::new();
        for source in &self.0 {
            patterns.extend(source.read()?);
        }
        if self.0.is_empty() {
            if files.is_empty() {
                return Err("no pattern; try `overside match --help`".into());
            }
            patterns.extend(lines(&pattern(&files.remove(0))?));
        }
        Ok(patterns)
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

/// Splits a text into patterns at line feeds, as in grep.
fn lines(text: &str) -> Vec<String> {
    text.split('\n').map(str::to_owned).collect()
}

fn pattern(text: &OsStr) -> Result<String, String> {
    let text = text.to_str().map(str::to_owned);
    text.ok_or_else(|| "a pattern is not UTF-8; write bytes as \\xff".into())
}

/// Returns the lines of a pattern file or of stdin.
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
