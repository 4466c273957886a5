//! Commands of the text protocol.

use super::line::{expiry, key, unsigned};
use super::{BAD_FORMAT, Batch, KEY_MAX_BYTES, ReplyFormat, meta};
use overside_kv_store::request::CounterChange;
use overside_kv_store::{Condition, Expiry, ExpiryCondition, Operation, SetOptions};

const ERROR: &[u8] = b"ERROR\r\n";
const BAD_DELTA: &[u8] = b"CLIENT_ERROR invalid numeric delta argument\r\n";

/// Adds the requests of a command and returns the format of its reply, or an error reply. Returns
/// `None` if it must be executed by itself.
#[inline]
pub(super) fn add<'b, 'c: 'b>(
    line: &'c [u8],
    words: &[&'c [u8]],
    data: &'c [u8],
    batch: &mut Batch<'b>,
) -> Option<ReplyFormat<'b>> {
    let Some((&name, words)) = words.split_first() else {
        return Some(ReplyFormat::Literal(ERROR));
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
        b"quit" if !words.is_empty() => Err(ERROR),
        b"flush_all" | b"stats" | b"quit" | b"me" | b"POST" | b"Host:" => return None,
        _ => Err(literal(name, words)),
    };
    Some(added.unwrap_or_else(|error| ReplyFormat::Literal(unless_quiet(name, words, error))))
}

/// Returns the error of a command. It is empty if the client expects no reply, because it would
/// take the error for the reply to the next command. As in memcached, a line with too few or too
/// many words is answered.
pub(super) fn unless_quiet(name: &[u8], words: &[&[u8]], error: &'static [u8]) -> &'static [u8] {
    const NAMES: [&[u8]; 10] = [
        b"set", b"add", b"replace", b"append", b"prepend", b"cas", b"delete", b"incr", b"decr",
        b"touch",
    ];
    match error != ERROR && is_quiet(words) && NAMES.contains(&name) {
        true => b"",
        false => error,
    }
}

/// Returns the reply to a command without requests.
fn literal(name: &[u8], words: &[&[u8]]) -> &'static [u8] {
    match name {
        b"mn" => b"MN\r\n",
        b"version" if words.is_empty() => {
            concat!("VERSION ", env!("CARGO_PKG_VERSION"), "-overside\r\n").as_bytes()
        }
        b"verbosity" => match words {
            [] | [_, _, _, ..] => ERROR,
            _ if is_quiet(words) => b"",
            [level, ..] if level.iter().all(u8::is_ascii_digit) => b"OK\r\n",
            _ => BAD_FORMAT,
        },
        b"shutdown" => b"ERROR: shutdown not enabled\r\n",
        _ => ERROR,
    }
}

type Added = Result<ReplyFormat<'static>, &'static [u8]>;

fn is_quiet(words: &[&[u8]]) -> bool {
    words.last() == Some(&&b"noreply"[..])
}

fn get<'a>(keys: &[&'a [u8]], with_version: bool, batch: &mut Batch<'a>) -> Added {
    key(keys.first())?;
    if keys.iter().any(|key| key.len() > KEY_MAX_BYTES) {
        return Err(BAD_FORMAT);
    }
    for &key in keys {
        batch.request(key, Operation::Get);
    }
    Ok(ReplyFormat::Values { with_version })
}

fn get_and_touch<'a>(words: &[&'a [u8]], with_version: bool, batch: &mut Batch<'a>) -> Added {
    let (exptime, keys) = words.split_first().ok_or(ERROR)?;
    key(keys.first())?;
    let expiry = expiry(exptime, batch.now_ms)?;
    if keys.iter().any(|key| key.len() > KEY_MAX_BYTES) {
        return Err(BAD_FORMAT);
    }
    for &key in keys {
        batch.request(key, Operation::GetAndExpire(expiry));
    }
    Ok(ReplyFormat::Values { with_version })
}

fn store<'a>(name: &[u8], words: &[&'a [u8]], data: &'a [u8], batch: &mut Batch<'a>) -> Added {
    key(words.first())?;
    let arguments = if name == b"cas" { 5 } else { 4 };
    let more = words.len().checked_sub(arguments).ok_or(ERROR)?;
    let is_quiet = is_quiet(words);
    if more > usize::from(is_quiet) {
        return Err(ERROR);
    }
    let flags = unsigned(words[1]).and_then(|flags| u32::try_from(flags).ok());
    let flags = flags.ok_or(BAD_FORMAT)?;
    let expiry = expiry(words[2], batch.now_ms).map_err(|_| BAD_FORMAT)?;
    if name == b"append" || name == b"prepend" {
        let operation = Operation::Append { value: data, front: name == b"prepend", create: false };
        batch.request(words[0], operation);
        return Ok(ReplyFormat::Appended { is_quiet });
    }
    let condition = match name {
        b"add" => Condition::IfAbsent,
        b"replace" => Condition::IfPresent,
        b"cas" => Condition::IfVersion(unsigned(words[4]).ok_or(BAD_FORMAT)?),
        _ => Condition::Always,
    };
    let operation = Operation::Set {
        value: data,
        options: SetOptions { flags, expiry, condition, ..SetOptions::default() },
    };
    batch.request(words[0], operation);
    Ok(ReplyFormat::Stored { is_quiet })
}

fn delete<'a>(words: &[&'a [u8]], batch: &mut Batch<'a>) -> Added {
    key(words.first())?;
    let is_quiet = is_quiet(&words[1..]);
    // An old form has a time, which must be 0.
    let more = words.len() - 1 - usize::from(is_quiet);
    if words.len() > 3 {
        return Err(ERROR);
    }
    if more > 1 || (more == 1 && words[1] != b"0") {
        return Err(b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n");
    }
    let operation = Operation::Delete { version: None };
    batch.request(words[0], operation);
    Ok(ReplyFormat::Deleted { is_quiet })
}

fn count<'a>(words: &[&'a [u8]], down: bool, batch: &mut Batch<'a>) -> Added {
    key(words.first())?;
    let delta = words.get(1).filter(|_| words.len() < 4).ok_or(ERROR)?;
    let operation = Operation::Count(CounterChange {
        delta: unsigned(delta).ok_or(BAD_DELTA)?,
        down,
        initial: None,
        expiry: Expiry::Keep,
    });
    let is_quiet = is_quiet(words);
    batch.request(words[0], operation);
    Ok(ReplyFormat::Counted { is_quiet })
}

fn touch<'a>(words: &[&'a [u8]], batch: &mut Batch<'a>) -> Added {
    key(words.first())?;
    let exptime = words.get(1).filter(|_| words.len() < 4).ok_or(ERROR)?;
    let operation = Operation::Expire {
        expiry: expiry(exptime, batch.now_ms)?,
        condition: ExpiryCondition::default(),
    };
    let is_quiet = is_quiet(words);
    batch.request(words[0], operation);
    Ok(ReplyFormat::Touched { is_quiet })
}
