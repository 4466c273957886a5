//! A cluster of servers.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::connection::{ClusterOptions, ConnectError, Connection, INTERRUPTED, reason};
use super::pipeline::{Pipeline, Request};
use super::reply::{Reply, command};
use super::{ClusterError, Ring, ServerFailure};
use crate::directory::{DirectoryError, Endpoint, Follower, Location, Membership, View};

/// Names in the directory of the protocol that this client speaks: in the clear, and by TLS.
const PROTOCOLS: [&str; 2] = ["redis", "rediss"];

/// A client of all servers of a cluster.
#[derive(Debug)]
pub struct Cluster {
    follower: Follower,
    directory: String,
    options: ClusterOptions,
    /// The view that ring and membership are made of.
    view: Arc<View>,
    ring: Ring,
    /// Longest time that values are stored, in milliseconds; `None`: for ever.
    expiry_max_ms: Option<u64>,
    connections: BTreeMap<String, Connection>,
}

impl Cluster {
    /// A client of the cluster of this directory. It connects to servers when it needs them.
    ///
    /// # Errors
    /// [`ClusterError`]: the directory cannot be read, or has no cluster.
    pub fn connect(location: Location, options: ClusterOptions) -> Result<Self, ClusterError> {
        let directory = location.to_string();
        let follower = Follower::start(location)?;
        let view = follower.view();
        let (ring, expiry_max_ms) = ring(&view, &directory)?;
        Ok(Self {
            follower,
            directory,
            options,
            view,
            ring,
            expiry_max_ms,
            connections: BTreeMap::new(),
        })
    }

    /// The servers that keys belong to, in the order of their names.
    ///
    /// # Errors
    /// [`ClusterError`]: there is no cluster any more.
    pub fn servers(&mut self) -> Result<&[String], ClusterError> {
        self.refresh()?;
        Ok(self.ring.members())
    }

    /// Returns the reason why the directory cannot be followed; `None` if it can. Servers that have
    /// moved since are not found.
    #[must_use]
    pub fn directory_error(&self) -> Option<DirectoryError> {
        self.follower.error()
    }

    /// A value.
    ///
    /// # Errors
    /// [`ClusterError`], here and below.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, ClusterError> {
        Ok(self.get_many(&[key])?.pop().flatten())
    }

    /// Stores a value, for this long, or for ever.
    pub fn set(
        &mut self,
        key: &[u8],
        value: &[u8],
        expiry: Option<Duration>,
    ) -> Result<(), ClusterError> {
        self.set_many(&[(key, value)], expiry)
    }

    /// Removes a key. Returns `true` if it existed.
    pub fn delete(&mut self, key: &[u8]) -> Result<bool, ClusterError> {
        Ok(self.delete_many(&[key])? == 1)
    }

    /// Values in the order of their keys.
    pub fn get_many(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, ClusterError> {
        let requests: Vec<_> = keys.iter().map(|key| (*key, read(&[b"GET", key]))).collect();
        let replies = self.ask(&requests)?.into_iter().zip(keys);
        let values = replies.map(|(reply, key)| match reply {
            Reply::Bytes(value) => Ok(Some(value)),
            Reply::Nil => Ok(None),
            _ => Err(self.unexpected(key)),
        });
        values.collect()
    }

    /// Stores values, each by itself.
    pub fn set_many(
        &mut self,
        pairs: &[(&[u8], &[u8])],
        expiry: Option<Duration>,
    ) -> Result<(), ClusterError> {
        self.refresh()?;
        let wanted_ms = expiry.map(|time| (time.as_millis() as u64).max(1));
        let expiry_ms = wanted_ms.into_iter().chain(self.expiry_max_ms).min();
        let expiry_ms = expiry_ms.map(|ms| ms.to_string());
        let request = |(key, value): &(&'_ [u8], &[u8])| match &expiry_ms {
            None => write(&[b"SET", key, value]),
            Some(ms) => write(&[b"SET", key, value, b"PX", ms.as_bytes()]),
        };
        let requests: Vec<_> = pairs.iter().map(|pair| (pair.0, request(pair))).collect();
        self.ask(&requests).map(|_| ())
    }

    /// Removes keys. Returns the number that existed.
    pub fn delete_many(&mut self, keys: &[&[u8]]) -> Result<u64, ClusterError> {
        let requests: Vec<_> = keys.iter().map(|key| (*key, write(&[b"DEL", key]))).collect();
        let replies = self.ask(&requests)?.into_iter().zip(keys);
        let removed = replies.map(|(reply, key)| match reply {
            Reply::Integer(count @ 0..) => Ok(count as u64),
            _ => Err(self.unexpected(key)),
        });
        removed.sum()
    }

    /// Error: the server of a key has sent an impossible answer.
    fn unexpected(&self, key: &[u8]) -> ClusterError {
        ClusterError::Refused {
            server: self.ring.owner(key).unwrap_or_default().to_owned(),
            message: "it answers something else than was asked".into(),
        }
    }

    /// Executes any command on the server that has `key`; all its keys must belong there, as keys
    /// with the same tag do. It is never sent twice.
    pub fn execute(&mut self, key: &[u8], words: &[&[u8]]) -> Result<Reply, ClusterError> {
        self.refresh()?;
        if self.expiry_max_ms.is_some() {
            return Err(ClusterError::Unsupported);
        }
        let mut replies = self.ask(&[(key, write(words))])?;
        Ok(replies.pop().unwrap_or(Reply::Nil))
    }

    /// Takes over the directory's current state.
    fn refresh(&mut self) -> Result<(), ClusterError> {
        let view = self.follower.view();
        if !Arc::ptr_eq(&view, &self.view) {
            (self.ring, self.expiry_max_ms) = ring(&view, &self.directory)?;
            self.view = view;
        }
        Ok(())
    }

    /// The replies to requests, in order.
    fn ask(&mut self, requests: &[(&[u8], Request)]) -> Result<Vec<Reply>, ClusterError> {
        self.refresh()?;
        let mut groups: BTreeMap<&str, Vec<(usize, &Request)>> = BTreeMap::new();
        for (number, (key, request)) in requests.iter().enumerate() {
            let server = self.ring.owner(key).ok_or(ClusterError::Empty)?;
            groups.entry(server).or_default().push((number, request));
        }
        let mut work: Vec<Work<'_>> = (groups.into_iter())
            .map(|(server, requests)| Work::new(server.to_owned(), Pipeline::new(requests)))
            .collect();
        let mut replies: Vec<Option<Reply>> = requests.iter().map(|_| None).collect();
        while work.iter().any(|one| !one.is_finished()) {
            for one in work.iter_mut().filter(|one| !one.is_finished()) {
                self.send(one);
            }
            for one in work.iter_mut().filter(|one| !one.is_finished()) {
                self.receive(one, &mut replies)?;
            }
        }
        finish(&work, replies)
    }

    fn send(&mut self, work: &mut Work<'_>) {
        if let Err(failure) = self.prepare(&work.server) {
            work.failure = Some(failure);
            return;
        }
        let Some(connection) = self.connections.get_mut(&work.server) else {
            return;
        };
        if let Err(error) = work.pipeline.send(connection) {
            self.lost(work, &error);
        }
    }

    fn receive(
        &mut self,
        work: &mut Work<'_>,
        replies: &mut [Option<Reply>],
    ) -> Result<(), ClusterError> {
        // If there is none, it was lost while requests were sent, and they are sent again.
        if let Some(connection) = self.connections.get_mut(&work.server)
            && let Err(error) = work.pipeline.receive(connection, replies)
        {
            if error.raw_os_error() == Some(INTERRUPTED.raw_os_error()) {
                // Replies may be outstanding on all connections.
                self.connections.clear();
                return Err(ClusterError::Interrupted);
            }
            self.lost(work, &error);
        }
        Ok(())
    }

    /// Handles a lost connection: safe requests are tried again, once.
    fn lost(&mut self, work: &mut Work<'_>, error: &io::Error) {
        self.connections.remove(&work.server);
        let is_safe = !work.was_retried && work.pipeline.start_again();
        work.was_retried = true;
        if !is_safe {
            work.failure = Some(ConnectError::Unreachable(reason(error)));
        }
    }

    /// Makes sure that there is a connection to a server, without outstanding requests.
    fn prepare(&mut self, server: &str) -> Result<(), ConnectError> {
        let protocol = PROTOCOLS[usize::from(self.options.tls.is_some())];
        let address = self.view.address(server, protocol);
        let address = address.map_err(ConnectError::Unreachable)?;
        if let Some(connection) = self.connections.get_mut(server)
            && connection.address == address
            && !connection.is_stale()
        {
            return Ok(());
        }
        let connection = Connection::open(server, address, &self.options)?;
        self.connections.insert(server.to_owned(), connection);
        Ok(())
    }
}

/// Requests for one server, and their state.
struct Work<'r> {
    server: String,
    pipeline: Pipeline<'r>,
    was_retried: bool,
    failure: Option<ConnectError>,
}

impl<'r> Work<'r> {
    fn new(server: String, pipeline: Pipeline<'r>) -> Self {
        Self { server, pipeline, was_retried: false, failure: None }
    }

    fn is_finished(&self) -> bool {
        self.failure.is_some() || self.pipeline.is_done()
    }
}

/// The ring of a cluster, and how long its values are stored at most.
fn ring(view: &View, directory: &str) -> Result<(Ring, Option<u64>), ClusterError> {
    match &view.membership {
        None => Err(ClusterError::NoCluster { directory: directory.to_owned() }),
        Some(Membership::Fixed(members)) => {
            Ok((Ring::new(members.iter().map(String::as_str)), None))
        }
        Some(Membership::Registered { expiry_s }) => {
            let is_spoken = |one: &&Endpoint| PROTOCOLS.contains(&&*one.protocol);
            let endpoints = view.endpoints.iter().filter(is_spoken);
            match endpoints.clone().find(|one| one.semantics != "cache") {
                Some(store) => Err(ClusterError::NotCache { server: store.server.clone() }),
                // The same for all clients, whether by TLS or not.
                None => Ok((Ring::new(endpoints.map(|one| &*one.server)), Some(expiry_s * 1000))),
            }
        }
    }
}

/// All replies, or the error.
fn finish(work: &[Work<'_>], replies: Vec<Option<Reply>>) -> Result<Vec<Reply>, ClusterError> {
    let mut servers = Vec::new();
    for one in work {
        match &one.failure {
            None => {}
            Some(ConnectError::Refused(message)) => {
                return Err(ClusterError::Refused {
                    server: one.server.clone(),
                    message: message.clone(),
                });
            }
            Some(ConnectError::Unreachable(reason)) => servers.push(ServerFailure {
                server: one.server.clone(),
                reason: reason.clone(),
                requests: one.pipeline.unanswered(),
                may_be_executed: one.pipeline.may_be_executed(),
            }),
        }
    }
    if !servers.is_empty() {
        return Err(ClusterError::Unreachable { servers });
    }
    for one in work {
        for number in one.pipeline.numbers() {
            if let Some(Reply::Error(message)) = &replies[number] {
                return Err(ClusterError::Refused {
                    server: one.server.clone(),
                    message: message.clone(),
                });
            }
        }
    }
    Ok(replies.into_iter().flatten().collect())
}

fn read(words: &[&[u8]]) -> Request {
    made(words, true)
}

fn write(words: &[&[u8]]) -> Request {
    made(words, false)
}

fn made(words: &[&[u8]], is_read: bool) -> Request {
    let mut bytes = Vec::new();
    command(words, &mut bytes);
    Request { bytes, is_read }
}
