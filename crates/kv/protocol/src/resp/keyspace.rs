//! Commands on all keys.

use super::answers::kind_name;
use super::batch::integer;
use super::command::Call;
use super::glob;
use super::number::seed;
use super::reply::{ErrorReply, RespWriter, SYNTAX};
use crate::OUTPUT_MAX_BYTES;
use overside_kv_store::ScanPosition;

/// Maximum number of keys of one call of `SCAN`. Redis also treats `COUNT` as a hint.
const SCAN_COUNT_MAX: usize = 64 << 10;
const SCAN_COUNT: usize = 10;

pub(super) fn scan(call: &mut Call<'_>, arguments: &[&[u8]]) -> Result<(), ErrorReply> {
    let position = cursor(arguments[1])?;
    let mut filter = Filter::default();
    let mut count = SCAN_COUNT;
    let (options, rest) = arguments[2..].as_chunks();
    for [option, value] in options {
        match option.to_ascii_uppercase().as_slice() {
            b"COUNT" => count = option_count(value)?,
            b"MATCH" => filter.pattern = Some(glob::pattern(value)?),
            b"TYPE" => filter.kind = Some(value),
            _ => return Err(SYNTAX),
        }
    }
    if !rest.is_empty() {
        return Err(SYNTAX);
    }
    let count = count.min(SCAN_COUNT_MAX);
    let mut keys = KeyList::default();
    let next = keys.scan(call, ScanPosition(position), count, filter)?;
    let mut reply = call.reply();
    reply.array(2);
    reply.bulk(next.0.to_string().as_bytes());
    keys.write(&mut reply);
    Ok(())
}

/// The cursor of a scan.
pub(super) fn cursor(text: &[u8]) -> Result<u64, ErrorReply> {
    let position = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    position.ok_or(ErrorReply::new("ERR invalid cursor"))
}

/// The value of a scan's option `COUNT`.
pub(super) fn option_count(value: &[u8]) -> Result<usize, ErrorReply> {
    usize::try_from(integer(value)?).ok().filter(|count| *count > 0).ok_or(SYNTAX)
}

pub(super) fn randomkey(call: &mut Call<'_>, _: &[&[u8]]) -> Result<(), ErrorReply> {
    let mut found = None;
    // From a random place on, and from the beginning if there is none behind it.
    for mut position in [ScanPosition(seed()), ScanPosition::default()] {
        while found.is_none() {
            let mut take = |key: &[u8], _| _ = found.get_or_insert_with(|| key.to_vec());
            let next = call.server.engine().scan(position, 1, call.now_ms, &mut take);
            position = next.map_err(|refusal| call.refusal(refusal))?;
            if position == ScanPosition::default() {
                break;
            }
        }
    }
    match found {
        Some(key) => call.reply().bulk(&key),
        None => call.reply().null(),
    }
    Ok(())
}

pub(super) fn keys(call: &mut Call<'_>, arguments: &[&[u8]]) -> Result<(), ErrorReply> {
    let filter = Filter { pattern: Some(glob::pattern(arguments[1])?), kind: None };
    let mut keys = KeyList::default();
    let mut position = ScanPosition::default();
    loop {
        position = keys.scan(call, position, SCAN_COUNT_MAX, filter)?;
        if keys.bulks.len() > OUTPUT_MAX_BYTES {
            return Err(ErrorReply::new("ERR too many keys match: use SCAN"));
        }
        if position == ScanPosition::default() {
            break;
        }
    }
    keys.write(&mut call.reply());
    Ok(())
}

/// Filter of keys.
#[derive(Clone, Copy, Debug, Default)]
struct Filter<'a> {
    pattern: Option<&'a [u8]>,
    kind: Option<&'a [u8]>,
}

/// List of keys, written before their number is known.
#[derive(Debug, Default)]
struct KeyList {
    len: usize,
    bulks: Vec<u8>,
}

impl KeyList {
    fn scan(
        &mut self,
        call: &mut Call<'_>,
        position: ScanPosition,
        count: usize,
        filter: Filter<'_>,
    ) -> Result<ScanPosition, ErrorReply> {
        let now_ms = call.now_ms;
        let next = call.server.engine().scan(position, count, now_ms, &mut |key, metadata| {
            // The caller refuses a list that is too long.
            if self.bulks.len() > OUTPUT_MAX_BYTES {
                return;
            }
            let name = kind_name(metadata.kind).as_bytes();
            if filter.kind.is_none_or(|kind| kind.eq_ignore_ascii_case(name))
                && filter.pattern.is_none_or(|pattern| glob::matches(pattern, key, false))
            {
                self.len += 1;
                let out = &mut self.bulks;
                // RESP2 and RESP3 have the same bulk strings.
                RespWriter { out, is_resp3: false }.bulk(key);
            }
        });
        next.map_err(|refusal| call.refusal(refusal))
    }

    fn write(&self, reply: &mut RespWriter<'_>) {
        reply.array(self.len);
        reply.out.extend_from_slice(&self.bulks);
    }
}

pub(super) fn dbsize(call: &mut Call<'_>, _: &[&[u8]]) -> Result<(), ErrorReply> {
    let engine = call.server.engine();
    engine.refresh();
    let items = engine.statistics().items;
    call.reply().count(items);
    Ok(())
}

pub(super) fn flush(call: &mut Call<'_>, arguments: &[&[u8]]) -> Result<(), ErrorReply> {
    match &arguments[1..] {
        [] => {}
        [word] if word.eq_ignore_ascii_case(b"SYNC") || word.eq_ignore_ascii_case(b"ASYNC") => {}
        _ => return Err(SYNTAX),
    }
    if let Err(refusal) = call.server.engine().flush() {
        return Err(call.refusal(refusal));
    }
    call.ok()
}
