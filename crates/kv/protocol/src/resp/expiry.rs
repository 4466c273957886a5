//! Times in commands.

use super::batch::integer;
use super::reply::ErrorReply;
use overside_kv_store::Expiry;

/// Unit of a time, and its origin: now or 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeUnit {
    is_seconds: bool,
    is_absolute: bool,
}

impl TimeUnit {
    pub(super) const SECONDS: Self = Self::new(true, false);
    pub(super) const MILLISECONDS: Self = Self::new(false, false);
    pub(super) const SECONDS_SINCE_1970: Self = Self::new(true, true);
    pub(super) const MILLISECONDS_SINCE_1970: Self = Self::new(false, true);

    const fn new(is_seconds: bool, is_absolute: bool) -> Self {
        Self { is_seconds, is_absolute }
    }

    /// Returns the unit of a time option of `SET` and `GETEX`; `None` if `option` is another word.
    pub(super) fn of_option(option: &[u8]) -> Option<Self> {
        let is = |word: &[u8]| option.eq_ignore_ascii_case(word);
        if is(b"EX") {
            Some(Self::SECONDS)
        } else if is(b"PX") {
            Some(Self::MILLISECONDS)
        } else if is(b"EXAT") {
            Some(Self::SECONDS_SINCE_1970)
        } else if is(b"PXAT") {
            Some(Self::MILLISECONDS_SINCE_1970)
        } else {
            None
        }
    }

    /// Converts a time to milliseconds since 1970; `None` if that overflows.
    fn to_ms(self, time: i64, now_ms: u64) -> Option<i64> {
        let factor = if self.is_seconds { 1000 } else { 1 };
        let base = if self.is_absolute { 0 } else { i64::try_from(now_ms).ok()? };
        time.checked_mul(factor)?.checked_add(base)
    }
}

fn invalid(command: &str) -> ErrorReply {
    ErrorReply::from_bytes(format!("ERR invalid expire time in '{command}' command").into_bytes())
}

/// Parses the expiry of a value that is stored or read now. The time must be positive.
pub(super) fn of_value(
    time: &[u8],
    unit: TimeUnit,
    now_ms: u64,
    command: &str,
) -> Result<Expiry, ErrorReply> {
    let time = integer(time)?;
    let at_ms = unit.to_ms(time, now_ms).filter(|_| time > 0);
    let at_ms = at_ms.and_then(|at_ms| u64::try_from(at_ms).ok());
    at_ms.map(Expiry::At).ok_or_else(|| invalid(command))
}

/// Returns the new expiry of a key. A time before 1970 is treated like any other time in the past.
pub(super) fn of_key(
    time: i64,
    unit: TimeUnit,
    now_ms: u64,
    command: &str,
) -> Result<Expiry, ErrorReply> {
    let at_ms = unit.to_ms(time, now_ms).ok_or_else(|| invalid(command))?;
    Ok(Expiry::At(u64::try_from(at_ms).unwrap_or(0)))
}
