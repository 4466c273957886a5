//! Parses commands at the front of the input: arrays of bulk strings, or inline commands. Malformed
//! input gets the same error as in Redis.

use super::number::parse_i64;
use super::words::{self, Words};
use crate::{ARGUMENTS_MAX, COMMAND_MAX_BYTES, INLINE_MAX_BYTES};
use overside_kv_store::VALUE_MAX_BYTES;

/// Result of parsing the front of the input.
#[derive(Debug)]
pub(super) enum Parsed {
    /// A command of `len` bytes, whose arguments have been written.
    Command { len: usize },
    /// An inline command of `len` bytes with quotes: its arguments differ from the bytes of the input.
    Quoted { len: usize, arguments: Vec<Vec<u8>> },
    /// Input of `len` bytes that needs no reply.
    Nothing { len: usize },
    /// An incomplete command.
    Incomplete,
    /// Malformed input, with the error message.
    Violation(String),
}

/// Progress in parsing a command: bytes of a long one are not parsed again each time that more have arrived.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// Offset at which the first incomplete argument begins; 0 if parsing starts at the beginning.
    offset: usize,
    /// Number of arguments that are incomplete.
    arguments_left: usize,
    /// Lower bound on the number of bytes that are missing; 0 if it is unknown.
    pub(crate) missing_bytes: usize,
}

/// Limits on commands, which are lower for a client that has not authenticated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    arguments: i64,
    argument_bytes: i64,
    is_authenticated: bool,
}

impl Limits {
    pub(super) fn new(is_authenticated: bool) -> Self {
        if is_authenticated {
            Self {
                arguments: ARGUMENTS_MAX as i64,
                argument_bytes: VALUE_MAX_BYTES as i64,
                is_authenticated,
            }
        } else {
            Self { arguments: 10, argument_bytes: 16 << 10, is_authenticated }
        }
    }

    /// Returns the error for a number that is too large. Redis has another message if only the
    /// limit for clients without authentication is exceeded. `max` is the limit for the others.
    fn violation(self, what: &str, number: i64, max: i64) -> Parsed {
        if self.is_authenticated || !(0..=max).contains(&number) {
            Parsed::Violation(format!("invalid {what} length"))
        } else {
            Parsed::Violation(format!("unauthenticated {what} length"))
        }
    }
}

/// Number of bytes of the longest number, including the end of its line.
const NUMBER_MAX_BYTES: usize = 32;
/// Number of bytes of `$0` and two line ends.
const ARGUMENT_MIN_BYTES: usize = 6;

/// Parses the command at the front of the input. Its arguments are appended.
#[inline]
pub(super) fn parse<'a>(
    input: &'a [u8],
    progress: &mut Progress,
    limits: Limits,
    arguments: &mut Vec<&'a [u8]>,
) -> Parsed {
    arguments.clear();
    match input.first() {
        Some(b'*') => {
            if progress.offset > 0
                && let Some(unfinished) = resume(input, progress, limits)
            {
                return unfinished;
            }
            parse_array(input, progress, limits, arguments)
        }
        Some(_) => parse_inline(input, progress, arguments),
        None => {
            *progress = Progress::default();
            Parsed::Incomplete
        }
    }
}

fn parse_inline<'a>(
    input: &'a [u8],
    progress: &mut Progress,
    arguments: &mut Vec<&'a [u8]>,
) -> Parsed {
    *progress = Progress::default();
    let searched = &input[..input.len().min(INLINE_MAX_BYTES + 1)];
    let Some(end) = memchr::memchr(b'\n', searched) else {
        return if searched.len() > INLINE_MAX_BYTES {
            Parsed::Violation("too big inline request".into())
        } else {
            Parsed::Incomplete
        };
    };
    let len = end + 1;
    let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
    match words::split(line, arguments) {
        Words::Plain if arguments.is_empty() => Parsed::Nothing { len },
        Words::Plain => Parsed::Command { len },
        Words::Quoted(arguments) => Parsed::Quoted { len, arguments },
        Words::Unbalanced => Parsed::Violation("unbalanced quotes in request".into()),
    }
}

/// Continues where the last call ended. Returns `None` if the command is complete.
fn resume(input: &[u8], progress: &mut Progress, limits: Limits) -> Option<Parsed> {
    match read_arguments(input, progress.offset, progress.arguments_left, limits, |_| ()) {
        Ok(_) => None,
        Err(Stop::Incomplete(further)) => {
            *progress = further;
            Some(Parsed::Incomplete)
        }
        Err(Stop::Violation(violation)) => Some(violation),
    }
}

fn parse_array<'a>(
    input: &'a [u8],
    progress: &mut Progress,
    limits: Limits,
    arguments: &mut Vec<&'a [u8]>,
) -> Parsed {
    *progress = Progress::default();
    let (count, at) = match read_number(input, 1) {
        Number::Is(count, at) => (count, at),
        Number::Incomplete => return Parsed::Incomplete,
        Number::TooLong => return Parsed::Violation("too big mbulk count string".into()),
        Number::Invalid => return Parsed::Violation("invalid multibulk length".into()),
    };
    if count <= 0 {
        return Parsed::Nothing { len: at };
    }
    if count > limits.arguments {
        return limits.violation("multibulk", count, i64::from(i32::MAX));
    }
    match read_arguments(input, at, count as usize, limits, |a| arguments.push(a)) {
        Ok(len) => Parsed::Command { len },
        Err(Stop::Incomplete(further)) => {
            *progress = further;
            Parsed::Incomplete
        }
        Err(Stop::Violation(violation)) => violation,
    }
}

enum Stop {
    Incomplete(Progress),
    Violation(Parsed),
}

/// Reads arguments from offset `at` on. Returns the offset at which they end.
#[inline]
fn read_arguments<'a>(
    input: &'a [u8],
    mut at: usize,
    mut left: usize,
    limits: Limits,
    mut argument: impl FnMut(&'a [u8]),
) -> Result<usize, Stop> {
    while left > 0 {
        let incomplete = |end: usize| {
            let rest = ARGUMENT_MIN_BYTES * (left - 1);
            Err(Stop::Incomplete(Progress {
                offset: at,
                arguments_left: left,
                missing_bytes: (end + rest).saturating_sub(input.len()),
            }))
        };
        match input.get(at) {
            Some(b'$') => {}
            Some(other) => return Err(Stop::Violation(unexpected(*other))),
            None => return incomplete(at + ARGUMENT_MIN_BYTES),
        }
        let (len, start) = match read_number(input, at + 1) {
            Number::Is(len, start) => (len, start),
            Number::Incomplete => return incomplete(at + ARGUMENT_MIN_BYTES),
            Number::TooLong => {
                let text = "too big bulk count string".into();
                return Err(Stop::Violation(Parsed::Violation(text)));
            }
            Number::Invalid => {
                let text = "invalid bulk length".into();
                return Err(Stop::Violation(Parsed::Violation(text)));
            }
        };
        if !(0..=limits.argument_bytes).contains(&len) {
            let violation = limits.violation("bulk", len, 512 << 20);
            return Err(Stop::Violation(violation));
        }
        let end = start + len as usize + 2;
        if end > COMMAND_MAX_BYTES {
            let text = format!("command is longer than {COMMAND_MAX_BYTES} bytes");
            return Err(Stop::Violation(Parsed::Violation(text)));
        }
        if end > input.len() {
            return incomplete(end);
        }
        argument(&input[start..end - 2]);
        at = end;
        left -= 1;
    }
    Ok(at)
}

#[cold]
fn unexpected(byte: u8) -> Parsed {
    Parsed::Violation(format!("expected '$', got '{}'", char::from(byte)))
}

enum Number {
    /// The number, and the offset of the next line.
    Is(i64, usize),
    Incomplete,
    Invalid,
    TooLong,
}

/// Reads the number from `start` to the end of its line. As in Redis, the byte behind the carriage
/// return is not checked.
#[inline]
fn read_number(input: &[u8], start: usize) -> Number {
    // Nearly all numbers have one or two digits.
    if let Some(&[first, second, third, fourth]) = input.get(start..start + 4) {
        let tens = first.wrapping_sub(b'0');
        let ones = second.wrapping_sub(b'0');
        let _ = fourth;
        if tens < 10 && second == b'\r' {
            return Number::Is(i64::from(tens), start + 3);
        }
        if (1..10).contains(&tens) && ones < 10 && third == b'\r' {
            return Number::Is(i64::from(tens * 10 + ones), start + 4);
        }
    }
    read_long_number(input, start)
}

fn read_long_number(input: &[u8], start: usize) -> Number {
    let line = &input[start..];
    let searched = &line[..line.len().min(NUMBER_MAX_BYTES)];
    let Some(len) = memchr::memchr(b'\r', searched) else {
        return if searched.len() < NUMBER_MAX_BYTES {
            Number::Incomplete
        } else {
            Number::TooLong
        };
    };
    if line.len() < len + 2 {
        return Number::Incomplete;
    }
    match parse_i64(&line[..len]) {
        Some(number) => Number::Is(number, start + len + 2),
        None => Number::Invalid,
    }
}
