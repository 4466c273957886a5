//! One request for metrics over HTTP/1.1 (RFC 9112), which is answered and closed.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// Longest head of a request in bytes.
const REQUEST_MAX_BYTES: usize = 8 << 10;
/// How long a request may take.
const TIMEOUT_MS: u64 = 5_000;

/// A connection that asks for metrics.
pub struct Scrape {
    socket: OwnedFd,
    request: Vec<u8>,
    response: Vec<u8>,
    sent: usize,
    deadline_ms: u64,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait until there is something to read.
    Read,
    /// Wait until something can be written.
    Write,
    /// Close it.
    Close,
}

impl Scrape {
    pub fn new(socket: OwnedFd, now_ms: u64) -> Self {
        Self {
            socket,
            request: Vec::new(),
            response: Vec::new(),
            sent: 0,
            deadline_ms: now_ms + TIMEOUT_MS,
        }
    }

    pub fn is_late(&self, now_ms: u64) -> bool {
        now_ms > self.deadline_ms
    }

    /// Reads or writes what can be.
    pub fn advance(&mut self, metrics: impl FnOnce() -> String) -> Next {
        let next = match self.response.is_empty() {
            true => self.read(metrics),
            false => self.write(),
        };
        next.unwrap_or(Next::Close)
    }

    fn read(&mut self, metrics: impl FnOnce() -> String) -> io::Result<Next> {
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
            true => respond(&self.request, metrics),
            false if self.request.len() < REQUEST_MAX_BYTES => return Ok(Next::Read),
            false => response("431 Request Header Fields Too Large", "too long\n", true),
        };
        self.write()
    }

    fn write(&mut self) -> io::Result<Next> {
        while self.sent < self.response.len() {
            match send(
                &self.socket,
                &self.response[self.sent..],
                SendFlags::NOSIGNAL,
            ) {
                Ok(count) => self.sent += count,
                Err(Errno::AGAIN) => return Ok(Next::Write),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Next::Close)
    }
}

impl AsFd for Scrape {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn respond(request: &[u8], metrics: impl FnOnce() -> String) -> Vec<u8> {
    let line = request
        .split(|byte| *byte == b'\r')
        .next()
        .unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let path = target.split(|byte| *byte == b'?').next();
    let has_body = method != Some(b"HEAD");
    match (method, path) {
        (Some(b"GET" | b"HEAD"), Some(b"/metrics")) => response("200 OK", &metrics(), has_body),
        (Some(b"GET" | b"HEAD"), _) => response("404 Not Found", "see /metrics\n", has_body),
        _ => response("405 Method Not Allowed", "GET only\n", true),
    }
}

fn response(status: &str, body: &str, has_body: bool) -> Vec<u8> {
    let len = body.len();
    let body = if has_body { body } else { "" };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {len}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}
