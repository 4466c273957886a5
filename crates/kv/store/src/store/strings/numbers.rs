//! Counters: numbers that are kept as text.

use std::io::Write;

use super::{Kept, expires};
use crate::request::CounterChange;
use crate::store::Store;
use crate::{Answer, Refusal, Request};

impl Store {
    pub(in crate::store) fn increment(
        &mut self,
        request: &Request<'_>,
        delta: i64,
        now_ms: u64,
    ) -> Result<Answer<'static>, Refusal> {
        let item = self.string(request, now_ms)?;
        let kept = item.map(Kept::of).unwrap_or_default();
        let old = match item {
            Some(item) => signed(item.value()).ok_or(Refusal::NotAnInteger)?,
            None => 0,
        };
        let sum = old.checked_add(delta).ok_or(Refusal::Overflow)?;
        self.put_number(request, sum, kept, now_ms)?;
        Ok(Answer::Number(sum))
    }

    fn put_number(
        &mut self,
        request: &Request<'_>,
        number: impl std::fmt::Display,
        kept: Kept,
        now_ms: u64,
    ) -> Result<u64, Refusal> {
        let mut text = [0; 20];
        let mut rest = &mut text[..];
        write!(rest, "{number}").expect("no number of 64 bits is longer");
        let left = rest.len();
        self.put(request, &text[..text.len() - left], kept, now_ms)
    }

    pub(in crate::store) fn count(
        &mut self,
        request: &Request<'_>,
        change: CounterChange,
        now_ms: u64,
    ) -> Result<Answer<'static>, Refusal> {
        let (value, kept) = match (self.string(request, now_ms)?, change.initial) {
            (None, None) => return Ok(Answer::Missing),
            (None, Some((first, first_expiry))) => {
                let kept = Kept { flags: 0, expires_at_ms: expires(first_expiry, None) };
                (first, kept)
            }
            (Some(item), _) => {
                let number = unsigned(item.value()).ok_or(Refusal::NotAnInteger)?;
                let value = match change.down {
                    true => number.saturating_sub(change.delta),
                    false => number.wrapping_add(change.delta),
                };
                let mut kept = Kept::of(item);
                kept.expires_at_ms = expires(change.expiry, kept.expires_at_ms);
                (value, kept)
            }
        };
        let version = self.put_number(request, value, kept, now_ms)?;
        Ok(Answer::Counter { value, version })
    }
}

/// A decimal number as Redis takes it: no plus sign, no leading zero, no -0.
pub(in crate::store) fn signed(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_canonical = match digits {
        [b'0'] => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    str::from_utf8(text).ok().filter(|_| is_canonical)?.parse().ok()
}

/// A decimal number as memcached takes it: at most 20 digits.
fn unsigned(text: &[u8]) -> Option<u64> {
    let is_decimal = text.len() <= 20 && text.iter().all(u8::is_ascii_digit);
    str::from_utf8(text).ok().filter(|_| is_decimal)?.parse().ok()
}
