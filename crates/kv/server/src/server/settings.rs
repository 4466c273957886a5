//! Settings with which a server is started.

use std::sync::Arc;
use std::time::Duration;

use super::{Addresses, Password, Protection};
use crate::cluster::ClusterState;
use crate::directory::RegistrationStatus;

/// Settings of a server: addresses, access, limits and threads.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Addresses where clients connect or send datagrams.
    pub addresses: Addresses,
    /// Certificates of the server, where there are addresses for TLS, and whether clients need some.
    pub tls: Option<Tls>,
    /// `true` if every sender that can reach the port may use the store without a password.
    pub trusts_port: bool,
    /// Receive descriptors of each socket for datagrams, and each queue of the port; 0: as many as the system allows.
    pub rx_queue: usize,
    /// Means by which datagrams reach the worker of their partition. [`Steering::Ports`] only allows ports. A
    /// listening server sets it to the means that it uses.
    pub steering: Steering,
    /// Password that clients must send; `None` if they need none.
    pub password: Option<Password>,
    /// Limits on the resources of clients.
    pub limits: Limits,
    /// Never sleeps: a core is busy all the time, and answers come sooner.
    pub busy_poll: bool,
    /// Workers, each with a thread and a part of the keys; 0 is 1.
    pub workers: usize,
    /// Cores to which the workers are pinned, in order; none if empty.
    pub cores: Vec<usize>,
    /// Longest time for which a server that ends still serves the clients that are connected.
    pub drain: Duration,
    /// Drops keys when memory is full, instead of refusing writes.
    pub is_cache: bool,
    /// Replies of a batch leave before the next one is parsed, instead of those of a turn together.
    pub sends_early: bool,
    /// Name of the design, only reported in `INFO`; `None`: both engines are here.
    pub design: Option<&'static str>,
    /// Name of the server in a directory, if it has one. Clients compare it to be sure that this is
    /// the server that they want.
    pub name: Option<String>,
    /// State of the registration in that directory, which is only reported.
    pub registration: Option<Arc<RegistrationStatus>>,
    /// Cluster whose slots the server serves; `None` if it serves all keys.
    pub cluster: Option<Arc<ClusterState>>,
}

/// Certificates by which a server proves its identity with TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Certificates of the server, and rules for those of clients.
    pub config: Arc<rustls::ServerConfig>,
    /// `true` if the server requires certificates of its clients.
    pub requires_certificates: bool,
}

impl Settings {
    /// Returns the measures that keep unauthorized clients from using the store.
    #[must_use]
    pub fn protection(&self) -> Protection {
        Protection {
            has_password: self.password.is_some(),
            requires_certificates: (self.tls.as_ref()).is_some_and(|tls| tls.requires_certificates),
            trusts_port: self.trusts_port,
        }
    }
}

/// Means by which datagrams reach the worker that has their keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Steering {
    /// No steering: there is one worker, or there are no datagrams.
    #[default]
    None,
    /// A program in the kernel, which reads the partition in their header; and ports.
    Bpf,
    /// Ports: each worker has one.
    Ports,
    /// Rules of the network card (rte_flow): each worker has a port.
    RteFlow,
    /// The workers: one that receives a datagram passes it to the one with its partition.
    Software,
}

// As in `INFO`.
overside_base::words! {
    Steering;
    None "none", Bpf "bpf", Ports "ports", RteFlow "rte_flow", Software "software",
}

/// Limits on the resources of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time.
    pub clients: usize,
    /// Connections that must authenticate and have not. For one more, the oldest of them is closed.
    pub unauthenticated: usize,
    /// Time to authenticate, and for the handshake of TLS.
    pub authentication: Duration,
    /// Memory of all connections in bytes. Beyond it the one that holds most is closed.
    pub memory_bytes: usize,
    /// Longest time for which output waits for a client that takes none of it.
    pub stall: Duration,
    /// Longest time for which a client may send nothing; zero for no limit.
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
