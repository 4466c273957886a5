//! The command `CLIENT` and its subcommands.

use std::fmt::Write;

use super::command::{Call, CommandResult};
use super::number::parse_i64;
use super::reply::{ErrorReply, SYNTAX};
use crate::ClientInfo;

/// Number of bytes of the longest name of a client.
const NAME_MAX_BYTES: usize = 1024;

/// Returns `true` if a text can be shown in a line of `CLIENT LIST`.
fn is_printable(text: &[u8]) -> bool {
    text.iter().all(u8::is_ascii_graphic)
}

pub(super) fn set_name(call: &mut Call<'_>, name: &[u8]) -> CommandResult {
    if !is_printable(name) {
        return Err(ErrorReply::new(
            "ERR Client names cannot contain spaces, newlines or special characters.",
        ));
    }
    if name.len() > NAME_MAX_BYTES {
        return Err(ErrorReply::new("ERR client name is longer than 1024 bytes"));
    }
    call.session.name = name.into();
    call.server.set_client_name(call.session.id(), name);
    Ok(())
}

pub(super) fn setname(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    set_name(call, arguments[2])?;
    call.ok()
}

pub(super) fn getname(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    let name = call.session.name.clone();
    if name.is_empty() {
        call.reply().null();
    } else {
        call.reply().bulk(&name);
    }
    Ok(())
}

/// `CLIENT SETINFO`, by which clients since Redis 7.2 give the name of their library. The name is
/// checked but not stored.
pub(super) fn setinfo(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    let attribute = arguments[2];
    if !attribute.eq_ignore_ascii_case(b"LIB-NAME") && !attribute.eq_ignore_ascii_case(b"LIB-VER") {
        let mut text = b"ERR Unrecognized option '".to_vec();
        text.extend_from_slice(&attribute[..attribute.len().min(128)]);
        text.push(b'\'');
        return Err(ErrorReply::from_bytes(text));
    }
    if !is_printable(arguments[3]) {
        let name = attribute.to_ascii_lowercase();
        let mut text = b"ERR ".to_vec();
        text.extend_from_slice(&name);
        text.extend_from_slice(b" cannot contain spaces, newlines or special characters.");
        return Err(ErrorReply::from_bytes(text));
    }
    call.ok()
}

pub(super) fn id(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    let id = call.session.id();
    call.reply().count(id);
    Ok(())
}

/// `CLIENT NO-EVICT`, without an effect: the server evicts no clients.
pub(super) fn no_evict(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    let is = |word: &[u8]| arguments[2].eq_ignore_ascii_case(word);
    if is(b"ON") || is(b"OFF") { call.ok() } else { Err(SYNTAX) }
}

pub(super) fn info(call: &mut Call<'_>, _: &[&[u8]]) -> CommandResult {
    let own = call.session.id();
    let text = lines(call, |client| client.id == own);
    call.reply().verbatim(&text);
    Ok(())
}

/// `CLIENT LIST [TYPE type] [ID id ...]`
pub(super) fn list(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    let text = match &arguments[2..] {
        [] => lines(call, |_| true),
        [word, kind] if word.eq_ignore_ascii_case(b"TYPE") => {
            let is_normal = is_normal(kind)?;
            lines(call, |_| is_normal)
        }
        [word, ids @ ..] if word.eq_ignore_ascii_case(b"ID") && !ids.is_empty() => {
            let ids: Vec<u64> = ids.iter().map(|id| client_id(id)).collect::<Result<_, _>>()?;
            lines(call, |client| ids.contains(&client.id))
        }
        _ => return Err(SYNTAX),
    };
    call.reply().verbatim(&text);
    Ok(())
}

fn client_id(text: &[u8]) -> Result<u64, ErrorReply> {
    // No client has a negative id.
    let id = parse_i64(text).map(|id| u64::try_from(id).unwrap_or(u64::MAX));
    id.ok_or(ErrorReply::new("ERR Invalid client ID"))
}

/// Returns `true` if a client type is `NORMAL`, the only type that this server has. Unknown types
/// are an error.
fn is_normal(kind: &[u8]) -> Result<bool, ErrorReply> {
    let is = |word: &[u8]| kind.eq_ignore_ascii_case(word);
    if is(b"NORMAL") {
        Ok(true)
    } else if is(b"MASTER") || is(b"REPLICA") || is(b"SLAVE") || is(b"PUBSUB") {
        Ok(false)
    } else {
        let mut text = b"ERR Unknown client type '".to_vec();
        text.extend_from_slice(kind);
        text.push(b'\'');
        Err(ErrorReply::from_bytes(text))
    }
}

fn lines(call: &mut Call<'_>, is_wanted: impl Fn(&ClientInfo<'_>) -> bool) -> String {
    let mut text = String::new();
    let own = call.session.id();
    let resp = if call.session.is_resp3 { 3 } else { 2 };
    call.server.clients(&mut |client| {
        if !is_wanted(client) {
            return;
        }
        let ClientInfo {
            id,
            address,
            local_address,
            age_s,
            idle_s,
            ..
        } = client;
        let name = String::from_utf8_lossy(client.name);
        // Writing to a string does not fail. Fields that are unknown for other clients are left
        // out; arguments are part of the input buffer.
        let _ = write!(
            text,
            "id={id} addr={address} laddr={local_address} name={name} age={age_s} idle={idle_s} \
             flags=N db=0 sub=0 psub=0 ssub=0 qbuf={} qbuf-free={} argv-mem=0 omem={} tot-mem={} user=default",
            client.input_bytes, client.input_free_bytes, client.output_bytes, client.memory_bytes,
        );
        if *id == own {
            let _ = write!(text, " resp={resp}");
        }
        text.push('\n');
    });
    text
}

/// `CLIENT KILL address`, or with filters
pub(super) fn kill(call: &mut Call<'_>, arguments: &[&[u8]]) -> CommandResult {
    if let [address] = &arguments[2..] {
        let killed = kill_where(call, |client, _| client.address.as_bytes() == *address);
        return if killed > 0 { call.ok() } else { Err(ErrorReply::new("ERR No such client")) };
    }
    let (filters, rest) = arguments[2..].as_chunks();
    let mut skips_own = true;
    for [filter, value] in filters {
        match filter.to_ascii_uppercase().as_slice() {
            b"ID" => drop(kill_id(value)?),
            b"TYPE" => drop(is_normal(value)?),
            b"SKIPME" if value.eq_ignore_ascii_case(b"YES") => skips_own = true,
            b"SKIPME" if value.eq_ignore_ascii_case(b"NO") => skips_own = false,
            b"ADDR" | b"LADDR" | b"USER" => {}
            _ => return Err(SYNTAX),
        }
    }
    if !rest.is_empty() {
        return Err(SYNTAX);
    }
    let killed = kill_where(call, |client, own| {
        !(skips_own && client.id == own)
            && filters.iter().all(|[filter, value]| match filter.to_ascii_uppercase().as_slice() {
                b"ID" => kill_id(value) == Ok(client.id),
                b"ADDR" => client.address.as_bytes() == *value,
                b"LADDR" => client.local_address.as_bytes() == *value,
                b"USER" => *value == b"default",
                b"TYPE" => is_normal(value) == Ok(true),
                _ => true,
            })
    });
    call.reply().integer(killed);
    Ok(())
}

fn kill_id(text: &[u8]) -> Result<u64, ErrorReply> {
    let id = parse_i64(text).filter(|id| *id > 0);
    let id = id.ok_or(ErrorReply::new("ERR client-id should be greater than 0"))?;
    Ok(id.unsigned_abs())
}

/// Closes the connections of the clients for which `is_wanted` returns `true`. Returns their number.
fn kill_where(call: &mut Call<'_>, is_wanted: impl Fn(&ClientInfo<'_>, u64) -> bool) -> i64 {
    let own = call.session.id();
    let mut ids = Vec::new();
    call.server.clients(&mut |client| {
        if is_wanted(client, own) {
            ids.push(client.id);
        }
    });
    let mut killed = 0;
    for id in ids {
        if id == own {
            call.session.close();
            killed += 1;
        } else {
            killed += i64::from(call.server.kill_client(id));
        }
    }
    killed
}
