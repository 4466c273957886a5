//! What a server is started with.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Password;
use crate::Design;
use crate::directory::RegistrationStatus;
use crate::ethernet::PortSettings;
use crate::herd::Place;

/// How a server serves.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where clients connect in the clear. Port 0 takes any.
    pub tcp: Vec<SocketAddr>,
    /// Where they connect by TLS, and with which certificates.
    pub tls: Option<(Vec<SocketAddr>, Arc<rustls::ServerConfig>)>,
    /// Where clients of memcached connect, in the clear and without a password.
    pub memcached: Vec<SocketAddr>,
    /// Where datagrams are answered, without a password: to clients of this machine.
    pub datagram: Vec<SocketAddr>,
    /// Where clients come that write their requests into a polled region (HERD's pairing); by an address
    /// those alone that know the password.
    pub herd: Option<Place>,
    /// Where clients of memcached send datagrams, without a password: clients of this machine.
    pub memcached_udp: Vec<SocketAddr>,
    /// A port that DPDK drives: addresses of datagrams that are its own are served there.
    pub port: Option<PortSettings>,
    /// Whoever can send frames to the port may use the store without a password.
    pub trusts_port: bool,
    /// Receive descriptors of each socket for datagrams, and each queue of the port; 0: as many as the system allows.
    pub rx_queue: usize,
    /// How datagrams arrive at the worker of their partition; [`Steering::Ports`] asks for that alone. A
    /// server that listens says what it does.
    pub steering: Steering,
    /// A socket in the file system, for this user only.
    pub unix: Option<PathBuf>,
    /// Where metrics are read, by anybody.
    pub metrics: Option<SocketAddr>,
    /// What clients must know; `None`: nothing.
    pub password: Option<Password>,
    /// What clients may take.
    pub limits: Limits,
    /// How sockets are waited for, received from and sent to.
    pub driver: DriverKind,
    /// Never sleeps: a core is busy all the time, and answers come sooner.
    pub busy_poll: bool,
    /// Workers, each with a thread and a part of the keys; 0 is 1.
    pub workers: usize,
    /// The cores that they stay on, in order; where there is none, anywhere.
    pub cores: Vec<usize>,
    /// How long clients have for what is theirs when the server ends.
    pub drain: Duration,
    /// Drops keys when memory is full, instead of refusing writes.
    pub is_cache: bool,
    /// Replies of a batch leave before the next one is parsed, instead of those of a turn together.
    pub sends_early: bool,
    /// Where the engines run, for those who ask.
    pub design: Design,
    /// Its name in a directory, if it has one: clients make sure that this is the server that they want.
    pub name: Option<String>,
    /// How its registration there does, for those who ask.
    pub registration: Option<Arc<RegistrationStatus>>,
}

impl Settings {
    /// Whether there are datagrams.
    #[must_use]
    pub fn has_datagrams(&self) -> bool {
        !(self.datagram.is_empty() && self.memcached_udp.is_empty()) || self.herd.is_some()
    }

    /// Whether an address is that of the port which DPDK drives.
    #[must_use]
    pub fn is_of_port(&self, address: &SocketAddr) -> bool {
        (self.port.as_ref()).is_some_and(|port| address.ip() == IpAddr::V4(port.address))
    }
}

/// How sockets are waited for, received from and sent to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriverKind {
    /// A system call to wait, and one for each receive and send: epoll(7).
    #[default]
    Epoll,
    /// One call to wait and receive, and one to send: io_uring(7) of Linux 6.1 or later.
    IoUring,
    /// Datagrams by a port that DPDK polls, without the kernel; sockets as [`DriverKind::Epoll`].
    Dpdk,
}

impl DriverKind {
    /// Memory of each thread that serves, beside that of connections: the buffers that the kernel fills.
    #[must_use]
    pub fn memory_bytes(self) -> u64 {
        super::driver::Driver::memory_bytes(self)
    }

    /// Its name, as in `INFO`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Epoll => "epoll",
            Self::IoUring => "io_uring",
            Self::Dpdk => "dpdk",
        }
    }
}

/// How datagrams arrive at the worker that has their keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Steering {
    /// Not at all: there is one worker, or there are no datagrams.
    #[default]
    None,
    /// By a program in the kernel, which looks at the partition in their header; by ports too.
    Bpf,
    /// By ports: each worker has one.
    Ports,
    /// By rules of the network card (rte_flow): each worker has a port.
    RteFlow,
    /// By the workers themselves: whoever receives a datagram hands it to the one that has its partition.
    Software,
}

impl Steering {
    /// Its name, as in `INFO`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Bpf => "bpf",
            Self::Ports => "ports",
            Self::RteFlow => "rte_flow",
            Self::Software => "software",
        }
    }
}

/// What clients may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time.
    pub clients: usize,
    /// Those of them that have not authenticated where they must. For one more, the oldest goes.
    pub unauthenticated: usize,
    /// Time to authenticate, and for the handshake of TLS.
    pub authentication: Duration,
    /// Memory of all connections in bytes. Beyond it the one that holds most is closed.
    pub memory_bytes: usize,
    /// How long output may wait for a client that takes none of it.
    pub stall: Duration,
    /// How long a client may say nothing; zero: for ever.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 10_000,
            unauthenticated: 1_000,
            authentication: Duration::from_secs(10),
            memory_bytes: 256 << 20,
            stall: Duration::from_secs(60),
            idle: Duration::ZERO,
        }
    }
}
