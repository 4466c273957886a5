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

/// The word of `known` that `word` was probably meant to be: close to it, letter case and `-`
/// for `_` aside, or the beginning of exactly one.
pub fn suggest<S: AsRef<str>>(word: &str, known: &[S]) -> Option<String> {
    // The distance costs the product of both lengths.
    const LONGEST: usize = 100;
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let word = plain(word);
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    let close = |name: &&str| {
        let distance = strsim::damerau_levenshtein(&word, &plain(name));
        let allowed = (word.chars().count().max(name.chars().count()) / 3).max(1);
        (distance <= allowed && distance < name.chars().count()).then_some(distance)
    };
    let names = || {
        known
            .iter()
            .map(AsRef::as_ref)
            .filter(|name: &&str| name.len() <= LONGEST)
    };
    let nearest = names().filter_map(|name| close(&name).map(|distance| (distance, name)));
    if let Some((_, name)) = nearest.min_by_key(|(distance, _)| *distance) {
        return Some(name.to_owned());
    }
    let mut begun = names().filter(|name| plain(name).starts_with(&word));
    match (begun.next(), begun.next()) {
        (Some(only), None) => Some(only.to_owned()),
        _ => None,
    }
}
