//! State that the endpoint, its queue pairs and its threads share.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;

use overside_base::{EventFd, lock};
use overside_device::threads::ThreadClock;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::engine::Engine;
use super::regions::Regions;
use super::socket;
use crate::doorbell::Event;
use crate::verbs::{EndpointId, LinkError, LinkErrorKind};

/// The transport's name.
pub(super) const NAME: &str = "shm";

/// Maximum number of messages that are taken in at a time.
const MESSAGES: usize = 1024;

/// The link itself; all its queue pairs and regions learn of its loss.
pub(super) struct Connection {
    pub(super) id: EndpointId,
    pub(super) socket: OwnedFd,
    pub(super) regions: Regions,
    lost: AtomicBool,
    cause: OnceLock<LinkErrorKind>,
    /// Events of the owners that may be asleep when the link is lost.
    sleepers: Mutex<Vec<Arc<Event>>>,
    /// Held while messages are taken from the socket, so that they are seen in order.
    reading: Mutex<()>,
}

impl Connection {
    pub(super) fn new(socket: OwnedFd, regions: Regions) -> Self {
        Self {
            id: EndpointId::unique(),
            socket,
            regions,
            lost: AtomicBool::new(false),
            cause: OnceLock::new(),
            sleepers: Mutex::default(),
            reading: Mutex::default(),
        }
    }

    /// Marks the link as lost for all its users. The first cause counts.
    pub(super) fn mark_lost(&self, cause: LinkErrorKind) {
        let _ = self.cause.set(cause);
        self.lost.store(true, Ordering::SeqCst);
        // So that the peer and this end's watcher learn of it.
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        let sleepers = lock(&self.sleepers);
        sleepers.iter().for_each(|event| event.signal());
    }

    /// Returns the cause if the link is lost, `None` otherwise.
    #[inline]
    pub(super) fn lost(&self) -> Option<&LinkErrorKind> {
        if !self.lost.load(Ordering::Relaxed) {
            return None;
        }
        self.lost.load(Ordering::SeqCst).then(|| self.cause.get()).flatten()
    }

    /// Fails if the link is lost.
    pub(super) fn alive(&self) -> Result<(), LinkError> {
        match self.lost() {
            None => Ok(()),
            Some(cause) => Err(lost(cause.clone(), Vec::new())),
        }
    }

    /// Signals the event when the link is lost, or now if it is already lost.
    pub(super) fn wake_when_lost(&self, event: &Arc<Event>) {
        let mut sleepers = lock(&self.sleepers);
        sleepers.push(Arc::clone(event));
        if self.lost().is_some() {
            event.signal();
        }
    }

    /// Reads the peer's messages about its regions: more than fit into a socket, so all of them
    /// unless the peer sends more. Ends the link if one is invalid.
    pub(super) fn listen(&self) {
        let _reading = lock(&self.reading);
        for _ in 0..MESSAGES {
            if self.lost().is_some() {
                return;
            }
            let told = match socket::receive(&self.socket) {
                Ok(received) => self.regions.on_message(received),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return,
                    ErrorKind::UnexpectedEof => {
                        Err(LinkErrorKind::Gone("its process ended, or let the link go".into()))
                    }
                    ErrorKind::InvalidData => Err(LinkErrorKind::Protocol(error.to_string())),
                    _ => Err(LinkErrorKind::Gone(error.to_string())),
                },
            };
            if let Err(cause) = told {
                self.mark_lost(cause);
            }
        }
    }
}

pub(super) fn lost(cause: LinkErrorKind, tags: Vec<u64>) -> LinkError {
    LinkError { link: NAME.to_owned(), cause, tags }
}

/// Owns the connection's threads.
pub(super) struct Session {
    pub(super) connection: Arc<Connection>,
    pub(super) engine: Option<Engine>,
    pub(super) clock: Arc<ThreadClock>,
    stop: Arc<EventFd>,
    watcher: Option<JoinHandle<()>>,
}

impl Session {
    /// Starts the watcher, which listens to the peer and learns of its end.
    pub(super) fn start(
        connection: Connection,
        engine: Option<Engine>,
    ) -> std::io::Result<Arc<Self>> {
        let connection = Arc::new(connection);
        let clock = Arc::new(ThreadClock::default());
        let stop = Arc::new(EventFd::new()?);
        let watcher = std::thread::Builder::new().name("link-watcher".into()).spawn({
            let (connection, clock) = (Arc::clone(&connection), Arc::clone(&clock));
            let stop = Arc::clone(&stop);
            move || {
                clock.begin();
                watch(&connection, &stop);
                clock.end();
            }
        })?;
        Ok(Arc::new(Self { connection, engine, clock, stop, watcher: Some(watcher) }))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop.signal();
        if let Some(watcher) = self.watcher.take() {
            let _ = watcher.join();
        }
        // Exported memory may keep the connection for longer; the peer is not to wait for that.
        let cause = LinkErrorKind::Local("its endpoint was dropped".into());
        self.connection.mark_lost(cause);
    }
}

fn watch(connection: &Connection, stop: &EventFd) {
    while connection.lost().is_none() {
        let mut set =
            [PollFd::new(&connection.socket, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
        match rustix::event::poll(&mut set, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                connection
                    .mark_lost(LinkErrorKind::Local(format!("waiting for the peer: {error}")));
            }
        }
        if !set[1].revents().is_empty() {
            return;
        }
        connection.listen();
    }
}
