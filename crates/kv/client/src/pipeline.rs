//! Requests of one server, and their replies.

use std::io;

use super::connection::Connection;
use super::reply::Reply;

/// Requests that may be sent before the first of their replies is read. This number of bytes fits into the buffers of
/// the sockets: a server that waits for this client to read does not make it wait.
const SENT_MAX_BYTES: usize = 32 << 10;

/// A request, as it is sent.
#[derive(Debug)]
pub(super) struct Request {
    pub bytes: Vec<u8>,
    /// Changes nothing, so that it can be sent twice.
    pub is_read: bool,
}

/// Requests for one server, in order.
#[derive(Debug)]
pub(super) struct Pipeline<'r> {
    requests: Vec<(usize, &'r Request)>,
    sent: usize,
    answered: usize,
}

impl<'r> Pipeline<'r> {
    /// Requests with their numbers.
    pub(super) fn new(requests: Vec<(usize, &'r Request)>) -> Self {
        Self { requests, sent: 0, answered: 0 }
    }

    /// Returns `true` if every request has a reply.
    pub(super) fn is_done(&self) -> bool {
        self.answered == self.requests.len()
    }

    /// Requests that have none.
    pub(super) fn unanswered(&self) -> usize {
        self.requests.len() - self.answered
    }

    /// Numbers of all requests.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> {
        self.requests.iter().map(|(number, _)| *number)
    }

    /// Returns `true` if a request that may change something was sent and has no reply.
    pub(super) fn may_be_executed(&self) -> bool {
        let sent = &self.requests[self.answered..self.sent];
        sent.iter().any(|(_, request)| !request.is_read)
    }

    /// Restarts after a failure. Returns `true` if all requests without a reply can be sent again, on another
    /// connection.
    pub(super) fn start_again(&mut self) -> bool {
        let is_safe = !self.may_be_executed();
        if is_safe {
            self.sent = self.answered;
        }
        is_safe
    }

    /// Sends as many requests as fit into `SENT_MAX_BYTES`.
    pub(super) fn send(&mut self, connection: &mut Connection) -> io::Result<()> {
        let mut bytes = Vec::new();
        for (_, request) in &self.requests[self.sent..] {
            let is_more = !bytes.is_empty() && bytes.len() + request.bytes.len() > SENT_MAX_BYTES;
            if is_more {
                break;
            }
            // A part of it may be sent from here on.
            self.sent += 1;
            bytes.extend_from_slice(&request.bytes);
        }
        connection.send(&bytes)
    }

    /// Reads the replies to all that was sent.
    pub(super) fn receive(
        &mut self,
        connection: &mut Connection,
        replies: &mut [Option<Reply>],
    ) -> io::Result<()> {
        while self.answered < self.sent {
            let reply = connection.receive()?;
            let (number, _) = self.requests[self.answered];
            replies[number] = Some(reply);
            self.answered += 1;
        }
        Ok(())
    }
}
