//! Regular expressions for the patterns and their options.

use crate::{MatchScope, Options};

/// Returns expressions for the engines, which decide if a record matches. They support no assertion that a
/// word begins or ends, so the characters beside a word are part of the match.
pub(crate) fn searched(options: &Options) -> Vec<String> {
    expressions(options, |pattern| match options.scope {
        MatchScope::Anywhere => pattern.into(),
        MatchScope::Words => format!(r"(?:^|\W)(?:{pattern})(?:\W|$)"),
        MatchScope::Record => format!("^(?:{pattern})$"),
    })
}

/// Returns expressions for [`crate::Exact`], whose matches are shown.
pub(crate) fn exact(options: &Options) -> Vec<String> {
    expressions(options, |pattern| match options.scope {
        MatchScope::Anywhere => pattern.into(),
        MatchScope::Words => format!(r"\b{{start-half}}(?:{pattern})\b{{end-half}}"),
        MatchScope::Record => format!("^(?:{pattern})$"),
    })
}

fn expressions(options: &Options, scoped: impl Fn(&str) -> String) -> Vec<String> {
    let flag = if options.ignore_case { "(?i)" } else { "" };
    let patterns = options.patterns.iter().map(|pattern| {
        let pattern = match options.fixed_strings {
            true => &escaped(pattern),
            false => pattern,
        };
        format!("{flag}{}", scoped(pattern))
    });
    patterns.collect()
}

/// Returns a regular expression that matches exactly `text`.
fn escaped(text: &str) -> String {
    let mut expression = String::with_capacity(text.len());
    for letter in text.chars() {
        if r"\.+*?()|[]{}^$".contains(letter) {
            expression.push('\\');
        }
        expression.push(letter);
    }
    expression
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_meaning_loses_it() {
        let mut options = Options::new([r"a.b\(c)|{d}[$]^+*?", "ü"]);
        options.fixed_strings = true;
        assert_eq!(searched(&options), [r"a\.b\\\(c\)\|\{d\}\[\$\]\^\+\*\?", "ü"]);
    }
}
