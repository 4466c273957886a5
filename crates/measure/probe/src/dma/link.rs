//! Links that two programs make for one test: one listens where it can be reached, the other
//! connects with the secret that it got.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use overside_link::Secret;
use overside_link::shm::{self, EngineOptions, ShmOptions};
use overside_link::ucx::{self, Transport, UcxOptions};
use overside_link::verbs::{ConnectError, Endpoint, LinkConfig};
use serde::{Deserialize, Serialize};

use crate::failure::{Failure, FailureKind};

/// A kind of link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Link {
    /// Shared memory: both programs are this machine's, and the same user's.
    Shm,
    /// UCX, by the transports of its configuration, or by one.
    Ucx,
}

impl Link {
    /// All links.
    pub const ALL: [Self; 2] = [Self::Shm, Self::Ucx];

    /// Returns the name that boxes use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Ucx => "ucx",
        }
    }

    /// The link of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|link| link.name() == name)
    }
}

/// Thread that moves the bytes requested at this end; shared memory only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyEngine {
    /// The core that its thread is pinned to.
    pub core: Option<usize>,
}

/// Address of a listening end, and the secret that it expects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// Port of its machine, at the address where that is reached.
    Port {
        /// The port.
        port: u16,
        /// Secret that the listener expects from the peer.
        secret: Secret,
    },
    /// Socket of its machine.
    Path(PathBuf),
}

/// Listener for one peer.
pub enum LinkListener {
    /// Listener at a socket of this machine.
    Shm(shm::Listener, ShmOptions),
    /// Listener at a port.
    Ucx(ucx::Listener),
}

impl LinkListener {
    /// Listens at a free port of `here`'s address, or at a socket of its own.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn begin(
        link: Link,
        mut here: SocketAddr,
        engine: Option<CopyEngine>,
        transport: Option<Transport>,
    ) -> Result<(Self, Reach), Failure> {
        here.set_port(0);
        let secret = Secret::random();
        let secret = secret.map_err(|error| Failure::new(FailureKind::Job, error.to_string()))?;
        match link {
            Link::Shm => {
                // The name is a secret as well, though the listener only lets its user in.
                let name = format!("overside-{}", secret.to_hex());
                let path = std::env::temp_dir().join(name);
                let listener = shm::Listener::bind(&path)?;
                Ok((Self::Shm(listener, options(engine)), Reach::Path(path)))
            }
            Link::Ucx => {
                // Missing UCX is reported before a peer connects.
                ucx::version()?;
                let options = UcxOptions { secret: Some(secret), ..UcxOptions::over(transport) };
                let listener = ucx::Listener::bind(here, options)?;
                let port = listener.address().port();
                Ok((Self::Ucx(listener), Reach::Port { port, secret }))
            }
        }
    }

    /// Waits for the peer.
    ///
    /// # Errors
    /// [`ConnectError`]; also if no peer comes before the deadline.
    pub fn accept(
        &self,
        config: &LinkConfig,
        deadline: Instant,
    ) -> Result<Arc<dyn Endpoint>, ConnectError> {
        Ok(match self {
            Self::Shm(listener, options) => Arc::new(listener.accept(config, options, deadline)?),
            Self::Ucx(listener) => Arc::new(listener.accept(config, deadline)?),
        })
    }
}

/// Connects with a peer that listens on the machine `there`.
///
/// # Errors
/// [`Failure`]; [`FailureKind::Unsupported`] if the link does not work between the two machines.
pub fn dial(
    link: Link,
    reach: &Reach,
    there: SocketAddr,
    engine: Option<CopyEngine>,
    transport: Option<Transport>,
    config: &LinkConfig,
    deadline: Instant,
) -> Result<Arc<dyn Endpoint>, Failure> {
    match (link, reach) {
        (Link::Shm, Reach::Path(path)) => {
            if !there.ip().to_canonical().is_loopback() {
                let message = "memory is shared only with agents of this machine; use ucx";
                return Err(Failure::unsupported(message));
            }
            let end = shm::connect(path, config, &options(engine), deadline);
            Ok(Arc::new(end.map_err(not_shared)?))
        }
        (Link::Ucx, Reach::Port { port, secret }) => {
            let mut address = there;
            address.set_port(*port);
            let options = UcxOptions { secret: Some(*secret), ..UcxOptions::over(transport) };
            Ok(Arc::new(ucx::connect(address, config, &options, deadline)?))
        }
        (_, reach) => {
            let message = format!("{reach:?} is no place for {}", link.name());
            Err(Failure::new(FailureKind::Job, message))
        }
    }
}

/// Another user's agent, or one that sees other files, is one that memory cannot be shared with.
fn not_shared(error: ConnectError) -> Failure {
    match error {
        ConnectError::System { .. } | ConnectError::Protocol { .. } => {
            Failure::unsupported(format!(
                "memory cannot be shared with it ({error}): it has to run as the same user and with \
             the same directory for temporary files; or use ucx"
            ))
        }
        other => other.into(),
    }
}

fn options(engine: Option<CopyEngine>) -> ShmOptions {
    ShmOptions { engine: engine.map(|engine| EngineOptions { core: engine.core, shape: None }) }
}
