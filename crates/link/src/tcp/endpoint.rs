//! Endpoints over TCP: the handshake, memory, and the service thread.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use overside_device::{
    Applied, CpuTime, DeviceId, Foreign, MemoryError, MemoryKind, Provenance, Region, Slice, Timing,
};

use super::core::Limits;
use super::frame::MAX_BYTES;
use super::pair::Pair;
use super::queue_pair::TcpQueuePair;
use super::{CARRIER, Import, NAME};
use crate::control::Talk;
use crate::control::channel::{self, Channel, Door, Terms};
use crate::control::frame::Frame;
use crate::exports::{self, Exports, Imports};
use crate::service::{Member, Service};
use crate::verbs::{
    Access, Capabilities, ConnectError, Endpoint, EndpointId, ExportError, Exported, ImportError,
    LinkConfig, LinkInfo, Mover, QueuePair, Remote, Side, Token, VerbLimits,
};

/// Payloads up to this length may be posted inline.
const MAX_INLINE_BYTES: u64 = 4 << 10;
/// What is said of it in results.
const DRIVER: &str = concat!("overside-link ", env!("CARGO_PKG_VERSION"));

/// One end of a link over TCP.
pub struct TcpEndpoint(Arc<Shared>);

/// What the endpoint and its queue pairs share.
pub(crate) struct Shared {
    pub(crate) id: EndpointId,
    pub(crate) device: DeviceId,
    side: Side,
    event: bool,
    info: LinkInfo,
    pub(crate) capabilities: Capabilities,
    pub(crate) applied: Applied,
    exports: Arc<Exports>,
    imports: Arc<Imports>,
    talk: Arc<Talk>,
    pub(crate) pairs: Vec<Arc<Pair>>,
    opened: Vec<AtomicBool>,
    pub(crate) service: Arc<Service>,
}

impl Shared {
    pub(crate) fn max_message_bytes(&self) -> u64 {
        let send = self.capabilities.send.as_ref();
        send.map_or(0, |limits| limits.max_bytes)
    }
}

/// A handshake that has succeeded.
struct Connected {
    control: Channel,
    terms: Terms,
    streams: Vec<TcpStream>,
}

pub(super) fn accept(
    door: &Door,
    config: &LinkConfig,
    patience: Duration,
    deadline: Instant,
) -> Result<TcpEndpoint, ConnectError> {
    config.check()?;
    loop {
        let (mut control, first) = door.next(deadline)?;
        let link = exports::random_bytes()
            .map_err(|error| channel::system("drawing a random name".into(), error))?;
        let welcomed = channel::welcome(
            &mut control,
            &first,
            CARRIER,
            config,
            link,
            patience,
            deadline,
        );
        let terms = match welcomed {
            Ok(terms) => terms,
            // The next one may be who is waited for.
            Err(error @ ConnectError::Protocol { .. }) => {
                channel::refuse(control, &error);
                continue;
            }
            Err(error) => return Err(error),
        };
        let streams = attached(door, &terms, deadline)?;
        control.send(&Frame::Ready, deadline)?;
        let connected = Connected {
            control,
            terms,
            streams,
        };
        return connected.endpoint(config, patience);
    }
}

/// The connections of the queue pairs, in their order.
fn attached(door: &Door, terms: &Terms, deadline: Instant) -> Result<Vec<TcpStream>, ConnectError> {
    let count = terms.decision.queue_pairs as usize;
    let mut streams: Vec<Option<TcpStream>> = (0..count).map(|_| None).collect();
    while streams.iter().any(Option::is_none) {
        let (channel, first) = door.next(deadline)?;
        let place = match first {
            Frame::Attach { link, index } if link == terms.decision.link => {
                streams.get_mut(index as usize)
            }
            _ => None,
        };
        match place {
            Some(place @ None) => *place = Some(channel.into_stream()),
            _ => {
                let error = channel.unexpected("it belongs to no link that is being set up");
                channel::refuse(channel, &error);
            }
        }
    }
    Ok(streams.into_iter().flatten().collect())
}

pub(super) fn connect(
    address: SocketAddr,
    config: &LinkConfig,
    patience: Duration,
    deadline: Instant,
) -> Result<TcpEndpoint, ConnectError> {
    config.check()?;
    let mut control = Channel::connect(address, deadline)?;
    let terms = channel::greet(&mut control, CARRIER, config.side, patience, deadline)?;
    let mut streams = Vec::new();
    for index in 0..terms.decision.queue_pairs {
        let mut channel = Channel::connect(address, deadline)?;
        let link = terms.decision.link;
        channel.send(&Frame::Attach { link, index }, deadline)?;
        streams.push(channel.into_stream());
    }
    match control.receive(deadline)? {
        Frame::Ready => {}
        Frame::Refused(reason) => return Err(control.unexpected(&format!("it says: {reason}"))),
        _ => return Err(control.unexpected("it does not say that it is ready")),
    }
    let connected = Connected {
        control,
        terms,
        streams,
    };
    connected.endpoint(config, patience)
}

impl Connected {
    fn endpoint(
        self,
        config: &LinkConfig,
        patience: Duration,
    ) -> Result<TcpEndpoint, ConnectError> {
        let Self {
            control,
            terms,
            streams,
        } = self;
        let peer = control.peer().to_owned();
        let failed = |error| channel::system(format!("setting up the link with {peer}"), error);
        let exports = Exports::new(false);
        let limits = Limits {
            depth: terms.decision.depth as usize,
            max_message_bytes: terms.decision.max_message_bytes as usize,
        };
        let pairs: Vec<Arc<Pair>> = streams
            .into_iter()
            .map(|stream| Pair::new(stream, Arc::clone(&exports), limits).map(Arc::new))
            .collect::<Result<_, _>>()
            .map_err(&failed)?;
        let talk = Talk::new(
            NAME,
            control,
            Arc::clone(&exports),
            patience,
            terms.their_patience,
        )?;
        let talk = Arc::new(talk);
        let members = pairs.iter().map(|pair| Arc::clone(pair) as Arc<dyn Member>);
        let service = Service::start(Arc::clone(&talk), members.collect()).map_err(&failed)?;
        Ok(TcpEndpoint(Arc::new(Shared {
            id: EndpointId::unique(),
            device: DeviceId::unique(),
            side: config.side,
            event: config.event,
            info: info(&peer),
            capabilities: capabilities(config, &limits, pairs.len()),
            applied: applied(),
            exports,
            imports: Imports::new(config.max_import_bytes),
            talk,
            opened: pairs.iter().map(|_| AtomicBool::new(false)).collect(),
            pairs,
            service,
        })))
    }
}

fn info(peer: &str) -> LinkInfo {
    LinkInfo {
        name: NAME.into(),
        driver: DRIVER.into(),
        peer: peer.into(),
        description: "TCP through the systems of both ends; their processors move the bytes of \
                      every verb, and nothing is encrypted"
            .into(),
        provenance: Provenance::Measured,
        timing: Timing::Real,
    }
}

fn applied() -> Applied {
    Applied {
        device: NAME.into(),
        driver: DRIVER.into(),
        variant: "sockets".into(),
        library: "the system's TCP".into(),
        provenance: Provenance::Measured,
    }
}

fn capabilities(config: &LinkConfig, limits: &Limits, queue_pairs: usize) -> Capabilities {
    let up_to = |max_bytes| {
        Some(VerbLimits {
            max_bytes,
            mover: Mover::Socket,
        })
    };
    Capabilities {
        read: up_to(MAX_BYTES),
        write: up_to(MAX_BYTES),
        send: up_to(limits.max_message_bytes as u64),
        max_inline_bytes: MAX_INLINE_BYTES,
        queue_pairs,
        max_depth: limits.depth,
        max_exports: exports::MAX_EXPORTS,
        max_export_bytes: exports::MAX_EXPORT_BYTES,
        event: config.event,
        memory: MemoryKind::Any,
        missing: Vec::new(),
    }
}

impl Endpoint for TcpEndpoint {
    fn id(&self) -> EndpointId {
        self.0.id
    }

    fn info(&self) -> &LinkInfo {
        &self.0.info
    }

    fn capabilities(&self) -> &Capabilities {
        &self.0.capabilities
    }

    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError> {
        Region::allocate(len, align, None)
    }

    fn register(&self, foreign: Foreign) -> Result<Slice, MemoryError> {
        Ok(Slice::from_foreign(foreign, None))
    }

    fn export(&self, len: usize, access: Access) -> Result<Exported, ExportError> {
        let exports = &self.0.exports;
        exports.export(len, access, |_| Ok(exports::Prepared::default()))
    }

    fn import(&self, token: &Token) -> Result<Remote, ImportError> {
        let key = exports::key_of(token)?;
        let offer = self.0.talk.ask(key)?;
        if offer.len == 0 || offer.len > exports::MAX_EXPORT_BYTES {
            return Err(ImportError::Refused(format!("it has {} bytes", offer.len)));
        }
        let import = Import {
            key,
            _counted: self.0.imports.take(offer.len)?,
        };
        Ok(Remote::new(
            self.0.id,
            offer.len,
            offer.access,
            Arc::new(import),
        ))
    }

    fn open(&self, index: usize) -> Result<Box<dyn QueuePair>, ConnectError> {
        let count = self.0.pairs.len();
        let opened = self.0.opened.get(index);
        if opened.is_none_or(|opened| opened.swap(true, Ordering::Relaxed)) {
            return Err(ConnectError::QueuePair { index, count });
        }
        let queue_pair = TcpQueuePair::new(Arc::clone(&self.0), index, self.0.event)
            .map_err(|error| channel::system(format!("opening queue pair {index}"), error))?;
        Ok(Box::new(queue_pair))
    }

    fn cpu_time(&self) -> CpuTime {
        self.0.side.cpu_time(self.0.service.spent_ns())
    }
}
