//! TCP and UDP between two ends: round trips with a real queue depth, streams, and streams at a given
//! rate with one-way delays, every message checked.
//!
//! [`Receiver`] answers: it echoes round trips, or discards and checks streams. [`Client`] sends
//! and measures. The runner of the test makes a secret, gives the receiver the [`Load`] and the
//! client the [`Plan`]:
//!
//! ```text
//!   client                                              receiver
//!   reports   greeting: secret                   ->     one connection for reports
//!   data      greeting: secret, which connection ->     handed to one of its threads
//!             messages                           <->    echoed whole, or checked and counted
//!   reports   received so far?                   ->
//!             bytes a connection, wrong messages, CPU time, clock <-
//! ```
//!
//! The client decides when to start and stop. Nothing is encrypted. A receiver accepts the connections of
//! one test from clients that know the secret. [`remote`] is an end that an agent plays for a host.
//!
//! A stream with a rate is *paced*: `arrivals` has its receiver's records, `clock_offset` the relation of
//! the two clocks. Its messages may be sent by UDP; each connection then has an additional TCP connection,
//! which carries only the greeting.

mod arrivals;
mod client;
mod clock_offset;
mod connection;
mod event_loop;
mod group;
mod paced;
mod pass;
mod pattern;
mod receiver;
pub mod remote;
mod round_trips;
mod schedule;
mod session;
mod streams;
mod thread_setup;
mod wire;

pub use client::{Client, Interrupter};
pub use clock_offset::{ClockOffset, ClockRelation, Echo};
pub use pass::{Limit, OneWay, Pass, Slice};
pub use receiver::{Receiver, ReceiverConfig};
pub use thread_setup::machine;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use overside_link::Secret;
use serde::{Deserialize, Serialize};

use crate::bounds::{OutOfRange, cores_within, within};
use crate::closed_loop::CompletionMode;
use schedule::Intervals;

/// The longest message in bytes.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Maximum number of connections of one test.
pub const CONNECTIONS_MAX: usize = 1024;
/// Maximum number of threads of one end.
pub const THREADS_MAX: usize = 64;
/// Maximum number of messages outstanding on one connection, and the most in one write.
pub const DEPTH_MAX: usize = 4096;
/// Memory counted for one connection's incoming data, in bytes, in addition to the system's
/// buffers; twice the message length if that is more.
const INCOMING_BYTES: usize = 256 << 10;
/// Memory counted for one thread, in bytes.
const THREAD_BYTES: usize = 256 << 10;
/// Maximum number of bytes of messages that the connections of one test collect, or write at once.
pub const SESSION_BYTES_MAX: usize = 1 << 30;
/// Maximum number of messages per second.
pub const RATE_MAX: f64 = 1e7;
/// Maximum size in bytes of a socket's buffer.
pub const SOCKET_BUFFER_MAX: usize = 1 << 30;
/// The longest and the shortest message that goes by UDP: the limit of a datagram of IPv4, and room
/// for its number twice.
pub const DATAGRAM_BYTES_MAX: usize = 65_507;
const DATAGRAM_BYTES_MIN: usize = 16;
/// Maximum number of messages of one paced pass: the receiver keeps when each came.
pub const PACED_MESSAGES_MAX: u64 = 1 << 24;
/// Maximum number of slices of a pass.
pub const SLICES_MAX: usize = 100_000;
/// Maximum number of slices of a pass that one machine sends another.
const SLICES_SENT_MAX: usize = 4000;

/// Traffic pattern on the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// Each message comes back.
    #[serde(alias = "round-trip")]
    RoundTrips,
    /// Messages go one way, as many as the connection takes.
    Stream,
}

/// Transport protocol that carries the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// A byte stream: nothing is lost, messages that come too fast wait at the sender.
    #[default]
    Tcp,
    /// A datagram each: messages that come too fast are lost. For paced streams.
    Udp,
}

/// Machine that an end represents by its own account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A host.
    #[default]
    Host,
    /// A DPU: its cores' time goes to another ledger.
    Dpu,
}

/// Traffic on the connections of a test, as both ends must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Traffic pattern on the connections: round trips or a stream.
    pub traffic: Traffic,
    /// One message in bytes; 1 to [`MESSAGE_BYTES_MAX`].
    pub message_bytes: usize,
    /// Data connections; 1 to [`CONNECTIONS_MAX`].
    pub connections: usize,
    /// Threads of either end; 1 to [`THREADS_MAX`], and not more than connections.
    pub threads: usize,
    /// Method by which both ends wait: by events or by polling.
    pub waiting: CompletionMode,
    /// Requested size of the sockets' buffers, in bytes; the system decides if `None`.
    pub socket_buffer: Option<usize>,
    /// Makes the content of the messages.
    pub seed: u64,
    /// Transport protocol that carries the messages.
    #[serde(default, skip_serializing_if = "is_tcp")]
    pub protocol: Protocol,
    /// Maximum number of messages of one pass of a paced stream, over all connections; at most
    /// [`PACED_MESSAGES_MAX`]. The receiver keeps the arrival time of each. `None` for other
    /// traffic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paced_messages: Option<u64>,
}

fn is_tcp(protocol: &Protocol) -> bool {
    *protocol == Protocol::Tcp
}

/// Plan of a client: its server, its traffic and its threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The receiver.
    pub destination: SocketAddr,
    /// Secret that the receiver expects.
    pub secret: Secret,
    /// Traffic on the connections, which both ends know.
    pub load: Load,
    /// Messages outstanding on a connection, for round trips; 1 to [`DEPTH_MAX`].
    pub depth: usize,
    /// Maximum number of messages in one write; 1 to [`DEPTH_MAX`].
    pub batch: usize,
    /// Messages a second over all connections, at even distances. Without it each end goes as fast
    /// as it can. With it a stream is paced, and its load has the number of messages.
    pub rate_per_s: Option<f64>,
    /// The cores that the client's threads are pinned to, one after the other.
    pub cores: Option<Vec<usize>>,
    /// The network namespace that the connections are made in, as a file of it. Of this machine, so
    /// it is not sent.
    #[serde(skip)]
    pub namespace: Option<PathBuf>,
    /// Length of the time slices of a pass; without it there are none.
    pub slice: Option<Duration>,
    /// The processor's events are counted on the client's threads.
    #[serde(default)]
    pub events: bool,
}

/// Reason why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value out of its bounds.
    #[error(transparent)]
    Bound(#[from] OutOfRange),
    /// No program answers at the address.
    #[error(
        "{address} cannot be reached: {source}; does something between the two machines let only some \
         ports through?"
    )]
    Unreachable {
        /// The address.
        address: SocketAddr,
        /// Error that the system reports.
        source: io::Error,
    },
    /// The program that answers at the address is something else, or does not take part in this
    /// test.
    #[error("what answers at {address} is not the other end of this test")]
    Stranger {
        /// The address.
        address: SocketAddr,
    },
    /// Received bytes are not those that were sent.
    #[error("{0}")]
    Wrong(String),
    /// The other end went away.
    #[error("the other end closed the connection")]
    Closed,
    /// The time was over.
    #[error("{0} when the time was over")]
    Timeout(String),
    /// A namespace, a core, an address or a descriptor is not available.
    #[error("{what}: {source}")]
    System {
        /// Action or resource that failed.
        what: String,
        /// Error that the system reports.
        source: io::Error,
    },
}

impl Error {
    fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}

impl Load {
    /// Checks that every number lies within its bounds.
    ///
    /// # Errors
    /// [`Error::Bound`] for the first that does not.
    pub fn check(&self) -> Result<(), Error> {
        within("message_bytes", self.message_bytes, 1, MESSAGE_BYTES_MAX)?;
        within("connections", self.connections, 1, CONNECTIONS_MAX)?;
        let what = "connections * message_size";
        within(what, self.bytes_together(), 1, SESSION_BYTES_MAX)?;
        let threads_most = THREADS_MAX.min(self.connections);
        within("threads", self.threads, 1, threads_most)?;
        let buffer = self.socket_buffer.unwrap_or(SOCKET_BUFFER_MAX);
        within("socket_buffer", buffer, 1, SOCKET_BUFFER_MAX)?;
        if self.protocol == Protocol::Udp {
            let bytes = self.message_bytes;
            within("message_bytes", bytes, DATAGRAM_BYTES_MIN, DATAGRAM_BYTES_MAX)?;
        }
        if let Some(messages) = self.paced_messages {
            let field = "the number of messages of one sample (rate * sample_s)";
            within(field, messages, 1, PACED_MESSAGES_MAX)?;
        }
        let is_paced = self.paced_messages.is_some();
        let only = |given: bool, field, allowed: &str| match given {
            true => Err(OutOfRange::new(field, "given", allowed)),
            false => Ok(()),
        };
        let streams = self.traffic == Traffic::Stream;
        only(is_paced && !streams, "paced_messages", "given only for streams")?;
        let udp = self.protocol == Protocol::Udp && !is_paced;
        Ok(only(udp, "protocol udp", "given only for streams with a rate")?)
    }

    /// A stream at a given rate.
    fn is_paced(&self) -> bool {
        self.paced_messages.is_some()
    }

    /// Returns the largest amount of memory that an end uses, in bytes: for the incoming data of
    /// each connection, the arrival times, and its threads.
    fn memory_bytes(&self) -> u64 {
        let incoming = (2 * self.message_bytes).max(INCOMING_BYTES);
        let arrivals = 8 * self.paced_messages.unwrap_or(0);
        (self.connections * incoming + self.threads * THREAD_BYTES) as u64 + arrivals
    }

    /// Bytes of one message on each connection.
    fn bytes_together(&self) -> usize {
        self.connections * self.message_bytes
    }
}

impl Plan {
    /// Returns the largest amount of memory that a client uses, in bytes: that of either end, the
    /// data of one write, and the slices that it reports of a pass.
    fn memory_bytes(&self) -> u64 {
        let outgoing = (self.batch + 1) * self.load.bytes_together();
        let told = self.load.threads * SLICES_MAX * std::mem::size_of::<Slice>();
        self.load.memory_bytes() + (outgoing + told) as u64
    }

    /// The distances between messages.
    fn intervals(&self) -> Intervals {
        Intervals::of(self.rate_per_s, self.load.connections)
    }

    /// Checks that every number lies within its bounds.
    ///
    /// # Errors
    /// [`Error::Bound`] for the first that does not.
    pub fn check(&self) -> Result<(), Error> {
        self.load.check()?;
        within("depth", self.depth, 1, DEPTH_MAX)?;
        let batch_most = DEPTH_MAX.min(SESSION_BYTES_MAX / self.load.bytes_together());
        within("batch", self.batch, 1, batch_most)?;
        if let Some(rate) = self.rate_per_s {
            within("rate_per_s", rate, 1e-3, RATE_MAX)?;
        }
        let streams = self.load.traffic == Traffic::Stream;
        if streams && self.rate_per_s.is_some() != self.load.is_paced() {
            let field = "rate_per_s of a stream";
            return Err(OutOfRange::new(field, "alone", "given with paced_messages").into());
        }
        if self.load.protocol == Protocol::Udp {
            within("batch", self.batch, 1, 1)?;
        }
        Ok(cores_within(self.cores.as_deref())?)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
