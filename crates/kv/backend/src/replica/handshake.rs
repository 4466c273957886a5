//! Handshake between a replica and its primary, on the replica's side.

use std::io::{self, Read, Write};

use super::STREAM_VERSION;
use super::primary::Primary;
use crate::persistence::HistoryPosition;

const LINE_MAX_BYTES: usize = 512;

/// Answer of the primary, with the way in which its stream begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamStart {
    /// The stream begins where the replica has stopped.
    Continue,
    /// The stream begins with a copy of the state at this position.
    Full(HistoryPosition),
}

/// Sends the replica's identity and position.
///
/// # Errors
/// If the primary cannot be reached, refuses, or sends an invalid answer.
pub(super) fn handshake(
    stream: &mut (impl Read + Write),
    primary: &Primary,
    position: Option<&HistoryPosition>,
) -> io::Result<StreamStart> {
    let Primary { introduction, own, .. } = primary;
    if let Some(password) = &introduction.password {
        stream.write_all(&command(&[b"AUTH", password]))?;
        let answer = line(stream)?;
        if answer != "+OK" {
            return Err(violation(&answer));
        }
    }
    let (id, offset) = position.map_or(("?", 0), |position| (&position.id, position.offset));
    let numbers = [STREAM_VERSION, offset, u64::from(introduction.own_port)].map(|n| n.to_string());
    let [version, offset, port] = numbers.each_ref().map(String::as_bytes);
    let partition = [own.number(), own.count()].map(|n| n.to_string());
    let [partition, partitions] = partition.each_ref().map(String::as_bytes);
    let words = [
        &b"OVERSIDE.SYNC"[..],
        version,
        id.as_bytes(),
        offset,
        port,
        partition,
        partitions,
        own.server_id().as_bytes(),
    ];
    stream.write_all(&command(&words))?;
    let answer = line(stream)?;
    let reply = parse(&answer).ok_or_else(|| violation(&answer))?;
    match (&reply, position) {
        // What goes on where nothing is would be no state.
        (StreamStart::Continue, None) => Err(violation(&answer)),
        _ => Ok(reply),
    }
}

fn parse(answer: &str) -> Option<StreamStart> {
    let words: Vec<&str> = answer.split(' ').collect();
    match words[..] {
        ["+CONTINUE"] => Some(StreamStart::Continue),
        ["+FULL", id, offset, number] if HistoryPosition::is_id(id) => {
            Some(StreamStart::Full(HistoryPosition {
                id: id.to_owned(),
                offset: offset.parse().ok()?,
                number: number.parse().ok()?,
            }))
        }
        _ => None,
    }
}

fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

fn violation(answer: &str) -> io::Error {
    io::Error::other(format!("the primary answers {answer:?}"))
}

/// Reads the next line that is not empty.
fn line(stream: &mut impl Read) -> io::Result<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte)?;
        match byte[0] {
            b'\n' if line.is_empty() => {}
            b'\n' => return Ok(String::from_utf8_lossy(&line).trim_end().to_owned()),
            other => line.push(other),
        }
        if line.len() > LINE_MAX_BYTES {
            return Err(io::Error::other("the primary answers something else"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{StreamStart, parse};

    #[test]
    fn what_a_primary_answers_is_checked() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(parse("+CONTINUE"), Some(StreamStart::Continue));
        let Some(StreamStart::Full(position)) = parse(&format!("+FULL {id} 7 9")) else {
            panic!("a copy");
        };
        assert_eq!((position.offset, position.number), (7, 9));
        for other in ["", "+FULL", "+FULL x 7 9", "-ERR no", "+CONTINUE 1"] {
            assert_eq!(parse(other), None, "{other}");
        }
        assert_eq!(parse(&format!("+FULL {id} -7 9")), None);
        assert_eq!(parse(&format!("+FULL {id} 7 99999999999999999999")), None);
    }
}
