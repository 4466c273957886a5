//! Errors in files that a user wrote.

use std::fmt;

use crate::suggest;

/// Error in a file or setting of the user: its place, the problem and the remedy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Error {
    /// Name of the file or other source; may be empty.
    pub file: String,
    /// Line and column of the problem; `None` if unknown.
    pub position: Option<Position>,
    /// Keys from the top with dots between them, items of lists by number from 0, or a JSON pointer
    /// (RFC 6901); empty for the whole file.
    pub key: String,
    /// Description of the problem, such as `missing` or `longer than 10 bytes`.
    pub problem: String,
    /// Allowed values, or the action that solves the problem; may be empty.
    pub remedy: Box<str>,
    /// The word that was probably meant.
    pub suggestion: Option<Box<str>>,
}

/// A place in a text, both counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// Number of the character in the line.
    pub column: u32,
}

impl Error {
    /// About a whole file.
    pub fn of_file(file: &str, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            problem: problem.into(),
            remedy: remedy.into().into(),
            ..Self::default()
        }
    }

    /// About a key of something that is no file, as the command line's settings.
    pub fn of_key(key: &str, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { key: key.into(), ..Self::of_file("", problem, remedy) }
    }

    /// About an unknown word: with all of `known`, and the one that was probably meant.
    #[must_use]
    pub fn meant<S: AsRef<str>>(mut self, word: &str, known: &[S]) -> Self {
        self.suggestion = suggest(word, known).map(Into::into);
        let known: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
        self.remedy = format!("there are: {}", known.join(", ")).into();
        self
    }

    /// Adds `file` to the error, if it does not name one.
    #[must_use]
    pub fn within(mut self, file: &str) -> Self {
        if self.file.is_empty() {
            self.file = file.into();
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.file.as_str(), self.position) {
            ("", None) => {}
            ("", Some(Position { line, column })) => write!(f, "line {line}, column {column}: ")?,
            (file, None) => write!(f, "{file}: ")?,
            (file, Some(Position { line, column })) => write!(f, "{file}:{line}:{column}: ")?,
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.problem)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        match &self.suggestion {
            Some(word) => write!(f, "; did you mean {word:?}?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

impl Position {
    /// Returns the position of the byte at `offset` of `text`.
    pub(crate) fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = before.matches('\n').count();
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        Self::counted(line + 1, before[start..].chars().count() + 1)
    }

    pub(crate) fn counted(line: usize, column: usize) -> Self {
        let short = |count| u32::try_from(count).unwrap_or(u32::MAX);
        Self { line: short(line), column: short(column) }
    }
}

/// Text from outside as a message shows it: quoted, control characters escaped, not too long.
pub fn quoted(text: &str) -> String {
    const SHOWN_MAX: usize = 60;
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}
