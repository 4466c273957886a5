//! Requests that the load generator sends, and parsing of the replies.

use std::ops::Range;

use overside_kv_client::{ReplyLine, command};
use overside_kv_datagram::herd;
use overside_kv_protocol::datagram::DATAGRAM_MAX_BYTES;
use serde::{Deserialize, Serialize};

/// Protocol that a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProtocolKind {
    /// Redis's (RESP2).
    Resp,
    /// memcached's text protocol.
    Memcached,
    /// memcached's meta commands.
    MemcachedMeta,
    /// This store's datagrams: a client packs the requests of one moment.
    Datagram,
    /// Datagrams, with requests written into the server's memory (HERD's pairing). At an address,
    /// by UCX; at a path, by shared memory.
    Herd,
}

/// Upper bound on the bytes of a request or an answer with its datagram, without key and value.
pub(super) const OVERHEAD_BYTES: usize = 128;

/// The sorted set of all keys, as YCSB's binding for Redis names it.
pub(super) const INDEX: &[u8] = b"_indices";

/// An answer, with the place of its value in the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Value(Range<usize>),
    Missing,
    Stored,
    /// Places of its strings; `None` for missing ones.
    List(Vec<Option<Range<usize>>>),
}

/// Error: the bytes cannot be the answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unexpected;

type Parsed = Result<Option<(Reply, usize)>, Unexpected>;

impl ProtocolKind {
    /// Returns `true` if requests are sent in datagrams, not over connections.
    pub(super) fn is_datagram(self) -> bool {
        matches!(self, Self::Datagram | Self::Herd)
    }

    /// Longest key and value together, in a datagram.
    pub(super) fn record_max_bytes(self) -> usize {
        match self {
            Self::Herd => herd::DATAGRAM_MAX_BYTES - OVERHEAD_BYTES,
            _ => DATAGRAM_MAX_BYTES - OVERHEAD_BYTES,
        }
    }

    pub(super) fn get(self, key: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Resp => command(&[b"GET", key], out),
            Self::Memcached => line(out, &[b"get ", key]),
            Self::MemcachedMeta => line(out, &[b"mg ", key, b" v"]),
            Self::Datagram | Self::Herd => unreachable!("it has no connections"),
        }
    }

    pub(super) fn set(self, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let mut digits = [0; 20];
        let len = decimal(value.len() as u64, &mut digits);
        match self {
            Self::Resp => return command(&[b"SET", key, value], out),
            Self::Memcached => line(out, &[b"set ", key, b" 0 0 ", len]),
            Self::MemcachedMeta => line(out, &[b"ms ", key, b" ", len]),
            Self::Datagram | Self::Herd => unreachable!("it has no connections"),
        }
        line(out, &[value]);
    }

    /// Adds a key to the index.
    pub(super) fn add_to_index(self, score: u64, key: &[u8], out: &mut Vec<u8>) {
        let mut digits = [0; 20];
        command(&[b"ZADD", INDEX, decimal(score, &mut digits), key], out);
    }

    /// Keys from the index.
    pub(super) fn scan(self, score: u64, count: u64, out: &mut Vec<u8>) {
        let (mut from, mut most) = ([0; 20], [0; 20]);
        let (from, most) = (decimal(score, &mut from), decimal(count, &mut most));
        let words: [&[u8]; 7] = [b"ZRANGEBYSCORE", INDEX, from, b"+inf", b"LIMIT", b"0", most];
        command(&words, out);
    }

    /// Several values.
    pub(super) fn get_all(self, keys: &[&[u8]], out: &mut Vec<u8>) {
        let words: Vec<&[u8]> = [&b"MGET"[..]].into_iter().chain(keys.iter().copied()).collect();
        command(&words, out);
    }

    pub(super) fn authenticate(self, password: &[u8], out: &mut Vec<u8>) -> bool {
        match self {
            Self::Resp => command(&[b"AUTH", password], out),
            _ => return false,
        }
        true
    }

    /// The answer at the beginning of `input`, and its length; `None`: it is not all there.
    pub(super) fn parse(self, input: &[u8]) -> Parsed {
        match self {
            Self::Resp => resp(input),
            Self::Memcached => memcached(input),
            Self::MemcachedMeta => meta(input),
            Self::Datagram | Self::Herd => unreachable!("it has no connections"),
        }
    }
}

fn line(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out.extend_from_slice(b"\r\n");
}

fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

/// The first line, without its end, and where the next begins.
fn first_line(input: &[u8]) -> Option<(&[u8], usize)> {
    let end = memchr::memchr(b'\n', input)?;
    let line = &input[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), end + 1))
}

fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// A value of `len` bytes at `begin`, with the end of its line.
fn value(input: &[u8], begin: usize, len: usize) -> Parsed {
    let end = begin.checked_add(len).ok_or(Unexpected)?;
    match input.get(end..end.saturating_add(2)) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some((Reply::Value(begin..end), end + 2))),
        Some(_) => Err(Unexpected),
    }
}

fn resp(input: &[u8]) -> Parsed {
    let Some((line, next)) = first_line(input) else {
        return Ok(None);
    };
    match ReplyLine::parse(line).ok_or(Unexpected)? {
        ReplyLine::Simple(_) | ReplyLine::Integer(_) => Ok(Some((Reply::Stored, next))),
        ReplyLine::Nil => Ok(Some((Reply::Missing, next))),
        ReplyLine::Bytes(len) => value(input, next, len),
        ReplyLine::Array(count) => {
            let (mut strings, mut at) = (Vec::new(), next);
            for _ in 0..count {
                // A list in a list could be as deep as the input is long.
                if input.get(at) == Some(&b'*') {
                    return Err(Unexpected);
                }
                let Some((reply, len)) = resp(&input[at..])? else {
                    return Ok(None);
                };
                match reply {
                    Reply::Value(range) => strings.push(Some(at + range.start..at + range.end)),
                    Reply::Missing => strings.push(None),
                    _ => return Err(Unexpected),
                }
                at += len;
            }
            Ok(Some((Reply::List(strings), at)))
        }
        ReplyLine::Error(_) => Err(Unexpected),
    }
}

fn memcached(input: &[u8]) -> Parsed {
    const END: &[u8] = b"END\r\n";
    let Some((line, next)) = first_line(input) else {
        return Ok(None);
    };
    if line == b"STORED" {
        return Ok(Some((Reply::Stored, next)));
    }
    if line == b"END" {
        return Ok(Some((Reply::Missing, next)));
    }
    let words = line.strip_prefix(b"VALUE ").ok_or(Unexpected)?;
    let len = words.rsplit(|byte| *byte == b' ').next().and_then(number);
    let Some((reply, end)) = value(input, next, len.ok_or(Unexpected)?)? else {
        return Ok(None);
    };
    match input.get(end..end + END.len()) {
        None => Ok(None),
        Some(END) => Ok(Some((reply, end + END.len()))),
        Some(_) => Err(Unexpected),
    }
}

fn meta(input: &[u8]) -> Parsed {
    let Some((line, next)) = first_line(input) else {
        return Ok(None);
    };
    match line.get(..2) {
        Some(b"HD") => Ok(Some((Reply::Stored, next))),
        Some(b"EN") => Ok(Some((Reply::Missing, next))),
        Some(b"VA") => {
            let len = line[2..].split(|byte| *byte == b' ').find(|word| !word.is_empty());
            value(input, next, len.and_then(number).ok_or(Unexpected)?)
        }
        _ => Err(Unexpected),
    }
}

#[cfg(test)]
mod tests {
    use super::{ProtocolKind, Reply, Unexpected};

    #[test]
    fn answers_are_read_wherever_they_are_cut() {
        use ProtocolKind::{Memcached, MemcachedMeta, Resp};
        let cases: [(ProtocolKind, &[u8], Reply); 12] = [
            (Resp, b"+OK\r\n", Reply::Stored),
            (Resp, b":1\r\n", Reply::Stored),
            (Resp, b"$-1\r\n", Reply::Missing),
            (Resp, b"$3\r\nabc\r\n", Reply::Value(4..7)),
            (Resp, b"*2\r\n$1\r\na\r\n$-1\r\n", Reply::List(vec![Some(8..9), None])),
            (Memcached, b"STORED\r\n", Reply::Stored),
            (Memcached, b"END\r\n", Reply::Missing),
            (Memcached, b"VALUE k 0 3\r\nabc\r\nEND\r\n", Reply::Value(13..16)),
            (MemcachedMeta, b"HD\r\n", Reply::Stored),
            (MemcachedMeta, b"EN\r\n", Reply::Missing),
            (MemcachedMeta, b"VA 3\r\nabc\r\n", Reply::Value(6..9)),
            (MemcachedMeta, b"VA 0 f0\r\n\r\n", Reply::Value(9..9)),
        ];
        for (protocol, bytes, reply) in cases {
            for len in 0..bytes.len() {
                assert_eq!(protocol.parse(&bytes[..len]), Ok(None));
            }
            assert_eq!(protocol.parse(bytes), Ok(Some((reply, bytes.len()))));
        }
        assert_eq!(Resp.parse(b"-ERR no\r\n"), Err(Unexpected));
        assert_eq!(Resp.parse(b"$3\r\nabcde"), Err(Unexpected));
        assert_eq!(Memcached.parse(b"SERVER_ERROR out of memory\r\n"), Err(Unexpected));
        assert_eq!(MemcachedMeta.parse(b"VA x\r\nabc\r\n"), Err(Unexpected));
    }
}
