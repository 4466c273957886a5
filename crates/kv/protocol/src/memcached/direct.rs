//! Commands that are executed by themselves.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::answers::{Writer, number};
use super::{BAD_FORMAT, Batch, ReplyFormat, line, meta, text};
use crate::{Ready, ServerContext};
use overside_kv_store::{KeyHasher, Operation, Statistics};

pub(super) fn execute(
    ready: &mut Ready<'_>,
    (text, line): (&[u8], &[&[u8]]),
    data: &[u8],
    hasher: &KeyHasher,
    server: &mut dyn ServerContext,
) {
    match line.first().copied() {
        // A web page can make its browser connect to this machine; the lines after this one may be commands.
        Some(b"quit" | b"POST" | b"Host:") => ready.session.close(),
        Some(b"flush_all") => flush(ready, line, server),
        Some(b"stats") => statistics(ready, line, server),
        Some(b"me") => inspect(ready, line, hasher, server),
        Some(name) => {
            with_base64_key(text, (name, &line[1..]), ready, data, (hasher, server));
        }
        None => {}
    }
}

fn flush(ready: &mut Ready<'_>, line: &[&[u8]], server: &mut dyn ServerContext) {
    let is_quiet = line.last() == Some(&&b"noreply"[..]);
    let arguments = &line[1..line.len() - usize::from(is_quiet)];
    let reply: &[u8] = match arguments {
        [] | [b"0"] => match server.engine().flush() {
            Ok(()) => b"OK\r\n",
            Err(_) => b"SERVER_ERROR the store takes no writes now\r\n",
        },
        [_] => b"SERVER_ERROR flush_all takes no delay here\r\n",
        _ => return ready.output.extend_from_slice(b"ERROR\r\n"),
    };
    if !is_quiet {
        ready.output.extend_from_slice(reply);
    }
}

fn statistics(ready: &mut Ready<'_>, line: &[&[u8]], server: &mut dyn ServerContext) {
    let out = &mut *ready.output;
    // memcached's settings and slabs do not exist here.
    const OTHER: [&[u8]; 5] = [b"settings", b"slabs", b"items", b"sizes", b"conns"];
    match line.get(1) {
        None => {}
        Some(name) if OTHER.contains(name) => return out.extend_from_slice(b"END\r\n"),
        Some(_) => return out.extend_from_slice(b"ERROR\r\n"),
    }
    let now_s = server.now_ms() / 1000;
    server.engine().refresh();
    let found = server.engine().statistics();
    let mut stat = |name: &str, value: &dyn std::fmt::Display| {
        out.extend_from_slice(format!("STAT {name} {value}\r\n").as_bytes());
    };
    stat("time", &now_s);
    stat("version", &concat!(env!("CARGO_PKG_VERSION"), "-overside"));
    let names = [
        ("process_id", "pid"),
        ("uptime_in_seconds", "uptime"),
        ("connected_clients", "curr_connections"),
        ("total_connections_received", "total_connections"),
        ("total_net_input_bytes", "bytes_read"),
        ("total_net_output_bytes", "bytes_written"),
    ];
    server.info(&found, &mut |_, field, value| {
        if let Some((_, name)) = names.iter().find(|(redis, _)| *redis == field) {
            stat(name, value);
        }
    });
    let Statistics {
        items,
        payload_bytes,
        memory_limit_bytes,
        hits,
        misses,
        evictions,
        expirations,
        ..
    } = found;
    let counts = [
        ("curr_items", items),
        ("bytes", payload_bytes),
        ("limit_maxbytes", memory_limit_bytes),
        ("get_hits", hits),
        ("get_misses", misses),
        ("evictions", evictions),
        ("reclaimed", expirations),
    ];
    counts.iter().for_each(|(name, count)| stat(name, count));
    out.extend_from_slice(b"END\r\n");
}

/// Answers a command whose data are refused. A value that is too large for `set` deletes the old
/// one, as in memcached: the client must not read a value that it wanted to replace.
pub(super) fn refuse(
    ready: &mut Ready<'_>,
    words: &[&[u8]],
    error: &'static [u8],
    hasher: &KeyHasher,
    server: &mut dyn ServerContext,
) {
    let Some((&name, words)) = words.split_first() else {
        return;
    };
    let reply = text::unless_quiet(name, words, error);
    ready.output.extend_from_slice(reply);
    if let (b"set", line::TOO_LARGE, [key, ..]) = (name, error, words) {
        let now_ms = server.now_ms();
        let mut batch = Batch::new(hasher, now_ms);
        batch.request(key, Operation::Delete { version: None });
        (server.engine()).execute(&batch.requests, now_ms, &mut |_, _| {});
    }
}

/// Answers a request of the binary protocol, which is not supported, as that protocol answers an
/// unknown command.
pub(super) fn refuse_binary(ready: &mut Ready<'_>) {
    const TEXT: &[u8] = b"Unknown command";
    let request = &ready.input[ready.consumed..];
    // Magic number, command, no key, no extras; status, length of the text; the client's opaque number.
    let mut reply = [0; line::BINARY_HEADER_BYTES];
    (reply[0], reply[1], reply[7], reply[11]) = (0x81, request[1], 0x81, TEXT.len() as u8);
    reply[12..16].copy_from_slice(&request[12..16]);
    ready.output.extend_from_slice(&reply);
    ready.output.extend_from_slice(TEXT);
    ready.session.close();
}

/// Executes `me`: the properties of a key, as text.
fn inspect(
    ready: &mut Ready<'_>,
    line: &[&[u8]],
    hasher: &KeyHasher,
    server: &mut dyn ServerContext,
) {
    let out = &mut *ready.output;
    let Some(&key) = line.get(1) else {
        return out.extend_from_slice(BAD_FORMAT);
    };
    let now_ms = server.now_ms();
    let request = overside_kv_store::Request::new(key, hasher, Operation::Inspect);
    let engine = server.engine();
    engine.execute(&[request], now_ms, &mut |_, answer| {
        let overside_kv_store::Answer::Metadata(found) = answer else {
            return out.extend_from_slice(b"EN\r\n");
        };
        out.extend_from_slice(b"ME ");
        out.extend_from_slice(key);
        out.extend_from_slice(b" exp=");
        match found.expires_at_ms {
            None => out.extend_from_slice(b"-1"),
            Some(at) => number(at.saturating_sub(now_ms).div_ceil(1000), out),
        }
        out.extend_from_slice(b" cas=");
        number(found.version, out);
        out.extend_from_slice(b" size=");
        number(found.memory_bytes, out);
        out.extend_from_slice(b"\r\n");
    });
}

/// Executes a meta command whose key is encoded in Base64.
fn with_base64_key(
    line: &[u8],
    (name, words): (&[u8], &[&[u8]]),
    ready: &mut Ready<'_>,
    data: &[u8],
    (hasher, server): (&KeyHasher, &mut dyn ServerContext),
) {
    let now_ms = server.now_ms();
    let encoded = words.first().copied().unwrap_or_default();
    let Ok(key) = STANDARD.decode(encoded) else {
        return ready.output.extend_from_slice(BAD_FORMAT);
    };
    let mut batch = Batch::new(hasher, now_ms);
    let form = meta::add_with_key(line, (name, words), &key, data, &mut batch);
    if let ReplyFormat::Literal(text) = form {
        return ready.output.extend_from_slice(text);
    }
    let mut writer = Writer { now_ms, answers: 0 };
    batch.command((0, 0), 0, form);
    let engine = server.engine();
    engine.execute(&batch.requests, now_ms, &mut |_, answer| {
        writer.write(&batch.pending[0], &key, &answer, ready.output);
    });
}
