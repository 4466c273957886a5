//! The connection beside the queue pairs, once the link stands.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use overside_base::lock;
use rustix::event::{PollFd, PollFlags};

use super::frame::{self, ControlMessage, RegionInfo};
use super::handshake::{Channel, bounded};
use crate::ucx::NAME;
use crate::ucx::exports::Exports;
use crate::verbs::{ConnectError, ImportError, LinkError, LinkErrorKind};

/// Longest time that the peer may take to answer a request.
const ANSWER: Duration = Duration::from_secs(10);
/// Maximum number of requests at a time.
const MAX_REQUESTS: usize = 64;
/// Maximum number of bytes that wait for a peer who does not read.
const MAX_OUTGOING_BYTES: usize = 1 << 20;
/// Number of heartbeats in the time after which the peer gives up a silent end.
const HEARTBEATS: u32 = 5;

/// Control connection: answers the peer's requests, sends ours, and detects a silent peer.
pub(crate) struct ControlConnection {
    stream: TcpStream,
    exports: Arc<Exports>,
    state: Mutex<ControlState>,
    answered: Condvar,
    peer_timeout: Duration,
    heartbeat_interval: Duration,
}

struct ControlState {
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// Requests and the answer to each, once it has arrived.
    requests: HashMap<u32, Option<Option<RegionInfo>>>,
    next_question: u32,
    heard: Instant,
    heartbeat_sent: Instant,
    lost: Option<LinkErrorKind>,
}

impl ControlConnection {
    /// Goes on where a handshake has ended.
    pub(crate) fn new(
        channel: Channel,
        exports: Arc<Exports>,
        our_timeout: Duration,
        their_timeout: Duration,
    ) -> Result<Self, ConnectError> {
        let doing = format!("setting up the connection with {}", channel.peer());
        let stream = channel.into_stream();
        stream.set_nonblocking(true).map_err(|source| ConnectError::System { doing, source })?;
        let now = Instant::now();
        Ok(Self {
            stream,
            exports,
            state: Mutex::new(ControlState {
                incoming: Vec::new(),
                outgoing: Vec::new(),
                requests: HashMap::new(),
                next_question: 0,
                heard: now,
                heartbeat_sent: now,
                lost: None,
            }),
            answered: Condvar::new(),
            peer_timeout: bounded(our_timeout),
            heartbeat_interval: their_timeout / HEARTBEATS,
        })
    }

    fn state(&self) -> MutexGuard<'_, ControlState> {
        lock(&self.state)
    }

    /// Returns the descriptor that becomes readable when the peer sends something.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Requests information about one of the peer's regions. Waits for the answer.
    pub(crate) fn ask(&self, key: u64) -> Result<RegionInfo, ImportError> {
        let mut state = self.state();
        if state.requests.len() >= MAX_REQUESTS {
            return Err(ImportError::Failed(format!(
                "{MAX_REQUESTS} imports are under way, which is the most"
            )));
        }
        let id = state.next_question;
        state.next_question = id.wrapping_add(1);
        state.requests.insert(id, None);
        frame::encode(&ControlMessage::RegionQuery { id, key }, &mut state.outgoing);
        if let Err(cause) = self.flush(&mut state) {
            state.lost.get_or_insert(cause);
        }
        let deadline = Instant::now() + ANSWER;
        loop {
            if let Some(Some(answer)) = state.requests.get_mut(&id) {
                let answer = answer.take();
                state.requests.remove(&id);
                return answer.ok_or(ImportError::Unknown);
            }
            if let Some(cause) = state.lost.clone() {
                return Err(ImportError::Lost(self.lost(cause)));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // A late answer finds no request.
                state.requests.remove(&id);
                return Err(ImportError::Failed("the peer did not answer in time".into()));
            }
            let waited = self.answered.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Reads the peer's messages, answers them, and sends a heartbeat when it is time. Returns the
    /// time of the next call if no message comes.
    ///
    /// # Errors
    /// Why the link is lost.
    pub(crate) fn serve(&self, now: Instant) -> Result<Instant, LinkErrorKind> {
        let mut state = self.state();
        let served = self.serve_locked(&mut state, now);
        if let Err(cause) = &served {
            state.lost.get_or_insert_with(|| cause.clone());
            self.answered.notify_all();
        }
        served
    }

    fn serve_locked(
        &self,
        state: &mut ControlState,
        now: Instant,
    ) -> Result<Instant, LinkErrorKind> {
        self.hear(state, now)?;
        if now >= state.heartbeat_sent + self.heartbeat_interval {
            state.heartbeat_sent = now;
            frame::encode(&ControlMessage::Heartbeat, &mut state.outgoing);
        }
        self.flush(state)?;
        if now >= state.heard + self.peer_timeout {
            let silent_ms = (now - state.heard).as_millis() as u64;
            tracing::warn!(silent_ms, "peer gives no sign of life");
            return Err(LinkErrorKind::Gone(format!(
                "it has given no sign of life for {:.1} s",
                self.peer_timeout.as_secs_f64()
            )));
        }
        Ok((state.heartbeat_sent + self.heartbeat_interval).min(state.heard + self.peer_timeout))
    }

    fn hear(&self, state: &mut ControlState, now: Instant) -> Result<(), LinkErrorKind> {
        let mut chunk = [0; 4096];
        // A peer that sends without end is read again the next time.
        for _ in 0..64 {
            match (&self.stream).read(&mut chunk) {
                Ok(0) => return Err(LinkErrorKind::Gone("it has closed the connection".into())),
                Ok(count) => state.incoming.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(LinkErrorKind::Gone(error.to_string())),
            }
            state.heard = now;
            let mut at = 0;
            while let Some((message, len)) = frame::parse(&state.incoming[at..])
                .map_err(|error| LinkErrorKind::Protocol(error.to_string()))?
            {
                at += len;
                self.handle(state, message)?;
            }
            state.incoming.drain(..at);
        }
        Ok(())
    }

    fn handle(
        &self,
        state: &mut ControlState,
        message: ControlMessage,
    ) -> Result<(), LinkErrorKind> {
        match message {
            ControlMessage::Heartbeat => Ok(()),
            ControlMessage::RegionQuery { id, key } => {
                let region = self.exports.info(key);
                let answer = ControlMessage::RegionInfo { id, region };
                frame::encode(&answer, &mut state.outgoing);
                if state.outgoing.len() > MAX_OUTGOING_BYTES {
                    return Err(LinkErrorKind::Protocol("it asks and does not listen".into()));
                }
                Ok(())
            }
            ControlMessage::RegionInfo { id, region } => {
                if let Some(request) = state.requests.get_mut(&id) {
                    *request = Some(region);
                    self.answered.notify_all();
                }
                Ok(())
            }
            _ => Err(LinkErrorKind::Protocol("a handshake in the midst of a link".into())),
        }
    }

    fn flush(&self, state: &mut ControlState) -> Result<(), LinkErrorKind> {
        while !state.outgoing.is_empty() {
            match (&self.stream).write(&state.outgoing) {
                Ok(count) => drop(state.outgoing.drain(..count)),
                // The next heartbeat tries again.
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(LinkErrorKind::Gone(error.to_string())),
            }
        }
        Ok(())
    }

    fn lost(&self, cause: LinkErrorKind) -> LinkError {
        LinkError { link: NAME.to_owned(), cause, tags: Vec::new() }
    }

    /// Fails if the link is lost.
    pub(crate) fn is_alive(&self) -> Result<(), LinkError> {
        match self.state().lost.clone() {
            None => Ok(()),
            Some(cause) => Err(self.lost(cause)),
        }
    }

    /// Says that this end starts nothing any more.
    pub(crate) fn shut(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Returns `true` if, before the deadline, the peer calls [`Self::shut`] as well or is gone. Call
    /// it only once no other thread reads from the connection.
    pub(crate) fn peer_has_closed(&self, deadline: Instant) -> bool {
        let mut chunk = [0; 4096];
        loop {
            match (&self.stream).read(&mut chunk) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    let mut set = [PollFd::new(&self.stream, PollFlags::IN)];
                    let timeout = left.try_into().ok();
                    if left.is_zero() || rustix::event::poll(&mut set, timeout.as_ref()).is_err() {
                        return false;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // Reset: its process is gone.
                Err(_) => return true,
            }
        }
    }

    /// Marks the link as lost, and wakes all threads that wait for answers.
    pub(crate) fn end(&self, cause: &LinkErrorKind) {
        self.state().lost.get_or_insert_with(|| cause.clone());
        self.answered.notify_all();
    }
}
