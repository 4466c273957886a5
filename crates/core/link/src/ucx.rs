//! Queue pairs over RDMA, or between machines without it, through UCX.
//!
//! UCX chooses the transport: a network card's if there is one, otherwise shared memory or TCP, so
//! it can be tried on any machine. Its shim is a separate shared library that is loaded when a link
//! is opened; nothing else of Overside needs it.
//!
//! A write is complete once a flush that began after it has ended: then its bytes are in the peer's
//! memory. Transports without hardware may need the peer's program for that; its endpoint has a
//! service thread for this.
//!
//! UCX trusts its peers, and its shared-memory transports let them access this process by address:
//! the peer must be one's own program. Only the handshake is checked.

mod arrived;
mod buffer;
mod connect;
mod context;
mod control;
mod credit;
mod describe;
mod endpoint;
mod engine;
mod environment;
mod exports;
mod keys;
mod pair;
mod queue_pair;
mod service;
mod shim;

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

pub use endpoint::UcxEndpoint;
use overside_shim::Shim;
use serde::{Deserialize, Serialize};

use crate::secret::Secret;
use crate::verbs::{ConnectError, LinkConfig};

/// Returns the shim that connects this crate to UCX.
pub fn shim() -> &'static Shim {
    &shim::SHIM
}

/// The transport's name.
pub(crate) const NAME: &str = "rdma";

/// Time that an end waits for a sign of life of its peer, by default.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);

/// Transports of UCX's that can be chosen by name, as in `UCX_TLS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// TCP through the systems of both ends, without encryption.
    Tcp,
    /// All kinds of shared memory.
    Sm,
    /// Reliable connections of RDMA hardware.
    Rc,
    /// Unreliable datagrams of RDMA hardware.
    Ud,
    /// Dynamic connections of RDMA hardware.
    Dc,
}

impl Transport {
    /// All transports.
    pub const ALL: [Self; 5] = [Self::Tcp, Self::Sm, Self::Rc, Self::Ud, Self::Dc];

    /// Returns the name that UCX uses for the transport.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Sm => "sm",
            Self::Rc => "rc",
            Self::Ud => "ud",
            Self::Dc => "dc",
        }
    }

    /// The transport of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// Options for the use of UCX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UcxOptions {
    /// Transports that UCX may use, as in `UCX_TLS`: `rc,self`, or `posix,cma,self`. `None`: those
    /// that this variable names, or all.
    pub transports: Option<String>,
    /// Network devices that UCX may use, as in `UCX_NET_DEVICES`: `mlx5_0:1`. `None`: those that
    /// this variable names, or all.
    pub devices: Option<String>,
    /// Time to wait for a sign of life of the peer before it counts as gone; at least 0.1 and at
    /// most 600 seconds.
    pub peer_timeout: Duration,
    /// Secret that the connecting end sends and the listening end requires; `None` if there is
    /// none.
    pub secret: Option<Secret>,
}

impl Default for UcxOptions {
    fn default() -> Self {
        Self { transports: None, devices: None, peer_timeout: PEER_TIMEOUT, secret: None }
    }
}

impl UcxOptions {
    /// Returns options for that transport, and UCX's own for traffic within a worker; `None` selects the
    /// transports of `UCX_TLS`.
    pub fn over(transport: Option<Transport>) -> Self {
        Self { transports: transport.map(|one| format!("{},self", one.name())), ..Self::default() }
    }
}

/// The version of UCX that would be used; loads it.
///
/// # Errors
/// [`ConnectError::Unavailable`] names the missing library, and how to get it.
pub fn version() -> Result<String, ConnectError> {
    shim::Shim::get().map(shim::Shim::version)
}

/// An address where a peer can connect: workers find each other over a TCP connection to it.
pub struct Listener {
    control: control::Listener,
    options: UcxOptions,
}

impl Listener {
    /// Listens. Port 0 is a free one.
    ///
    /// # Errors
    /// [`ConnectError::System`].
    pub fn bind(address: SocketAddr, options: UcxOptions) -> Result<Self, ConnectError> {
        Ok(Self { control: control::Listener::bind(address)?, options })
    }

    /// Returns the address that this listens at.
    pub fn address(&self) -> SocketAddr {
        self.control.address()
    }

    /// The link with the next peer that connects. A peer that does not speak the protocol is
    /// refused.
    ///
    /// # Errors
    /// [`ConnectError`]; if no peer was accepted but one was refused, the reason.
    pub fn accept(
        &self,
        config: &LinkConfig,
        deadline: Instant,
    ) -> Result<UcxEndpoint, ConnectError> {
        connect::accept(&self.control, config, &self.options, deadline)
    }
}

/// Readable when a peer connects.
impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }
}

/// The link with a peer that listens.
///
/// # Errors
/// [`ConnectError`].
pub fn connect(
    address: SocketAddr,
    config: &LinkConfig,
    options: &UcxOptions,
    deadline: Instant,
) -> Result<UcxEndpoint, ConnectError> {
    connect::connect(address, config, options, deadline)
}

/// Both ends of a link within this process. The first is the one that listened.
///
/// # Errors
/// [`ConnectError`].
pub fn pair(
    listening: &LinkConfig,
    connecting: &LinkConfig,
    options: &UcxOptions,
) -> Result<(UcxEndpoint, UcxEndpoint), ConnectError> {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into(), options.clone())?;
    let deadline = Instant::now() + Duration::from_secs(10);
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept(listening, deadline));
        let connected = connect(listener.address(), connecting, options, deadline);
        let accepted = accepting.join().expect("accepting does not panic");
        // Where both fail, the one that gave up first says why.
        match (accepted, connected) {
            (Ok(accepted), Ok(connected)) => Ok((accepted, connected)),
            (Err(ConnectError::System { .. }), Err(error)) | (Err(error), _) | (_, Err(error)) => {
                Err(error)
            }
        }
    })
}
