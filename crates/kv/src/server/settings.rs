//! What a server is started with.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Addresses, Password, Protection};
use crate::Design;
use crate::directory::RegistrationStatus;

/// How a server serves.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Where clients come.
    pub addresses: Addresses,
    /// Certificates of the server, where there are addresses for TLS, and whether clients need some.
    pub tls: Option<Tls>,
    /// Whoever can send frames to the port may use the store without a password.
    pub trusts_port: bool,
    /// Receive descriptors of each socket for datagrams, and each queue of the port; 0: as many as the system allows.
    pub rx_queue: usize,
    /// How datagrams arrive at the worker of their partition; [`Steering::Ports`] asks for that alone. A
    /// server that listens says what it does.
    pub steering: Steering,
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

/// What a server proves itself with by TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Its certificates, and those that it asks clients for.
    pub config: Arc<rustls::ServerConfig>,
    /// It asks them for some.
    pub requires_certificates: bool,
}

impl Settings {
    /// What keeps others out.
    #[must_use]
    pub fn protection(&self) -> Protection {
        Protection {
            has_password: self.password.is_some(),
            requires_certificates: (self.tls.as_ref()).is_some_and(|tls| tls.requires_certificates),
            trusts_port: self.trusts_port,
        }
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
