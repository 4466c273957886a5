//! Replies in RESP2, and commands: the one client's side of that protocol.

use std::io::{self, BufRead, ErrorKind, Read};

use overside_kv_store::VALUE_MAX_BYTES;

/// Longest line, most elements, and deepest nesting of a reply.
const LINE_MAX_BYTES: u64 = 64 << 10;
const ELEMENTS_MAX: usize = 1 << 20;
const DEPTH_MAX: usize = 8;

/// Reply of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// `+`: a word, such as `OK`.
    Simple(String),
    /// `-`: why it was not done.
    Error(String),
    /// `:`
    Integer(i64),
    /// `$`
    Bytes(Vec<u8>),
    /// No value.
    Nil,
    /// `*`
    Array(Vec<Reply>),
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

impl Reply {
    /// Reads one reply.
    ///
    /// # Errors
    /// The connection ended, or this is no reply.
    pub fn read(from: &mut impl BufRead) -> io::Result<Self> {
        Self::read_at(from, 0)
    }

    fn read_at(from: &mut impl BufRead, depth: usize) -> io::Result<Self> {
        let mut line = Vec::new();
        from.take(LINE_MAX_BYTES).read_until(b'\n', &mut line)?;
        let Some(line) = line.strip_suffix(b"\r\n") else {
            return Err(match line.len() as u64 == LINE_MAX_BYTES {
                true => invalid("a line without end"),
                false => ErrorKind::UnexpectedEof.into(),
            });
        };
        let text = |text| String::from_utf8_lossy(text).into_owned();
        match ReplyLine::parse(line).ok_or_else(|| invalid("an unknown kind of reply"))? {
            ReplyLine::Simple(word) => Ok(Self::Simple(text(word))),
            ReplyLine::Error(message) => Ok(Self::Error(text(message))),
            ReplyLine::Integer(number) => Ok(Self::Integer(number)),
            ReplyLine::Nil => Ok(Self::Nil),
            ReplyLine::Bytes(len) => Self::bytes(from, len),
            ReplyLine::Array(count) if count > ELEMENTS_MAX || depth >= DEPTH_MAX => {
                Err(invalid("an array that is too large"))
            }
            ReplyLine::Array(count) => (0..count).map(|_| Self::read_at(from, depth + 1)).collect(),
        }
    }

    fn bytes(from: &mut impl BufRead, len: usize) -> io::Result<Self> {
        if len > VALUE_MAX_BYTES {
            return Err(invalid("a value that is too long"));
        }
        let mut bytes = Vec::new();
        // Grows as bytes come.
        let count = from.take(len as u64 + 2).read_to_end(&mut bytes)?;
        if count < len + 2 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if !bytes.ends_with(b"\r\n") {
            return Err(invalid("a value that does not end where it should"));
        }
        bytes.truncate(len);
        Ok(Self::Bytes(bytes))
    }
}

impl FromIterator<Reply> for Reply {
    fn from_iter<I: IntoIterator<Item = Self>>(replies: I) -> Self {
        Self::Array(replies.into_iter().collect())
    }
}

/// First line of a reply in RESP2 or, for types that it lacks, RESP3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyLine<'a> {
    /// See [`Reply::Simple`].
    Simple(&'a [u8]),
    /// See [`Reply::Error`].
    Error(&'a [u8]),
    /// See [`Reply::Integer`].
    Integer(i64),
    /// See [`Reply::Nil`].
    Nil,
    /// The header of this number of bytes, which follow with the end of a line.
    Bytes(usize),
    /// The header of this number of replies, which follow.
    Array(usize),
}

impl<'a> ReplyLine<'a> {
    /// Parses a line without its end; `None` if it begins no reply.
    #[inline]
    #[must_use]
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let (kind, rest) = line.split_first()?;
        let number = || str::from_utf8(rest).ok()?.parse::<i64>().ok();
        let len = || usize::try_from(number()?).ok();
        Some(match kind {
            b'+' => Self::Simple(rest),
            b'-' => Self::Error(rest),
            b':' => Self::Integer(number()?),
            b'$' | b'*' if rest == b"-1" => Self::Nil,
            b'_' => Self::Nil,
            b'$' => Self::Bytes(len()?),
            b'*' => Self::Array(len()?),
            _ => return None,
        })
    }
}

/// Appends a command.
#[inline]
pub fn command(words: &[&[u8]], out: &mut Vec<u8>) {
    header(b'*', words.len(), out);
    for word in words {
        header(b'$', word.len(), out);
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

fn header(kind: u8, mut number: usize, out: &mut Vec<u8>) {
    let mut line = [0; 23];
    line[21..].copy_from_slice(b"\r\n");
    let mut at = 21;
    loop {
        at -= 1;
        line[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    line[at - 1] = kind;
    out.extend_from_slice(&line[at - 1..]);
}

#[cfg(test)]
mod tests {
    use super::{Reply, command, header};

    fn read(mut text: &[u8]) -> Option<Reply> {
        Reply::read(&mut text).ok().filter(|_| text.is_empty())
    }

    #[test]
    fn replies_are_read() {
        let nested = b"*3\r\n$1\r\na\r\n*1\r\n:-7\r\n$-1\r\n";
        let array = Reply::Array(vec![
            Reply::Bytes(b"a".into()),
            Reply::Array(vec![Reply::Integer(-7)]),
            Reply::Nil,
        ]);
        for (text, reply) in [
            (&b"+OK\r\n"[..], Reply::Simple("OK".into())),
            (b"-ERR no\r\n", Reply::Error("ERR no".into())),
            (b"$2\r\n\r\n\r\n", Reply::Bytes(b"\r\n".into())),
            (b"*-1\r\n", Reply::Nil),
            (nested, array),
        ] {
            assert_eq!(read(text), Some(reply));
            (0..text.len()).for_each(|len| assert_eq!(read(&text[..len]), None));
        }
        let mut out = Vec::new();
        command(&[b"GET", b""], &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n");
        out.clear();
        header(b'$', usize::MAX, &mut out);
        assert_eq!(out, format!("${}\r\n", usize::MAX).as_bytes());
    }

    #[test]
    fn garbage_is_refused_at_once() {
        let deep = b"*1\r\n".repeat(1000);
        let long = vec![b'+'; 100 << 10];
        for text in [
            &b"\r\n"[..],
            b"?\r\n",
            b"$-2\r\n",
            b"$1000000000\r\n",
            b"$x\r\n",
            b"$1\r\nab\r\n",
            b"*-2\r\n",
            b"*1000000000\r\n",
            b":\r\n",
            &deep,
            &long,
        ] {
            let mut rest = text;
            let error = Reply::read(&mut rest).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
        }
    }
}
