//! Queue pairs over TCP: one connection each, and one beside them.
//!
//! Reads and writes are done by the peer's program, but not by its owner's threads: where the owner
//! of a queue pair does not come by, a service thread of the endpoint answers. So `read` and
//! `write` are one-sided in what they ask of the peer's program, and not in what they cost its
//! processor; [`Endpoint::cpu_time`](crate::verbs::Endpoint::cpu_time) says how much.
//!
//! Nothing is encrypted and nobody is asked who they are: whoever reaches the port can become the
//! peer, and reads what is exported to it, unless a [`Secret`] keeps strangers out. It is meant for loopback and for networks of one's own.

mod connect;
pub(crate) mod core;
mod engine;
pub mod frame;
mod incoming;
mod outgoing;
mod socket;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use crate::control::Door;
use crate::control::channel::Manners;
use crate::control::frame::Carrier;
use crate::network::{NetworkEndpoint, delegate_endpoint};
use crate::secret::Secret;
use crate::verbs::{ConnectError, LinkConfig};

/// The transport's name.
pub(crate) const NAME: &str = "tcp";

/// How long an end waits for a sign of life of the other, unless told otherwise.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// One end of a link over TCP.
pub struct TcpEndpoint(NetworkEndpoint<engine::TcpEngine>);

delegate_endpoint!(TcpEndpoint);

/// An address where a peer can connect.
pub struct Listener {
    door: Door,
    manners: Manners,
}

impl Listener {
    /// Listens. Port 0 is a free one.
    ///
    /// # Errors
    /// [`ConnectError::System`].
    pub fn bind(address: SocketAddr) -> Result<Self, ConnectError> {
        Ok(Self {
            door: Door::bind(address)?,
            manners: manners(PATIENCE, None),
        })
    }

    /// Waits as long as this for a sign of life of a peer before it is taken for gone; at least 0.1
    /// and at most 600 seconds.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.manners.patience = patience;
        self
    }

    /// Turns away whoever does not know this.
    #[must_use]
    pub fn secret(mut self, secret: Secret) -> Self {
        self.manners.secret = Some(secret);
        self
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.door.address()
    }

    /// The link with the next peer that connects. Who connects and does not speak the protocol is
    /// turned away.
    ///
    /// # Errors
    /// [`ConnectError`]; if nobody came but somebody was turned away, why.
    pub fn accept(
        &self,
        config: &LinkConfig,
        deadline: Instant,
    ) -> Result<TcpEndpoint, ConnectError> {
        connect::accept(&self.door, config, &self.manners, deadline)
    }
}

/// The link with a peer that listens.
///
/// # Errors
/// [`ConnectError`].
pub fn connect(
    address: SocketAddr,
    config: &LinkConfig,
    deadline: Instant,
) -> Result<TcpEndpoint, ConnectError> {
    connect_with(address, config, PATIENCE, deadline)
}

/// As [`connect`], waiting as long as `patience`, at least 0.1 and at most 600 seconds, for a sign of
/// life of the peer before it is taken for gone.
///
/// # Errors
/// [`ConnectError`].
pub fn connect_with(
    address: SocketAddr,
    config: &LinkConfig,
    patience: Duration,
    deadline: Instant,
) -> Result<TcpEndpoint, ConnectError> {
    connect::connect(address, config, &manners(patience, None), deadline)
}

/// As [`connect`], where the peer asks for a secret.
///
/// # Errors
/// [`ConnectError`].
pub fn connect_with_secret(
    address: SocketAddr,
    config: &LinkConfig,
    secret: Secret,
    deadline: Instant,
) -> Result<TcpEndpoint, ConnectError> {
    connect::connect(address, config, &manners(PATIENCE, Some(secret)), deadline)
}

fn manners(patience: Duration, secret: Option<Secret>) -> Manners {
    Manners {
        carrier: CARRIER,
        patience,
        secret,
    }
}

/// Both ends of a link within this process, over loopback. The first is the one that listened.
///
/// # Errors
/// [`ConnectError`].
pub fn pair(
    listening: &LinkConfig,
    connecting: &LinkConfig,
) -> Result<(TcpEndpoint, TcpEndpoint), ConnectError> {
    let listener = Listener::bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let deadline = Instant::now() + Duration::from_secs(10);
    std::thread::scope(|scope| {
        let accepting = scope.spawn(|| listener.accept(listening, deadline));
        let connected = connect(listener.address(), connecting, deadline);
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

/// What a handshake is about.
const CARRIER: Carrier = Carrier::Tcp;
