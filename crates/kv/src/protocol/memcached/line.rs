//! Command lines and the data that follows some of them.

use super::BAD_FORMAT;
use crate::VALUE_MAX_BYTES;

/// Longest command line.
const LINE_MAX_BYTES: usize = 64 << 10;
/// What ends a line, and data.
const END: &[u8] = b"\r\n";

const BAD_CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";

/// What an input begins with.
#[derive(Debug)]
pub(super) enum Parsed<'a> {
    /// Not a whole command. So many bytes are missing at least; 0: unknown.
    Incomplete { missing_bytes: usize },
    /// No line is as long.
    TooLong,
    /// A command line that is refused with its data, of which `data_len` bytes follow.
    Refused {
        len: usize,
        data_len: usize,
        error: &'static [u8],
    },
    /// A whole command of `len` bytes. `data` is empty for those that have none.
    Command {
        len: usize,
        line: &'a [u8],
        data: &'a [u8],
    },
}

/// The words of a line.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let words = line.split(|byte| *byte == b' ');
    words.filter(|word| !word.is_empty())
}

/// Parses the command at the front of the input, whose words are `into` afterwards.
#[inline]
pub(super) fn parse<'a>(input: &'a [u8], into: &mut Vec<&'a [u8]>) -> Parsed<'a> {
    let searched = &input[..input.len().min(LINE_MAX_BYTES)];
    let Some(end) = memchr::memchr(b'\n', searched) else {
        return match searched.len() == LINE_MAX_BYTES {
            true => Parsed::TooLong,
            false => Parsed::Incomplete { missing_bytes: 0 },
        };
    };
    let line = &input[..end];
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    into.clear();
    let mut begin = 0;
    for (at, byte) in line.iter().enumerate() {
        if *byte == b' ' {
            if at > begin {
                into.push(&line[begin..at]);
            }
            begin = at + 1;
        }
    }
    if begin < line.len() {
        into.push(&line[begin..]);
    }
    let begin = end + 1;
    let Some(data_len) = data_len(into) else {
        return Parsed::Command {
            len: begin,
            line,
            data: &[],
        };
    };
    with_data(input, begin, line, data_len)
}

/// How many bytes of data follow the line, or what is wrong with how it says so; `None`: it has no data.
#[inline]
fn data_len(line: &[&[u8]]) -> Option<Result<usize, &'static [u8]>> {
    let place = match *line.first()? {
        [b'm', b's'] => 2,
        [_, _] => return None,
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => 4,
        _ => return None,
    };
    // A line that is too short has no data: what follows is the next command.
    let word = line.get(place)?;
    let len = number(word).and_then(|len| u32::try_from(len).ok());
    Some(len.map(|len| len as usize).ok_or(BAD_FORMAT))
}

fn with_data<'a>(
    input: &'a [u8],
    begin: usize,
    line: &'a [u8],
    data_len: Result<usize, &'static [u8]>,
) -> Parsed<'a> {
    let len = match data_len {
        Ok(len) => len,
        Err(error) => {
            return Parsed::Refused {
                len: begin,
                data_len: 0,
                error,
            };
        }
    };
    let whole = len + END.len();
    if len > VALUE_MAX_BYTES {
        return Parsed::Refused {
            len: begin,
            data_len: whole,
            error: TOO_LARGE,
        };
    }
    let there = input.len() - begin;
    if there < whole {
        let missing_bytes = whole - there;
        return Parsed::Incomplete { missing_bytes };
    }
    let data = &input[begin..begin + len];
    if &input[begin + len..begin + whole] != END {
        return Parsed::Refused {
            len: begin + whole,
            data_len: 0,
            error: BAD_CHUNK,
        };
    }
    Parsed::Command {
        len: begin + whole,
        line,
        data,
    }
}

/// A whole number in decimal digits, with a sign perhaps.
#[inline]
pub(super) fn number(word: &[u8]) -> Option<i64> {
    if let [digit @ b'0'..=b'9'] = word {
        return Some(i64::from(digit - b'0'));
    }
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// A number that has no sign.
pub(super) fn unsigned(word: &[u8]) -> Option<u64> {
    let digits = word.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(word)
        .ok()
        .filter(|_| digits)?
        .parse()
        .ok()
}
