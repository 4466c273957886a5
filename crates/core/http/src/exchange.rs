//! One request over HTTP/1.1 (RFC 9112), which is answered and closed. Nothing blocks.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// Longest head of a request in bytes.
const REQUEST_MAX_BYTES: usize = 8 << 10;
/// Longest time from accepting a connection to the end of its response, in milliseconds.
const TIMEOUT_MS: u64 = 5_000;

/// Connection with one request and its response.
pub struct Exchange {
    socket: OwnedFd,
    request: Vec<u8>,
    response: Vec<u8>,
    sent: usize,
    deadline_ms: u64,
}

/// Next action that the caller of [`Exchange::advance`] must take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait until there is something to read.
    Read,
    /// Wait until something can be written.
    Write,
    /// Close the connection.
    Close,
}

/// Content that a service returns for the path of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// Media type of the body, sent as `Content-Type`.
    pub content_type: &'static str,
    /// The text.
    pub body: String,
}

impl Exchange {
    /// Begins with a socket that does not block; times are of any clock.
    pub fn new(socket: OwnedFd, now_ms: u64) -> Self {
        Self {
            socket,
            request: Vec::new(),
            response: Vec::new(),
            sent: 0,
            deadline_ms: now_ms + TIMEOUT_MS,
        }
    }

    /// Returns `true` if the exchange has taken longer than its limit of five seconds.
    pub fn is_late(&self, now_ms: u64) -> bool {
        now_ms > self.deadline_ms
    }

    /// Reads or writes without blocking. `answer` returns the response for a path; `None` if there is none.
    pub fn advance(&mut self, answer: impl FnOnce(&str) -> Option<Response>) -> Next {
        let next = match self.response.is_empty() {
            true => self.read(answer),
            false => self.write(),
        };
        next.unwrap_or(Next::Close)
    }

    fn read(&mut self, answer: impl FnOnce(&str) -> Option<Response>) -> io::Result<Next> {
        let mut bytes = [0; 1024];
        let count = match recv(&self.socket, &mut bytes, RecvFlags::empty()) {
            Ok((count, _)) => count,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Next::Read),
            Err(error) => return Err(error.into()),
        };
        if count == 0 {
            return Ok(Next::Close);
        }
        self.request.extend_from_slice(&bytes[..count]);
        let is_complete = self.request.windows(4).any(|end| end == b"\r\n\r\n");
        self.response = match is_complete {
            true => respond(&self.request, answer),
            false if self.request.len() < REQUEST_MAX_BYTES => return Ok(Next::Read),
            false => refusal("431 Request Header Fields Too Large", "too long\n", true),
        };
        self.write()
    }

    fn write(&mut self) -> io::Result<Next> {
        while self.sent < self.response.len() {
            match send(&self.socket, &self.response[self.sent..], SendFlags::NOSIGNAL) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return Ok(Next::Write),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Next::Close)
    }
}

impl AsFd for Exchange {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn respond(request: &[u8], answer: impl FnOnce(&str) -> Option<Response>) -> Vec<u8> {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let path = target.split(|byte| *byte == b'?').next();
    let path = path.and_then(|path| std::str::from_utf8(path).ok());
    let has_body = method != Some(b"HEAD");
    if !matches!(method, Some(b"GET" | b"HEAD")) {
        return refusal("405 Method Not Allowed", "GET only\n", true);
    }
    match path.and_then(answer) {
        Some(found) => response("200 OK", &found, has_body),
        None => refusal("404 Not Found", "see /metrics\n", has_body),
    }
}

fn refusal(status: &str, text: &str, has_body: bool) -> Vec<u8> {
    let text = Response { content_type: "text/plain; charset=utf-8", body: text.into() };
    response(status, &text, has_body)
}

/// Pages run their own scripts, and load nothing from other hosts.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'";

fn response(status: &str, response: &Response, has_body: bool) -> Vec<u8> {
    let Response { content_type, body } = response;
    let len = body.len();
    let body = if has_body { body } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Security-Policy: {POLICY}\r\n\
         X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n\
         Content-Length: {len}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}
