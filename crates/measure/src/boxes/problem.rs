//! What is wrong with a box, and the word that was probably meant.

use std::fmt;

use serde::Serialize;

/// The most problems that are reported of one box.
pub(super) const MAX_PROBLEMS: usize = 100;

/// One thing that is wrong with a box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Where: a JSON pointer (RFC 6901); empty for the whole text.
    pub pointer: String,
    /// What, in words.
    pub message: String,
    /// The word that was probably meant.
    pub suggestion: Option<String>,
}

impl Problem {
    pub(super) fn new(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            pointer: pointer.into(),
            message: message.into(),
            suggestion: None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pointer.is_empty() {
            write!(f, "{}: ", self.pointer)?;
        }
        f.write_str(&self.message)?;
        match &self.suggestion {
            Some(word) => write!(f, "; did you mean {word:?}?"),
            None => Ok(()),
        }
    }
}

/// Extends a JSON pointer by one key.
pub(super) fn join(pointer: &str, key: impl fmt::Display) -> String {
    let key = key.to_string().replace('~', "~0").replace('/', "~1");
    format!("{pointer}/{key}")
}

/// Text from a box as a message shows it: quoted, its control characters escaped, not too long.
pub(super) fn quote(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}
