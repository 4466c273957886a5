//! Takes commands off the front of what was received (RESP: <https://redis.io/docs/reference/protocol-spec>).

use super::super::{ARGUMENTS_MAX, INLINE_MAX_BYTES};
use crate::VALUE_MAX_BYTES;

/// What the front of the input is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed {
    /// A command, so long, whose arguments have been written.
    Command { len: usize },
    /// Nothing that is answered, so long.
    Nothing { len: usize },
    /// The beginning of a command, which needs at least so many bytes more; 0: unknown.
    Incomplete { missing_bytes: usize },
    /// No command, and why.
    Violation(&'static str),
}

/// Longest number with its sign and line end, as Redis reads them.
const NUMBER_MAX_BYTES: usize = 32;

pub(super) fn parse<'a>(input: &'a [u8], arguments: &mut Vec<&'a [u8]>) -> Parsed {
    arguments.clear();
    match input.first() {
        None => Parsed::Incomplete { missing_bytes: 0 },
        Some(b'*') => parse_array(input, arguments),
        Some(_) => parse_inline(input, arguments),
    }
}

fn parse_inline<'a>(input: &'a [u8], arguments: &mut Vec<&'a [u8]>) -> Parsed {
    let Some(end) = input
        .iter()
        .take(INLINE_MAX_BYTES)
        .position(|b| *b == b'\n')
    else {
        return if input.len() >= INLINE_MAX_BYTES {
            Parsed::Violation("too big inline request")
        } else {
            Parsed::Incomplete { missing_bytes: 0 }
        };
    };
    let words = input[..end].split(u8::is_ascii_whitespace);
    arguments.extend(words.filter(|word| !word.is_empty()));
    let len = end + 1;
    if arguments.is_empty() {
        Parsed::Nothing { len }
    } else {
        Parsed::Command { len }
    }
}

fn parse_array<'a>(input: &'a [u8], arguments: &mut Vec<&'a [u8]>) -> Parsed {
    let (count, mut at) = match number_line(input, 1) {
        Ok(Some(found)) => found,
        Ok(None) => return Parsed::Incomplete { missing_bytes: 0 },
        Err(()) => return Parsed::Violation("invalid multibulk length"),
    };
    if count <= 0 {
        return Parsed::Nothing { len: at };
    }
    if count > ARGUMENTS_MAX as i64 {
        return Parsed::Violation("invalid multibulk length");
    }
    for _ in 0..count {
        match input.get(at) {
            None => return Parsed::Incomplete { missing_bytes: 0 },
            Some(b'$') => {}
            Some(_) => return Parsed::Violation("expected '$'"),
        }
        let (len, start) = match number_line(input, at + 1) {
            Ok(Some(found)) => found,
            Ok(None) => return Parsed::Incomplete { missing_bytes: 0 },
            Err(()) => return Parsed::Violation("invalid bulk length"),
        };
        let Some(len) = usize::try_from(len)
            .ok()
            .filter(|len| *len <= VALUE_MAX_BYTES)
        else {
            return Parsed::Violation("invalid bulk length");
        };
        let end = start + len + 2;
        if end > input.len() {
            let missing_bytes = end - input.len();
            return Parsed::Incomplete { missing_bytes };
        }
        arguments.push(&input[start..start + len]);
        at = end;
    }
    Parsed::Command { len: at }
}

/// The number from `start` to the end of its line, and where the next line begins; `None` if the line
/// has not come to its end.
fn number_line(input: &[u8], start: usize) -> Result<Option<(i64, usize)>, ()> {
    let line = &input[start..];
    let Some(len) = line.iter().take(NUMBER_MAX_BYTES).position(|b| *b == b'\r') else {
        return if line.len() < NUMBER_MAX_BYTES {
            Ok(None)
        } else {
            Err(())
        };
    };
    if line.len() < len + 2 {
        return Ok(None);
    }
    let text = std::str::from_utf8(&line[..len]).map_err(|_| ())?;
    let number = text.parse().map_err(|_| ())?;
    Ok(Some((number, start + len + 2)))
}
