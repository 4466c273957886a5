//! Command lines and the data that follows some of them.

use super::{BAD_FORMAT, KEY_MAX_BYTES};
use overside_kv_store::{Expiry, VALUE_MAX_BYTES};

/// Length of the longest command line.
const LINE_MAX_BYTES: usize = 64 << 10;
/// End of a line, and of the data behind it.
const END: &[u8] = b"\r\n";

/// Maximum time in seconds that is relative to now; larger ones are since 1970.
const RELATIVE_MAX_S: i64 = 60 * 60 * 24 * 30;

const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";
const BAD_CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk\r\n";
/// First byte of a request of the binary protocol; no text begins with it.
const BINARY: u8 = 0x80;
pub(super) const BINARY_HEADER_BYTES: usize = 24;
pub(super) const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache\r\n";

/// Result of parsing the beginning of an input.
#[derive(Debug)]
pub(super) enum Parsed<'a> {
    /// The command is incomplete. Minimum number of missing bytes; 0 if unknown.
    Incomplete { missing_bytes: usize },
    /// The line is too long.
    TooLong,
    /// The input is a request of the binary protocol.
    Binary,
    /// The command line is refused with its data, of which `data_len` bytes follow.
    Refused { len: usize, data_len: usize, error: &'static [u8] },
    /// The command has `len` bytes. `data` is empty for a command without data.
    Command { len: usize, line: &'a [u8], data: &'a [u8] },
}

/// Splits a line into words.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> + Clone {
    let words = line.split(|byte| *byte == b' ');
    words.filter(|word| !word.is_empty())
}

/// Parses the command at the front of the input. Its words are stored in `into`.
#[inline]
pub(super) fn parse<'a>(input: &'a [u8], into: &mut Vec<&'a [u8]>) -> Parsed<'a> {
    if input.first() == Some(&BINARY) {
        return match BINARY_HEADER_BYTES.checked_sub(input.len()) {
            None | Some(0) => Parsed::Binary,
            Some(missing_bytes) => Parsed::Incomplete { missing_bytes },
        };
    }
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
        return Parsed::Command { len: begin, line, data: &[] };
    };
    with_data(input, begin, line, data_len)
}

/// Returns the number of bytes of data that follow the line, or an error reply if it cannot be
/// read; `None` if the command has no data.
#[inline]
fn data_len(line: &[&[u8]]) -> Option<Result<usize, &'static [u8]>> {
    let place = match *line.first()? {
        [b'm', b's'] => 2,
        [_, _] => return None,
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => 4,
        _ => return None,
    };
    // A line with too few words has no data: the next line is the next command.
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
            return Parsed::Refused { len: begin, data_len: 0, error };
        }
    };
    let whole = len + END.len();
    if len > VALUE_MAX_BYTES {
        return Parsed::Refused { len: begin, data_len: whole, error: TOO_LARGE };
    }
    let there = input.len() - begin;
    if there < whole {
        let missing_bytes = whole - there;
        return Parsed::Incomplete { missing_bytes };
    }
    let data = &input[begin..begin + len];
    if &input[begin + len..begin + whole] != END {
        return Parsed::Refused { len: begin + whole, data_len: 0, error: BAD_CHUNK };
    }
    Parsed::Command { len: begin + whole, line, data }
}

/// Parses a whole number in decimal digits with an optional sign.
#[inline]
fn number(word: &[u8]) -> Option<i64> {
    if let [digit @ b'0'..=b'9'] = word {
        return Some(i64::from(digit - b'0'));
    }
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// Parses a number without a sign.
pub(super) fn unsigned(word: &[u8]) -> Option<u64> {
    let digits = word.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(word).ok().filter(|_| digits)?.parse().ok()
}

/// Refuses a key that is missing or too long.
pub(super) fn key(word: Option<&&'_ [u8]>) -> Result<(), &'static [u8]> {
    match word {
        Some(key) if key.len() <= KEY_MAX_BYTES => Ok(()),
        Some(_) => Err(BAD_FORMAT),
        None => Err(b"ERROR\r\n"),
    }
}

/// Parses an expiration time of memcached in seconds: 0 is never, negative is at once, up to thirty
/// days count from now, and more count from 1970.
pub(super) fn expiry(word: &[u8], now_ms: u64) -> Result<Expiry, &'static [u8]> {
    let seconds = number(word).ok_or(BAD_EXPTIME)?;
    let ms = |seconds: i64| seconds.unsigned_abs().saturating_mul(1000);
    Ok(match seconds {
        0 => Expiry::Never,
        i64::MIN..0 => Expiry::At(1),
        1..=RELATIVE_MAX_S => Expiry::At(now_ms.saturating_add(ms(seconds))),
        _ => Expiry::At(ms(seconds)),
    })
}
