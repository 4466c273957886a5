//! Making connections to one agent, keeping those that are not used, and not trying it again while
//! it cannot be reached.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use overside_base::lock;
use overside_link::agent::{Preamble, Reply, Stream, Violation, Welcome, keys};
use rustls::ClientConfig;

use crate::connection::{Broken, Connection};
use crate::inventory::is_this_machine;
use crate::{Entry, RemoteError, Timeouts};

/// Maximum number of connections that are kept for the next context.
const SPARE_MAX: usize = 4;
/// The first and the longest pause after a connection could not be made.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Dialer {
    pub(crate) node: String,
    address: String,
    keys: Option<Arc<ClientConfig>>,
    pub(crate) timeouts: Timeouts,
    spare: Mutex<Vec<Connection>>,
    rest: Mutex<Rest>,
}

/// Pause after failed connection attempts, during which the agent is not contacted.
#[derive(Default)]
struct Rest {
    pause: Duration,
    until: Option<Instant>,
    /// Reason why the last connection attempt failed.
    reason: String,
}

impl Dialer {
    pub(crate) fn new(node: &str, entry: &Entry, timeouts: Timeouts) -> Result<Self, RemoteError> {
        let keys = match &entry.keys {
            Some(directory) => {
                let keys = keys::host(directory)
                    .map_err(|error| RemoteError::Keys { node: node.into(), error })?;
                Some(keys)
            }
            None => None,
        };
        Ok(Self {
            node: node.into(),
            address: entry.address.clone(),
            keys,
            timeouts,
            spare: Mutex::default(),
            rest: Mutex::default(),
        })
    }

    /// Returns a connection for a context: a kept one, or a new one with the agent's welcome. Fails at once
    /// for a short time after a failure.
    pub(crate) fn connection(&self) -> Result<(Connection, Option<Welcome>), String> {
        while let Some(mut spare) = self.spare().pop() {
            if spare.is_quiet() {
                return Ok((spare, None));
            }
        }
        let mut rest = lock(&self.rest);
        let now = Instant::now();
        if let Some(until) = rest.until
            && now < until
        {
            let left = until - now;
            return Err(format!("{}; tried again in {left:.1?}", rest.reason));
        }
        match self.dial() {
            Ok((connection, welcome)) => {
                let (node, address) = (&self.node, &self.address);
                tracing::info!(node, address, release = welcome.release, "agent connected");
                *rest = Rest::default();
                Ok((connection, Some(welcome)))
            }
            Err(error) => {
                rest.pause = (rest.pause * 2).clamp(PAUSE, PAUSE_MAX);
                rest.until = Some(Instant::now() + rest.pause);
                rest.reason = error.to_string();
                let (node, address, pause_ms) = (&self.node, &self.address, rest.pause.as_millis());
                let pause_ms = pause_ms as u64;
                tracing::warn!(node, address, %error, pause_ms, "agent cannot be reached");
                Err(rest.reason.clone())
            }
        }
    }

    /// Keeps a connection without a context for the next one.
    pub(crate) fn keep(&self, connection: Connection) {
        let mut spare = self.spare();
        if spare.len() < SPARE_MAX {
            spare.push(connection);
        }
    }

    fn spare(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        lock(&self.spare)
    }

    /// Makes a connection, as far as the agent's greeting.
    pub(crate) fn dial(&self) -> Result<(Connection, Welcome), RemoteError> {
        let deadline = Instant::now() + self.timeouts.connect;
        let socket = self.reach(deadline)?;
        let unreachable = |error: io::Error| self.unreachable(self.explained(&error));
        let mut stream = match &self.keys {
            Some(keys) => Stream::host(socket, Arc::clone(keys)),
            None => Stream::plain(socket),
        }
        .map_err(unreachable)?;
        stream.handshake(deadline).map_err(unreachable)?;
        stream.write_all(&Preamble::ours(), deadline).map_err(unreachable)?;
        let mut preamble = [0; Preamble::BYTES];
        stream.read_all(&mut preamble, deadline).map_err(unreachable)?;
        Preamble::agree(&preamble).map_err(|violation| self.stranger(violation))?;
        let mut connection = Connection::new(stream);
        match connection.reply(deadline) {
            Ok(Reply::Welcome(welcome)) => Ok((connection, welcome)),
            Ok(Reply::Busy(reason)) => Err(RemoteError::Busy {
                node: self.node.clone(),
                address: self.address.clone(),
                reason,
            }),
            Ok(_) => Err(self.stranger(Violation::OutOfTurn("it does not greet".into()))),
            Err(Broken::Violation(violation)) => Err(self.stranger(violation)),
            Err(Broken::Io(error)) => Err(self.unreachable(self.explained(&error))),
        }
    }

    /// Connects to the first of the agent's addresses that accepts.
    fn reach(&self, deadline: Instant) -> Result<TcpStream, RemoteError> {
        let addresses = (self.address.as_str().to_socket_addrs())
            .map_err(|error| self.unreachable(error.to_string()))?;
        let mut last = "the name has no address".to_owned();
        for address in addresses {
            if self.keys.is_none() && !is_this_machine(address) {
                return Err(RemoteError::Insecure {
                    node: self.node.clone(),
                    address: self.address.clone(),
                });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let left = left.max(Duration::from_millis(1));
            match TcpStream::connect_timeout(&address, left) {
                Ok(socket) => return Ok(socket),
                Err(error) => last = self.explained(&error),
            }
        }
        Err(self.unreachable(last))
    }

    /// Returns an explanation of a connection error, with the remedy if it is known.
    fn explained(&self, error: &io::Error) -> String {
        let with_keys = self.keys.is_some();
        match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                "nobody listens there; is `overside agent` running?".into()
            }
            io::ErrorKind::TimedOut => {
                format!("nothing came within {:?}", self.timeouts.connect)
            }
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset if with_keys => {
                "it ended the connection at once; perhaps it was started without keys, or has all \
                 the connections that it takes"
                    .into()
            }
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                "it ended the connection at once; perhaps it wants keys (`overside agents add \
                 NAME ADDRESS --keys DIR`)"
                    .into()
            }
            io::ErrorKind::InvalidData => format!("the keys do not fit: {error}"),
            _ => error.to_string(),
        }
    }

    fn unreachable(&self, reason: String) -> RemoteError {
        RemoteError::Unreachable { node: self.node.clone(), address: self.address.clone(), reason }
    }

    fn stranger(&self, violation: Violation) -> RemoteError {
        RemoteError::Stranger { node: self.node.clone(), address: self.address.clone(), violation }
    }
}
