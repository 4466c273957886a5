//! Commands of the text protocol.

use super::line::{number, unsigned};
use super::{BAD_FORMAT, Batch, Form, KEY_MAX_BYTES, meta};
use crate::{Condition, Expiry, ExpiryCondition, Operation};

const BAD_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta argument\r\n";
const BAD_EXPTIME: &[u8] = b"CLIENT_ERROR invalid exptime argument\r\n";
/// Times up to this are counted from now on.
const RELATIVE_MAX_S: i64 = 60 * 60 * 24 * 30;

/// Adds the requests of a command, and says how its reply is written, or what that is; `None`: it must be
/// executed by itself.
#[inline]
pub(super) fn add<'b, 'c: 'b>(
    line: &'c [u8],
    words: &[&'c [u8]],
    data: &'c [u8],
    batch: &mut Batch<'b>,
) -> Option<Form<'b>> {
    let Some((&name, words)) = words.split_first() else {
        return Some(Form::Literal(b"ERROR\r\n"));
    };
    let added = match name {
        [b'm', b'g' | b's' | b'd' | b'a'] => return meta::add(line, name, words, data, batch),
        b"get" => get(words, false, batch),
        b"gets" => get(words, true, batch),
        b"gat" => get_and_touch(words, false, batch),
        b"gats" => get_and_touch(words, true, batch),
        b"set" | b"add" | b"replace" | b"append" | b"prepend" | b"cas" => {
            store(name, words, data, batch)
        }
        b"delete" => delete(words, batch),
        b"incr" => count(words, false, batch),
        b"decr" => count(words, true, batch),
        b"touch" => touch(words, batch),
        b"quit" if !words.is_empty() => Err(&b"ERROR\r\n"[..]),
        b"flush_all" | b"stats" | b"quit" | b"me" | b"POST" | b"Host:" => return None,
        _ => Err(literal(name, words)),
    };
    Some(added.unwrap_or_else(Form::Literal))
}

/// The reply to what needs no request.
fn literal(name: &[u8], words: &[&[u8]]) -> &'static [u8] {
    match name {
        b"mn" => b"MN\r\n",
        b"version" if words.is_empty() => {
            concat!("VERSION ", env!("CARGO_PKG_VERSION"), "-overside\r\n").as_bytes()
        }
        b"verbosity" => match words {
            [] | [_, _, _, ..] => b"ERROR\r\n",
            _ if is_quiet(words) => b"",
            [level, ..] if level.iter().all(u8::is_ascii_digit) => b"OK\r\n",
            _ => BAD_FORMAT,
        },
        b"shutdown" => b"ERROR: shutdown not enabled\r\n",
        _ => b"ERROR\r\n",
    }
}

type Added = Result<Form<'static>, &'static [u8]>;

fn is_quiet(words: &[&[u8]]) -> bool {
    words.last() == Some(&&b"noreply"[..])
}

pub(super) fn key(word: Option<&&'_ [u8]>) -> Result<(), &'static [u8]> {
    match word {
        Some(key) if key.len() <= KEY_MAX_BYTES => Ok(()),
        Some(_) => Err(BAD_FORMAT),
        None => Err(b"ERROR\r\n"),
    }
}

/// When something expires, as memcached counts: 0 is never, negative at once, up to thirty days from
/// now on, beyond that since 1970.
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

fn get<'a>(keys: &[&'a [u8]], with_version: bool, batch: &mut Batch<'a>) -> Added {
    key(keys.first())?;
    if keys.iter().any(|key| key.len() > KEY_MAX_BYTES) {
        return Err(BAD_FORMAT);
    }
    for &key in keys {
        batch.request(key, Operation::Get);
    }
    Ok(Form::Values { with_version })
}

fn get_and_touch<'a>(words: &[&'a [u8]], with_version: bool, batch: &mut Batch<'a>) -> Added {
    let (exptime, keys) = words.split_first().ok_or(&b"ERROR\r\n"[..])?;
    key(keys.first())?;
    let expiry = expiry(exptime, batch.now_ms)?;
    if keys.iter().any(|key| key.len() > KEY_MAX_BYTES) {
        return Err(BAD_FORMAT);
    }
    for &key in keys {
        batch.request(key, Operation::GetAndExpire(expiry));
    }
    Ok(Form::Values { with_version })
}

fn store<'a>(name: &[u8], words: &[&'a [u8]], data: &'a [u8], batch: &mut Batch<'a>) -> Added {
    key(words.first())?;
    let arguments = if name == b"cas" { 5 } else { 4 };
    let more = words
        .len()
        .checked_sub(arguments)
        .ok_or(&b"ERROR\r\n"[..])?;
    let is_quiet = is_quiet(words);
    if more > usize::from(is_quiet) {
        return Err(BAD_FORMAT);
    }
    let flags = unsigned(words[1]).and_then(|flags| u32::try_from(flags).ok());
    let flags = flags.ok_or(BAD_FORMAT)?;
    let expiry = expiry(words[2], batch.now_ms).map_err(|_| BAD_FORMAT)?;
    if name == b"append" || name == b"prepend" {
        let operation = Operation::Append {
            value: data,
            front: name == b"prepend",
            create: false,
        };
        batch.request(words[0], operation);
        return Ok(Form::Appended { is_quiet });
    }
    let condition = match name {
        b"add" => Condition::IfAbsent,
        b"replace" => Condition::IfPresent,
        b"cas" => Condition::IfVersion(unsigned(words[4]).ok_or(BAD_FORMAT)?),
        _ => Condition::Always,
    };
    let operation = Operation::Set {
        value: data,
        flags,
        expiry,
        condition,
        return_old: false,
    };
    batch.request(words[0], operation);
    Ok(Form::Stored { is_quiet })
}

fn delete<'a>(words: &[&'a [u8]], batch: &mut Batch<'a>) -> Added {
    key(words.first())?;
    let is_quiet = is_quiet(words);
    let more = words.len() - 1 - usize::from(is_quiet && words.len() > 1);
    // An old form has a time, which may only be 0.
    if more > 1 || (more == 1 && words[1] != b"0") {
        return Err(b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n");
    }
    let operation = Operation::Delete { version: None };
    batch.request(words[0], operation);
    Ok(Form::Deleted { is_quiet })
}

fn count<'a>(words: &[&'a [u8]], down: bool, batch: &mut Batch<'a>) -> Added {
    key(words.first())?;
    let delta = words.get(1).ok_or(&b"ERROR\r\n"[..])?;
    let operation = Operation::Count {
        delta: unsigned(delta).ok_or(BAD_DELTA)?,
        down,
        initial: None,
        expiry: Expiry::Keep,
    };
    let is_quiet = is_quiet(words);
    batch.request(words[0], operation);
    Ok(Form::Counted { is_quiet })
}

fn touch<'a>(words: &[&'a [u8]], batch: &mut Batch<'a>) -> Added {
    key(words.first())?;
    let exptime = words.get(1).ok_or(&b"ERROR\r\n"[..])?;
    let operation = Operation::Expire {
        expiry: expiry(exptime, batch.now_ms)?,
        condition: ExpiryCondition::default(),
    };
    let is_quiet = is_quiet(words);
    batch.request(words[0], operation);
    Ok(Form::Touched { is_quiet })
}
