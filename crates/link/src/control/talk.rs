//! The connection beside the queue pairs, once the link stands.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use overside_base::lock;
use rustix::event::{PollFd, PollFlags};

use super::channel::{Channel, bounded};
use super::frame::{Frame, Offer};
use crate::exports::Exports;
use crate::verbs::{Cause, ConnectError, ImportError, Lost};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(10);
/// The most questions at a time.
const MAX_QUESTIONS: usize = 64;
/// The most bytes that wait for a peer who does not read.
const MAX_OUTGOING_BYTES: usize = 1 << 20;
/// How often in its patience the peer hears something.
const BEATS: u32 = 5;

/// Answers the peer's questions, asks it ours, and notices when it falls silent.
pub(crate) struct Talk {
    link: &'static str,
    stream: TcpStream,
    exports: Arc<Exports>,
    state: Mutex<State>,
    answered: Condvar,
    our_patience: Duration,
    beat: Duration,
}

struct State {
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// Questions and, once it is there, the answer to each.
    questions: HashMap<u32, Option<Option<Offer>>>,
    next_question: u32,
    heard: Instant,
    beaten: Instant,
    lost: Option<Cause>,
}

impl Talk {
    /// Goes on where a handshake has ended.
    pub(crate) fn new(
        link: &'static str,
        channel: Channel,
        exports: Arc<Exports>,
        our_patience: Duration,
        their_patience: Duration,
    ) -> Result<Self, ConnectError> {
        let doing = format!("setting up the connection with {}", channel.peer());
        let stream = channel.into_stream();
        stream
            .set_nonblocking(true)
            .map_err(|source| ConnectError::System { doing, source })?;
        let now = Instant::now();
        Ok(Self {
            link,
            stream,
            exports,
            state: Mutex::new(State {
                incoming: Vec::new(),
                outgoing: Vec::new(),
                questions: HashMap::new(),
                next_question: 0,
                heard: now,
                beaten: now,
                lost: None,
            }),
            answered: Condvar::new(),
            our_patience: bounded(our_patience),
            beat: their_patience / BEATS,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// What to wait on for the peer to say something.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Which region of the peer's this is. Waits for the answer.
    pub(crate) fn ask(&self, key: u64) -> Result<Offer, ImportError> {
        let mut state = self.state();
        if state.questions.len() >= MAX_QUESTIONS {
            return Err(ImportError::Failed(format!(
                "{MAX_QUESTIONS} imports are under way, which is the most"
            )));
        }
        let id = state.next_question;
        state.next_question = id.wrapping_add(1);
        state.questions.insert(id, None);
        Frame::Ask { id, key }.encode(&mut state.outgoing);
        if let Err(cause) = self.flush(&mut state) {
            state.lost.get_or_insert(cause);
        }
        let deadline = Instant::now() + ANSWER;
        loop {
            if let Some(Some(answer)) = state.questions.get_mut(&id) {
                let answer = answer.take();
                state.questions.remove(&id);
                return answer.ok_or(ImportError::Unknown);
            }
            if let Some(cause) = state.lost.clone() {
                return Err(ImportError::Lost(self.lost(cause)));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // An answer that comes nevertheless finds no question.
                state.questions.remove(&id);
                return Err(ImportError::Failed(
                    "the peer did not answer in time".into(),
                ));
            }
            let waited = self.answered.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Hears what the peer has said, answers it, and says that this end is alive when it is time.
    /// Returns when to come again even if nothing is said.
    ///
    /// # Errors
    /// Why the link is lost.
    pub(crate) fn serve(&self, now: Instant) -> Result<Instant, Cause> {
        let mut state = self.state();
        let served = self.serve_locked(&mut state, now);
        if let Err(cause) = &served {
            state.lost.get_or_insert_with(|| cause.clone());
            self.answered.notify_all();
        }
        served
    }

    fn serve_locked(&self, state: &mut State, now: Instant) -> Result<Instant, Cause> {
        self.hear(state, now)?;
        if now >= state.beaten + self.beat {
            state.beaten = now;
            Frame::Beat.encode(&mut state.outgoing);
        }
        self.flush(state)?;
        if now >= state.heard + self.our_patience {
            return Err(Cause::Gone(format!(
                "it has given no sign of life for {:.1} s",
                self.our_patience.as_secs_f64()
            )));
        }
        Ok((state.beaten + self.beat).min(state.heard + self.our_patience))
    }

    fn hear(&self, state: &mut State, now: Instant) -> Result<(), Cause> {
        let mut chunk = [0; 4096];
        // Somebody who talks without end is heard again the next time.
        for _ in 0..64 {
            match (&self.stream).read(&mut chunk) {
                Ok(0) => return Err(Cause::Gone("it has closed the connection".into())),
                Ok(count) => state.incoming.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Cause::Gone(error.to_string())),
            }
            state.heard = now;
            let mut at = 0;
            while let Some((frame, len)) = Frame::parse(&state.incoming[at..])
                .map_err(|error| Cause::Protocol(error.to_string()))?
            {
                at += len;
                self.handle(state, frame)?;
            }
            state.incoming.drain(..at);
        }
        Ok(())
    }

    fn handle(&self, state: &mut State, frame: Frame) -> Result<(), Cause> {
        match frame {
            Frame::Beat => Ok(()),
            Frame::Ask { id, key } => {
                let offer = self.exports.offer(key);
                Frame::Answer { id, offer }.encode(&mut state.outgoing);
                if state.outgoing.len() > MAX_OUTGOING_BYTES {
                    return Err(Cause::Protocol("it asks and does not listen".into()));
                }
                Ok(())
            }
            Frame::Answer { id, offer } => {
                if let Some(question) = state.questions.get_mut(&id) {
                    *question = Some(offer);
                    self.answered.notify_all();
                }
                Ok(())
            }
            _ => Err(Cause::Protocol("a handshake in the midst of a link".into())),
        }
    }

    fn flush(&self, state: &mut State) -> Result<(), Cause> {
        while !state.outgoing.is_empty() {
            match (&self.stream).write(&state.outgoing) {
                Ok(count) => drop(state.outgoing.drain(..count)),
                // The next beat tries again.
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Cause::Gone(error.to_string())),
            }
        }
        Ok(())
    }

    fn lost(&self, cause: Cause) -> Lost {
        Lost {
            link: self.link.to_owned(),
            cause,
            tags: Vec::new(),
        }
    }

    /// Whether the link still stands.
    pub(crate) fn is_alive(&self) -> Result<(), Lost> {
        match self.state().lost.clone() {
            None => Ok(()),
            Some(cause) => Err(self.lost(cause)),
        }
    }

    /// Says that this end starts nothing any more.
    pub(crate) fn shut(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Whether the peer says the same before the deadline. Once nobody else listens to it.
    pub(crate) fn has_parted(&self, deadline: Instant) -> bool {
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

    /// Nobody is to wait for answers any more.
    pub(crate) fn end(&self, cause: &Cause) {
        self.state().lost.get_or_insert_with(|| cause.clone());
        self.answered.notify_all();
    }
}
