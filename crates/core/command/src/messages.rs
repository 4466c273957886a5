//! Messages to users on stderr. Names come from outside, so characters that control a terminal are
//! escaped.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::Mutex;

use serde_json::{Value, json};

/// Last message to the user.
static LAST: Mutex<Option<String>> = Mutex::new(None);

/// Writes lines to stderr. A closed stderr is ignored, where `eprintln!` would panic.
pub fn complain(text: fmt::Arguments<'_>) {
    let text = escaped(&text.to_string(), |letter| letter == '\n');
    let _ = writeln!(std::io::stderr(), "{text}");
    if let Ok(mut last) = LAST.lock() {
        *last = Some(text);
    }
}

/// Takes the last message to the user, in the form in which `--json` prints an error: the first
/// line is the message, and further lines are the remedy.
pub fn last_error() -> Option<Value> {
    let text = LAST.lock().ok()?.take()?;
    let (message, remedy) = match text.split_once('\n') {
        Some((message, remedy)) => (message, Some(remedy.trim())),
        None => (text.as_str(), None),
    };
    Some(json!({"schema": "error/1", "message": message, "remedy": remedy}))
}

/// A name as it stands in a message, on one line.
pub fn shown(name: impl AsRef<OsStr>) -> String {
    escaped(&name.as_ref().to_string_lossy(), |_| false)
}

/// Escapes characters that control a terminal or reorder a line, in Python's notation. Characters
/// that are allowed in JSON strings get JSON's notation, so objects stay valid.
fn escaped(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut clean = String::with_capacity(text.len());
    for letter in text.chars() {
        // Writing to a String cannot fail.
        let _ = match letter {
            _ if stays(letter) || !steers(letter) => clean.write_char(letter),
            '\t' | '\n' | '\r' => write!(clean, "{}", letter.escape_default()),
            '\0'..='\x1f' => write!(clean, "\\x{:02x}", u32::from(letter)),
            _ => write!(clean, "\\u{:04x}", u32::from(letter)),
        };
    }
    clean
}

/// Returns `true` for control characters, line separators, and marks of the direction of writing.
fn steers(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_nothing_to_a_terminal() {
        let name = "a\x1b[31m\r\nb\t\u{9b}\u{202e}'ü\\\u{7f}";
        let expected = r"a\x1b[31m\r\nb\t\u009b\u202e'ü\\u007f";
        assert_eq!(shown(name), expected);
        assert_eq!(escaped("one\n  two\x07", |letter| letter == '\n'), "one\n  two\\x07");
    }
}
