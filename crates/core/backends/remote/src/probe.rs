//! Connection to an agent that plays one end of a test: requests and their answers.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use overside_link::agent::{Item, MAX_TEXT_BYTES, OpeningError, Reply, Request, Violation, probe};
use overside_link::codec::{Message, clean};

use crate::connection::{Broken, Connection};
use crate::dialer::Dialer;
use crate::error::RELEASE;
use crate::{Entry, ProbeError, Timeouts};

/// Longest time that an agent may take to end a test and free its memory.
const CLOSING: Duration = Duration::from_secs(5);

/// The host's end of a test of which an agent plays the other. Dropping it ends the test there.
pub struct RemoteProbe {
    node: String,
    timeouts: Timeouts,
    connection: Connection,
    here: SocketAddr,
    there: SocketAddr,
    /// `true` while a request has not been answered.
    asked: bool,
}

impl RemoteProbe {
    /// Makes the agent `node` play one end of a test of the kind `kind`.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub fn open(
        node: &str,
        entry: &Entry,
        kind: &str,
        timeouts: Timeouts,
    ) -> Result<Self, ProbeError> {
        let (connection, _) = Dialer::new(node, entry, timeouts)?.dial()?;
        Self::begin(node, connection, kind, timeouts)
    }

    /// Variant of `open` for an agent that has to be of this release.
    ///
    /// # Errors
    /// [`ProbeError`]; [`ProbeError::Release`] if it is of another.
    pub fn open_same_release(
        node: &str,
        entry: &Entry,
        kind: &str,
        timeouts: Timeouts,
    ) -> Result<Self, ProbeError> {
        let (connection, welcome) = Dialer::new(node, entry, timeouts)?.dial()?;
        if welcome.release != RELEASE {
            return Err(ProbeError::Release {
                node: node.into(),
                theirs: clean(&welcome.release, MAX_TEXT_BYTES),
            });
        }
        Self::begin(node, connection, kind, timeouts)
    }

    fn begin(
        node: &str,
        mut connection: Connection,
        kind: &str,
        timeouts: Timeouts,
    ) -> Result<Self, ProbeError> {
        let refused = |reason: String| ProbeError::Refused { node: node.into(), reason };
        let lost = |reason: String| ProbeError::Lost { node: node.into(), reason };
        let [here, there] =
            (connection.stream.addresses()).map_err(|error| lost(Broken::Io(error).to_string()))?;
        connection.request(&Request::Probe { kind: kind.into() });
        let deadline = Instant::now() + timeouts.open;
        let replied = connection.reply(deadline);
        match replied.map_err(|broken| lost(broken.to_string()))? {
            Reply::Probing => {
                Ok(Self { node: node.into(), timeouts, connection, here, there, asked: false })
            }
            Reply::Refused(OpeningError::Failed(reason)) => {
                Err(refused(clean(&reason, MAX_TEXT_BYTES)))
            }
            Reply::Drain => Err(refused("it is about to end".into())),
            Reply::Lost(reason) => Err(lost(format!("it says: {reason}"))),
            _ => Err(lost("it answers something else".into())),
        }
    }

    /// Returns the name that this machine gives the agent.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// This machine's address on the way to the agent.
    pub fn here(&self) -> SocketAddr {
        self.here
    }

    /// The agent's address.
    pub fn there(&self) -> SocketAddr {
        self.there
    }

    /// Sends a request and waits for the answer, but not beyond `deadline`.
    ///
    /// # Errors
    /// [`ProbeError::Lost`], [`ProbeError::Late`]; the connection is unusable afterwards.
    pub fn ask(&mut self, request: &[u8], deadline: Instant) -> Result<Vec<u8>, ProbeError> {
        self.tell(request)?;
        self.answer(deadline)
    }

    /// Sends a request without waiting for the answer; [`RemoteProbe::answer`] waits.
    ///
    /// # Errors
    /// [`ProbeError::Lost`], also while the last request has no answer; the connection is unusable afterwards.
    ///
    /// # Panics
    /// If the request is empty or longer than [`overside_link::agent::MAX_PROBE_BYTES`].
    pub fn tell(&mut self, request: &[u8]) -> Result<(), ProbeError> {
        if std::mem::replace(&mut self.asked, true) {
            return Err(ProbeError::Lost {
                node: self.node.clone(),
                reason: "it has not answered the last request".into(),
            });
        }
        self.connection.outbox.frame(probe(request));
        let deadline = Instant::now() + self.timeouts.silence;
        let sent = self.send(deadline);
        sent.map_err(|broken| self.lost(&broken))
    }

    fn send(&mut self, deadline: Instant) -> Result<(), Broken> {
        loop {
            self.connection.send()?;
            if !self.connection.wants_write() {
                return Ok(());
            }
            self.connection.stream.wait(false, true, deadline)?;
        }
    }

    /// Waits for the answer to the last request, but not beyond `deadline`.
    ///
    /// # Errors
    /// [`ProbeError::Lost`], [`ProbeError::Late`]; the connection is unusable afterwards.
    ///
    /// # Panics
    /// If no request was sent.
    pub fn answer(&mut self, deadline: Instant) -> Result<Vec<u8>, ProbeError> {
        let late = ProbeError::Late { node: self.node.clone() };
        self.answer_until(deadline)?.ok_or(late)
    }

    /// Waits for the answer until `until`. Returns `None` if it has not arrived.
    ///
    /// # Errors
    /// [`ProbeError::Lost`]; the connection is unusable afterwards.
    ///
    /// # Panics
    /// If no request was sent.
    pub fn answer_until(&mut self, until: Instant) -> Result<Option<Vec<u8>>, ProbeError> {
        assert!(self.asked, "there is no request to be answered");
        let answer = self.watch(until)?;
        self.asked = answer.is_none();
        Ok(answer)
    }

    /// Waits until then and checks that the agent is still there, which it must be while the test runs.
    /// Returns the answer to the last request, if there was one.
    ///
    /// # Errors
    /// [`ProbeError::Lost`], at the latest when it has been silent for [`Timeouts::ask`] and
    /// [`Timeouts::silence`]; the connection is unusable afterwards.
    pub fn watch(&mut self, until: Instant) -> Result<Option<Vec<u8>>, ProbeError> {
        let waited = self.wait(until);
        match waited.map_err(|broken| self.lost(&broken))? {
            Waited::Answer(answer) if self.asked => Ok(Some(answer)),
            Waited::Answer(_) => Err(self.lost(&not_asked())),
            Waited::Lost(reason) => Err(ProbeError::Lost {
                node: self.node.clone(),
                reason: format!("it says: {reason}"),
            }),
            Waited::Late => Ok(None),
        }
    }

    fn wait(&mut self, deadline: Instant) -> Result<Waited, Broken> {
        let (ask, silence) = (self.timeouts.ask, self.timeouts.silence);
        loop {
            while let Some(item) = self.connection.reader.item()? {
                match item {
                    Item::Probe(answer) => return Ok(Waited::Answer(answer)),
                    Item::Control(json) => match Reply::decode(&json)? {
                        Reply::Lost(reason) => return Ok(Waited::Lost(reason)),
                        // The agent still finishes the test.
                        Reply::Drain => {}
                        _ => return Err(not_asked()),
                    },
                    Item::Pong(_) | Item::Usage(_) => {}
                    Item::Answer(..) | Item::Job(..) | Item::Ping(_) => return Err(not_asked()),
                }
            }
            let now = Instant::now();
            if self.connection.fill()? > 0 && now < deadline {
                continue;
            }
            if now >= deadline {
                return Ok(Waited::Late);
            }
            self.connection.beat(now, ask, silence)?;
            let until = deadline.min(self.connection.next_beat(ask, silence));
            let writes = self.connection.wants_write();
            match self.connection.stream.wait(true, writes, until) {
                Ok(()) => self.connection.send()?,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends the test on the agent, and waits until all of its resources are freed.
    ///
    /// # Errors
    /// [`ProbeError::Lost`].
    pub fn close(mut self) -> Result<(), ProbeError> {
        self.connection.request(&Request::Close);
        let deadline = Instant::now() + CLOSING;
        loop {
            let reply = self.connection.reply(deadline);
            match reply.map_err(|broken| self.lost(&broken))? {
                Reply::Closed(_) => return Ok(()),
                Reply::Drain => {}
                _ => return Err(self.lost(&not_asked())),
            }
        }
    }

    fn lost(&self, broken: &Broken) -> ProbeError {
        ProbeError::Lost { node: self.node.clone(), reason: broken.to_string() }
    }
}

/// Result of waiting for an answer of the agent.
enum Waited {
    Answer(Vec<u8>),
    Lost(String),
    Late,
}

fn not_asked() -> Broken {
    Violation::OutOfTurn("it says something that nothing asked for".into()).into()
}
