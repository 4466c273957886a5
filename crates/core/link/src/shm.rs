//! Shared memory: two processes of one machine, or two threads of one process.
//!
//! Queue pairs are rings in a memory file that both ends map; exported regions are memory files of their own.
//! All are sealed, so that no end can shrink them under the other. Data in shared memory are not trusted.
//!
//! Without a copy engine the thread that posts a read or a write copies the bytes itself, and the work is
//! done when `post` returns. With one, a thread of this machine copies, in place of a DMA engine: see
//! [`EngineOptions`]. Messages are always copied by the two ends.
//!
//! The two ends find each other at a Unix socket ([`Listener`], [`connect`]), or through an existing pair of
//! sockets ([`serve`], [`join`]); [`pair`] makes both ends in one process.

mod copy;
mod engine;
mod handshake;
mod layout;
mod listener;
mod mapping;
mod queue_pair;
mod regions;
mod session;
mod socket;

use std::any::Any;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use overside_device::{
    Applied, CpuTime, ExternalBytes, MemoryError, MemoryKind, Provenance, Region, Slice, Timing,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

pub use engine::{EngineOptions, Path, Shape};
pub use listener::{Listener, connect};

use crate::doorbell::Notifier;
use crate::verbs::{
    Access, Capabilities, ConnectError, Endpoint, EndpointId, ExportError, Exported, ImportError,
    LinkConfig, LinkInfo, Mover, QueuePair, RemoteMemory, Token, VerbLimits,
};
use engine::Engine;
use handshake::Agreed;
use queue_pair::ShmQueuePair;
use regions::{Area, MAX_EXPORT_BYTES, MAX_EXPORTS, Regions};
use session::{Connection, NAME, Session};

/// Options that only shared memory has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShmOptions {
    /// Copy engine of this end; `None` if the caller that posts copies.
    pub engine: Option<EngineOptions>,
}

/// One end of a link over shared memory.
pub struct ShmEndpoint {
    session: Arc<Session>,
    agreed: Agreed,
    notifiers: Vec<Arc<Notifier>>,
    opened: Vec<AtomicBool>,
    info: LinkInfo,
    capabilities: Arc<Capabilities>,
    applied: Arc<Applied>,
}

/// Sets up the end that decides on the configuration, over a connected Unix socket of packets
/// (`SOCK_SEQPACKET`).
///
/// # Errors
/// [`ConnectError`]: this end's request is impossible, the peer does not speak the protocol, or the
/// deadline passed.
pub fn serve(
    socket: OwnedFd,
    config: &LinkConfig,
    options: &ShmOptions,
    deadline: Instant,
) -> Result<ShmEndpoint, ConnectError> {
    let peer = listener::name_of_peer(&socket);
    let agreed = handshake::serve(&socket, config, &peer, deadline)?;
    ShmEndpoint::new(socket, agreed, options, peer)
}

/// Sets up the other end; takes its queue pairs, depth and message length from the peer.
///
/// # Errors
/// As [`serve`].
pub fn join(
    socket: OwnedFd,
    config: &LinkConfig,
    options: &ShmOptions,
    deadline: Instant,
) -> Result<ShmEndpoint, ConnectError> {
    config.check()?;
    let peer = listener::name_of_peer(&socket);
    let agreed = handshake::join(&socket, config, &peer, deadline)?;
    ShmEndpoint::new(socket, agreed, options, peer)
}

/// Two connected ends in one process. The first one's configuration counts.
///
/// # Errors
/// As [`serve`].
pub fn pair(
    configs: [&LinkConfig; 2],
    options: [&ShmOptions; 2],
    deadline: Instant,
) -> Result<[ShmEndpoint; 2], ConnectError> {
    let [ours, theirs] = sockets().map_err(|source| ConnectError::System {
        doing: "making a pair of sockets".into(),
        source,
    })?;
    std::thread::scope(|scope| {
        let second = scope.spawn(|| join(theirs, configs[1], options[1], deadline));
        let first = serve(ours, configs[0], options[0], deadline);
        let second = second.join().expect("connecting does not panic");
        Ok([first?, second?])
    })
}

/// Two connected sockets for [`serve`] and [`join`].
///
/// # Errors
/// The system's error.
pub fn sockets() -> std::io::Result<[OwnedFd; 2]> {
    let (first, second) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok([first, second])
}

impl ShmEndpoint {
    fn new(
        socket: OwnedFd,
        mut agreed: Agreed,
        options: &ShmOptions,
        peer: String,
    ) -> Result<Self, ConnectError> {
        let engine = options.engine.as_ref().map(Engine::start).transpose()?;
        let notifiers: Vec<_> =
            std::mem::take(&mut agreed.notifiers).into_iter().map(Arc::new).collect();
        let capabilities = capabilities(&agreed.config, options);
        let info = info(peer, options);
        let applied = Applied {
            device: NAME.to_owned(),
            driver: info.driver.clone(),
            variant: if engine.is_some() { "engine" } else { "caller" }.to_owned(),
            library: "memcpy of the C library".to_owned(),
            because: None,
            provenance: info.provenance,
        };
        let regions = Regions::new(agreed.nonce, agreed.listens, &agreed.config);
        let session =
            Session::start(Connection::new(socket, regions), engine).map_err(|source| {
                ConnectError::System { doing: "starting the link's watcher".into(), source }
            })?;
        Ok(Self {
            session,
            opened: notifiers.iter().map(|_| AtomicBool::new(false)).collect(),
            notifiers,
            agreed,
            info,
            capabilities: Arc::new(capabilities),
            applied: Arc::new(applied),
        })
    }
}

fn capabilities(config: &LinkConfig, options: &ShmOptions) -> Capabilities {
    let engine = options.engine.as_ref();
    let shape = engine.and_then(|engine| engine.shape.as_ref());
    let direct = VerbLimits {
        max_bytes: MAX_EXPORT_BYTES,
        mover: if engine.is_some() { Mover::Engine } else { Mover::Caller },
    };
    Capabilities {
        read: direct.clone(),
        write: direct,
        send: VerbLimits { max_bytes: config.max_message_bytes as u64, mover: Mover::Caller },
        max_inline_bytes: copy::MAX_INLINE_BYTES as u64,
        queue_pairs: config.queue_pairs,
        max_depth: config.depth,
        max_exports: MAX_EXPORTS,
        max_export_bytes: MAX_EXPORT_BYTES,
        event: config.event,
        memory: MemoryKind::Any,
        missing: shape.map_or_else(Vec::new, |shape| shape.missing.clone()),
    }
}

fn info(peer: String, options: &ShmOptions) -> LinkInfo {
    let engine = options.engine.as_ref();
    let shaped = engine.is_some_and(|engine| engine.shape.is_some());
    let description = match (engine, shaped) {
        (None, _) => {
            "memory that two processes of this machine share; the thread that posts copies. No \
             DMA engine, no PCIe and no network has a part in it"
        }
        (Some(_), false) => {
            "memory that two processes of this machine share; a thread of this machine copies in \
             place of a DMA engine, at the speed of a core"
        }
        (Some(_), true) => {
            "memory that two processes of this machine share; a thread of this machine copies in \
             place of a DMA engine, and completions are released at a profile's times"
        }
    };
    LinkInfo {
        name: NAME.to_owned(),
        driver: concat!("overside-link ", env!("CARGO_PKG_VERSION")).to_owned(),
        peer,
        description: description.to_owned(),
        provenance: if shaped { Provenance::Emulated } else { Provenance::Measured },
        timing: if shaped { Timing::Paced } else { Timing::Real },
    }
}

/// An exported region, as long as its handle lives.
struct ExportGuard {
    area: Area,
    connection: Arc<Connection>,
}

impl Drop for ExportGuard {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.regions.withdraw(&connection.socket, &self.area);
    }
}

impl Endpoint for ShmEndpoint {
    fn id(&self) -> EndpointId {
        self.session.connection.id
    }

    fn info(&self) -> &LinkInfo {
        &self.info
    }

    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError> {
        Region::allocate(len, align, None)
    }

    fn register(&self, foreign: ExternalBytes) -> Result<Slice, MemoryError> {
        Ok(Slice::from_external(foreign, None))
    }

    fn export(&self, len: usize, access: Access) -> Result<Exported, ExportError> {
        let connection = &self.session.connection;
        connection.alive()?;
        let area = connection.regions.export(&connection.socket, len, access)?;
        let (window, token) = (area.mapping.window(), area.token.clone());
        let owner = ExportGuard { area, connection: Arc::clone(connection) };
        Ok(Exported::new(window, access, token, Arc::new(owner)))
    }

    fn import(&self, token: &Token) -> Result<RemoteMemory, ImportError> {
        let connection = &self.session.connection;
        // Offers are sent before tokens are handed out, so the holder of a token finds its offer in
        // the socket at the latest.
        connection.listen();
        connection.alive()?;
        let (imported, len, access) = connection.regions.import(token)?;
        let handle: Arc<dyn Any + Send + Sync> = imported;
        Ok(RemoteMemory::new(connection.id, len, access, handle))
    }

    fn open(&self, index: usize) -> Result<Box<dyn QueuePair>, ConnectError> {
        let count = self.opened.len();
        let fresh = self.opened.get(index);
        let fresh = fresh.is_some_and(|opened| !opened.swap(true, Ordering::AcqRel));
        if !fresh {
            return Err(ConnectError::QueuePair { index, count });
        }
        let queue_pair = ShmQueuePair::open(
            &self.session,
            &self.agreed,
            index,
            Arc::clone(&self.capabilities),
            Arc::clone(&self.applied),
            Arc::clone(&self.notifiers[index]),
        )?;
        Ok(Box::new(queue_pair))
    }

    fn cpu_time(&self) -> CpuTime {
        let mut time = (self.agreed.config.side).cpu_time(self.session.clock.spent_ns());
        if let Some(engine) = &self.session.engine {
            time.emulator_ns = engine.clock.spent_ns();
        }
        time
    }
}

impl std::fmt::Debug for ShmEndpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let socket = self.session.connection.socket.as_fd();
        write!(f, "ShmEndpoint({}, {socket:?})", self.info.peer)
    }
}
