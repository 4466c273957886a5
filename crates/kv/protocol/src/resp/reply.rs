//! Writes replies in the client's version of the protocol.

use std::borrow::Cow;

use super::number::write_f64;

/// Error for a client: its kind (`ERR`, `WRONGTYPE`), a space, and a text in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ErrorReply(pub(super) Cow<'static, [u8]>);

impl ErrorReply {
    pub(super) const fn new(text: &'static str) -> Self {
        Self(Cow::Borrowed(text.as_bytes()))
    }

    /// Makes an error from bytes that may come from a client.
    pub(super) fn from_bytes(mut text: Vec<u8>) -> Self {
        while text.ends_with(b"\r") || text.ends_with(b"\n") {
            text.pop();
        }
        for byte in &mut text {
            if matches!(byte, b'\r' | b'\n') {
                *byte = b' ';
            }
        }
        Self(Cow::Owned(text))
    }

    pub(super) fn wrong_arity(command: &str) -> Self {
        Self::from_bytes(
            format!("ERR wrong number of arguments for '{command}' command").into_bytes(),
        )
    }
}

/// Error of Redis Cluster.
pub(super) const CROSS_SLOT: ErrorReply =
    ErrorReply::new("CROSSSLOT Keys in request don't hash to the same slot");
pub(super) const SYNTAX: ErrorReply = ErrorReply::new("ERR syntax error");
pub(super) const NOT_AN_INTEGER: ErrorReply =
    ErrorReply::new("ERR value is not an integer or out of range");
pub(super) const NOT_A_FLOAT: ErrorReply = ErrorReply::new("ERR value is not a valid float");

/// Writer of replies.
#[derive(Debug)]
pub(super) struct RespWriter<'o> {
    pub(super) out: &'o mut Vec<u8>,
    pub(super) is_resp3: bool,
}

impl RespWriter<'_> {
    pub(super) fn simple(&mut self, text: &str) {
        self.out.push(b'+');
        self.out.extend_from_slice(text.as_bytes());
        self.end_line();
    }

    #[inline]
    pub(super) fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    pub(super) fn error(&mut self, error: &ErrorReply) {
        self.out.push(b'-');
        self.out.extend_from_slice(&error.0);
        self.end_line();
    }

    #[inline]
    pub(super) fn integer(&mut self, number: i64) {
        match u8::try_from(number) {
            Ok(digit @ 0..=9) => {
                self.out.extend_from_slice(&[b':', b'0' + digit, b'\r', b'\n']);
            }
            _ => self.header(b':', number),
        }
    }

    pub(super) fn count(&mut self, count: u64) {
        self.integer(i64::try_from(count).unwrap_or(i64::MAX));
    }

    #[inline]
    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.out.reserve(bytes.len() + 16);
        match u8::try_from(bytes.len()) {
            Ok(digit @ 0..=9) => {
                self.out.extend_from_slice(&[b'$', b'0' + digit, b'\r', b'\n']);
            }
            _ => self.header(b'$', bytes.len() as i64),
        }
        self.out.extend_from_slice(bytes);
        self.end_line();
    }

    /// Writes a text for people.
    pub(super) fn verbatim(&mut self, text: &str) {
        if self.is_resp3 {
            self.header(b'=', text.len() as i64 + 4);
            self.out.extend_from_slice(b"txt:");
            self.out.extend_from_slice(text.as_bytes());
            self.end_line();
        } else {
            self.bulk(text.as_bytes());
        }
    }

    #[inline]
    pub(super) fn null(&mut self) {
        let null: &[u8] = if self.is_resp3 { b"_\r\n" } else { b"$-1\r\n" };
        self.out.extend_from_slice(null);
    }

    pub(super) fn null_array(&mut self) {
        let null: &[u8] = if self.is_resp3 { b"_\r\n" } else { b"*-1\r\n" };
        self.out.extend_from_slice(null);
    }

    pub(super) fn double(&mut self, number: f64) {
        if self.is_resp3 {
            self.out.push(b',');
            write_f64(number, self.out);
            self.end_line();
        } else {
            let mut text = Vec::with_capacity(24);
            write_f64(number, &mut text);
            self.bulk(&text);
        }
    }

    /// Starts an array of `len` elements, which follow.
    pub(super) fn array(&mut self, len: usize) {
        self.header(b'*', len as i64);
    }

    /// Starts a set of `len` elements, which follow in any order.
    pub(super) fn set(&mut self, len: usize) {
        self.header(if self.is_resp3 { b'~' } else { b'*' }, len as i64);
    }

    /// Starts a map of `len` names, which follow, each with a value.
    pub(super) fn map(&mut self, len: usize) {
        if self.is_resp3 {
            self.header(b'%', len as i64);
        } else {
            self.header(b'*', len as i64 * 2);
        }
    }

    fn header(&mut self, kind: u8, number: i64) {
        self.out.push(kind);
        self.out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self.end_line();
    }

    #[inline]
    fn end_line(&mut self) {
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Error of Redis.
const UNBLOCKED: ErrorReply = ErrorReply::new(
    "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
);

/// Writes the reply that ends a wait. See [`Session::end_wait`](crate::Session::end_wait).
pub(crate) fn reply_to_wait(have: Option<usize>, is_resp3: bool, out: &mut Vec<u8>) {
    let mut reply = RespWriter { out, is_resp3 };
    match have {
        Some(have) => reply.count(have as u64),
        None => reply.error(&UNBLOCKED),
    }
}
