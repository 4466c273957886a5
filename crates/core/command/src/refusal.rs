//! Answers to command lines that run nothing: requested help, and errors.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use clap::Error;
use clap::error::ErrorKind;
use serde::Serialize;

/// Answer to a command line that runs nothing.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// Requested help, or the version.
    Help(String),
    /// Help for a command line that ends too early.
    Incomplete(String),
    /// Reason why the command line is refused, and the remedy.
    Wrong {
        /// Reason, on one line.
        message: String,
        /// Remedy, on one line.
        remedy: String,
    },
}

impl Refusal {
    /// Reads an error of clap's; `verb` is the verb of the command line, if it has one, and `words` are its arguments.
    pub fn of(error: &Error, verb: Option<&str>, words: &[OsString]) -> Self {
        let text = error.render().to_string();
        if !error.use_stderr() {
            return Self::Help(with_round_brackets(&text));
        }
        let Some(text) = text.strip_prefix("error: ") else {
            return Self::Incomplete(with_round_brackets(&text));
        };
        let is_tip = |line: &&str| line.trim_start().starts_with("tip: ");
        let said = text.lines().take_while(|line| !line.is_empty() && !is_tip(line));
        let mut message = said.map(str::trim).collect::<Vec<_>>().join(" ");
        if error.kind() == ErrorKind::InvalidUtf8
            && let Some(word) = words.iter().find(|word| word.to_str().is_none())
        {
            message = format!("'{}' is not UTF-8", word.as_bytes().escape_ascii());
        }
        let tips = text.lines().filter_map(|line| line.trim_start().strip_prefix("tip: "));
        let program = verb.map_or("overside".into(), |verb| format!("overside {verb}"));
        let all = format!("`{program} --help` lists what it takes");
        let remedy = tips.chain([all.as_str()]).collect::<Vec<_>>().join("; ");
        Self::Wrong { message, remedy }
    }
}

/// Replaces the brackets of defaults by parentheses, as all verbs show them. clap's own brackets cannot be
/// configured.
pub fn with_round_brackets(text: &str) -> String {
    let mut parts = text.split("[default:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let (value, rest) = part.split_once(']').unwrap_or((part, ""));
        format!("{text}(default:{value}){rest}")
    })
}
