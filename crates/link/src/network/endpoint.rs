//! Endpoints over a network: memory, queue pairs, the service thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use overside_device::{Applied, CpuTime, DeviceId, Foreign, MemoryError, Region, Slice};

use super::Engine;
use super::pair::Pair;
use super::queue_pair::NetworkQueuePair;
use crate::control::Talk;
use crate::control::channel::{self, Channel};
use crate::exports::{self, Exports, Imported, Imports, Prepared};
use crate::heap::Heap;
use crate::service::{Member, Service};
use crate::verbs::{
    Access, Capabilities, ConnectError, Endpoint, EndpointId, ExportError, Exported, ImportError,
    LinkConfig, LinkInfo, QueuePair, Remote, Side, Token,
};

/// What a transport does with memory.
pub(crate) trait Memory: Send + Sync {
    /// What its memory is registered with.
    fn device(&self) -> DeviceId {
        DeviceId::unique()
    }

    /// As [`Endpoint::alloc`].
    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError>;

    /// As [`Endpoint::register`].
    fn register(&self, foreign: Foreign) -> Result<Slice, MemoryError>;

    /// Prepares memory for being exported.
    fn prepare(&self, memory: &Heap) -> Result<Prepared, String>;

    /// The link has ended. Gives the exported memory back; if the peer may still write to it,
    /// `parted` waits for its word that it does not, and says whether it came.
    fn end(&self, exports: Arc<Exports>, parted: &dyn Fn() -> bool) {
        let _ = (exports, parted);
    }
}

/// What an endpoint is made of.
pub(crate) struct Parts<'a, E: Engine> {
    pub(crate) name: &'static str,
    pub(crate) info: LinkInfo,
    pub(crate) applied: Applied,
    pub(crate) capabilities: Capabilities,
    pub(crate) memory: Box<dyn Memory>,
    pub(crate) exports: Arc<Exports>,
    pub(crate) control: Channel,
    pub(crate) patience: Duration,
    pub(crate) their_patience: Duration,
    pub(crate) pairs: Vec<Arc<Pair<E>>>,
    pub(crate) config: &'a LinkConfig,
}

/// One end of a link over a network.
pub(crate) struct NetworkEndpoint<E: Engine>(Arc<Shared<E>>);

/// What the endpoint and its queue pairs share.
pub(super) struct Shared<E: Engine> {
    pub(super) id: EndpointId,
    pub(super) device: DeviceId,
    side: Side,
    event: bool,
    pub(super) info: LinkInfo,
    pub(super) capabilities: Capabilities,
    pub(super) applied: Applied,
    imports: Arc<Imports>,
    talk: Arc<Talk>,
    opened: Vec<AtomicBool>,
    pub(super) service: Service,
    /// Ended, and dropped, after the service and before the memory.
    pub(super) pairs: Vec<Arc<Pair<E>>>,
    exports: Arc<Exports>,
    memory: Box<dyn Memory>,
}

/// How long the end of a link waits for the peer's word.
const PARTING: Duration = Duration::from_secs(1);

impl<E: Engine> Shared<E> {
    pub(super) fn max_message_bytes(&self) -> u64 {
        let send = self.capabilities.send.as_ref();
        send.map_or(0, |limits| limits.max_bytes)
    }
}

impl<E: Engine> Drop for Shared<E> {
    fn drop(&mut self) {
        self.service.stop();
        self.pairs.clear();
        let parted = || self.talk.has_parted(Instant::now() + PARTING);
        self.memory.end(Arc::clone(&self.exports), &parted);
    }
}

/// The transports' record of imported memory.
pub(crate) struct Import {
    /// What the peer knows it by.
    pub(crate) key: u64,
    /// What the peer's transport says of it.
    pub(crate) description: Vec<u8>,
    _counted: Imported,
}

/// That record.
pub(crate) fn import_of(remote: &Remote) -> &Import {
    let record = remote.handle().downcast_ref();
    record.expect("checked to be of this endpoint")
}

impl<E: Engine> NetworkEndpoint<E> {
    /// Starts the service thread.
    pub(crate) fn new(parts: Parts<'_, E>) -> Result<Self, ConnectError> {
        let peer = parts.control.peer().to_owned();
        let talk = Arc::new(Talk::new(
            parts.name,
            parts.control,
            Arc::clone(&parts.exports),
            parts.patience,
            parts.their_patience,
        )?);
        let members = parts.pairs.iter();
        let members = members.map(|pair| Arc::clone(pair) as Arc<dyn Member>);
        let service = Service::start(Arc::clone(&talk), members.collect())
            .map_err(|error| channel::system(format!("setting up the link with {peer}"), error))?;
        Ok(Self(Arc::new(Shared {
            id: EndpointId::unique(),
            device: parts.memory.device(),
            side: parts.config.side,
            event: parts.config.event,
            info: parts.info,
            capabilities: parts.capabilities,
            applied: parts.applied,
            imports: Imports::new(parts.config.max_import_bytes),
            talk,
            opened: parts.pairs.iter().map(|_| AtomicBool::new(false)).collect(),
            service,
            pairs: parts.pairs,
            exports: parts.exports,
            memory: parts.memory,
        })))
    }
}

impl<E: Engine> Endpoint for NetworkEndpoint<E> {
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
        self.0.memory.alloc(len, align)
    }

    fn register(&self, foreign: Foreign) -> Result<Slice, MemoryError> {
        self.0.memory.register(foreign)
    }

    fn export(&self, len: usize, access: Access) -> Result<Exported, ExportError> {
        self.0.talk.is_alive()?;
        let prepare = |memory: &Heap| self.0.memory.prepare(memory);
        self.0.exports.export(len, access, prepare)
    }

    fn import(&self, token: &Token) -> Result<Remote, ImportError> {
        let key = exports::key_of(token)?;
        let offer = self.0.talk.ask(key)?;
        if offer.len == 0 || offer.len > exports::MAX_EXPORT_BYTES {
            return Err(ImportError::Refused(format!("it has {} bytes", offer.len)));
        }
        let import = Import {
            key,
            description: offer.description,
            _counted: self.0.imports.take(offer.len)?,
        };
        let (id, import) = (self.0.id, Arc::new(import));
        Ok(Remote::new(id, offer.len, offer.access, import))
    }

    fn open(&self, index: usize) -> Result<Box<dyn QueuePair>, ConnectError> {
        let count = self.0.pairs.len();
        let opened = self.0.opened.get(index);
        if opened.is_none_or(|opened| opened.swap(true, Ordering::Relaxed)) {
            return Err(ConnectError::QueuePair { index, count });
        }
        let queue_pair = NetworkQueuePair::new(Arc::clone(&self.0), index, self.0.event)
            .map_err(|error| channel::system(format!("opening queue pair {index}"), error))?;
        Ok(Box::new(queue_pair))
    }

    fn cpu_time(&self) -> CpuTime {
        self.0.side.cpu_time(self.0.service.spent_ns())
    }
}

/// Passes an endpoint's verbs on to the one within.
macro_rules! delegate_endpoint {
    ($name:ident) => {
        impl $crate::verbs::Endpoint for $name {
            fn id(&self) -> $crate::verbs::EndpointId {
                self.0.id()
            }
            fn info(&self) -> &$crate::verbs::LinkInfo {
                self.0.info()
            }
            fn capabilities(&self) -> &$crate::verbs::Capabilities {
                self.0.capabilities()
            }
            fn alloc(
                &self,
                len: usize,
                align: usize,
            ) -> Result<overside_device::Region, overside_device::MemoryError> {
                self.0.alloc(len, align)
            }
            fn register(
                &self,
                foreign: overside_device::Foreign,
            ) -> Result<overside_device::Slice, overside_device::MemoryError> {
                self.0.register(foreign)
            }
            fn export(
                &self,
                len: usize,
                access: $crate::verbs::Access,
            ) -> Result<$crate::verbs::Exported, $crate::verbs::ExportError> {
                self.0.export(len, access)
            }
            fn import(
                &self,
                token: &$crate::verbs::Token,
            ) -> Result<$crate::verbs::Remote, $crate::verbs::ImportError> {
                self.0.import(token)
            }
            fn open(
                &self,
                index: usize,
            ) -> Result<Box<dyn $crate::verbs::QueuePair>, $crate::verbs::ConnectError> {
                self.0.open(index)
            }
            fn cpu_time(&self) -> overside_device::CpuTime {
                self.0.cpu_time()
            }
        }
    };
}
pub(crate) use delegate_endpoint;
