//! Replies in RESP2, and requests.

use std::io::{self, BufRead, ErrorKind, Read};

use crate::VALUE_MAX_BYTES;

/// Longest line, most elements, and deepest nesting of a reply.
const LINE_MAX_BYTES: u64 = 64 << 10;
const ELEMENTS_MAX: usize = 1 << 20;
const DEPTH_MAX: usize = 8;

/// What a server answers.
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
    /// There is nothing.
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
        let (kind, rest) = line.split_first().ok_or_else(|| invalid("an empty line"))?;
        let text = || String::from_utf8_lossy(rest).into_owned();
        match kind {
            b'+' => Ok(Self::Simple(text())),
            b'-' => Ok(Self::Error(text())),
            b':' => Ok(Self::Integer(number(rest)?)),
            b'$' => match number(rest)? {
                -1 => Ok(Self::Nil),
                len => Self::bytes(from, len),
            },
            b'*' => match number(rest)? {
                -1 => Ok(Self::Nil),
                count => {
                    let count = usize::try_from(count).ok();
                    let count = count.filter(|count| *count <= ELEMENTS_MAX && depth < DEPTH_MAX);
                    let count = count.ok_or_else(|| invalid("an array that is too large"))?;
                    (0..count).map(|_| Self::read_at(from, depth + 1)).collect()
                }
            },
            _ => Err(invalid("an unknown kind of reply")),
        }
    }

    fn bytes(from: &mut impl BufRead, len: i64) -> io::Result<Self> {
        let len = usize::try_from(len)
            .ok()
            .filter(|len| *len <= VALUE_MAX_BYTES);
        let len = len.ok_or_else(|| invalid("a value that is too long"))?;
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

fn number(digits: &[u8]) -> io::Result<i64> {
    let text = std::str::from_utf8(digits).ok();
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| invalid("not a number"))
}

/// Appends a request.
pub fn request(words: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::{Reply, request};

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
        request(&[b"GET", b""], &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n");
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
