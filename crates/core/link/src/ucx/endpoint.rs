//! Endpoints: memory, queue pairs, the service thread.

// Registers memory by its address.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use overside_device::{Applied, CpuTime, ExternalBytes, MemoryError, Region, Slice};

use super::buffer::Buffer;
use super::context::Context;
use super::control::ControlConnection;
use super::control::handshake::{self, Channel};
use super::exports::{self, Exports, Import, Imports, Prepared};
use super::pair::Pair;
use super::queue_pair::UcxQueuePair;
use super::service::Service;
use crate::verbs::{
    Access, Capabilities, ConnectError, Endpoint, EndpointId, ExportError, Exported, ImportError,
    LinkConfig, LinkInfo, QueuePair, RemoteMemory, Side, Token,
};

/// Parts that an endpoint is made of, once its queue pairs are connected.
pub(crate) struct Parts<'a> {
    pub(crate) context: Arc<Context>,
    pub(crate) info: LinkInfo,
    pub(crate) applied: Applied,
    pub(crate) capabilities: Capabilities,
    pub(crate) control: Channel,
    pub(crate) our_timeout: Duration,
    pub(crate) their_timeout: Duration,
    pub(crate) pairs: Vec<Arc<Pair>>,
    pub(crate) config: &'a LinkConfig,
}

/// One end of a link over UCX.
pub struct UcxEndpoint(Arc<EndpointState>);

/// State that the endpoint and its queue pairs share.
pub(super) struct EndpointState {
    pub(super) id: EndpointId,
    pub(super) context: Arc<Context>,
    side: Side,
    event: bool,
    pub(super) info: LinkInfo,
    pub(super) capabilities: Capabilities,
    pub(super) applied: Applied,
    imports: Arc<Imports>,
    control: Arc<ControlConnection>,
    opened: Vec<AtomicBool>,
    service: Service,
    /// Queue pairs, which end and are dropped after the service and before the memory.
    pub(super) pairs: Vec<Arc<Pair>>,
    exports: Arc<Exports>,
}

/// Longest time that one end of a link waits for its peer to close the link as well.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

impl EndpointState {
    pub(super) fn max_message_bytes(&self) -> u64 {
        self.capabilities.send.max_bytes
    }
}

impl Drop for EndpointState {
    fn drop(&mut self) {
        self.service.stop();
        self.pairs.clear();
        // Some transports write to this process's memory by its address, whether it is registered
        // or not. So it is given back once the peer has stopped, or else never.
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        if !self.exports.is_empty() && !self.control.peer_has_closed(deadline) {
            std::mem::forget(Arc::clone(&self.exports));
        }
    }
}

impl UcxEndpoint {
    /// Starts the service thread.
    pub(crate) fn new(parts: Parts<'_>) -> Result<Self, ConnectError> {
        let peer = parts.control.peer().to_owned();
        let exports = Exports::new();
        let control = Arc::new(ControlConnection::new(
            parts.control,
            Arc::clone(&exports),
            parts.our_timeout,
            parts.their_timeout,
        )?);
        let service =
            Service::start(Arc::clone(&control), parts.pairs.clone()).map_err(|error| {
                handshake::system(format!("setting up the link with {peer}"), error)
            })?;
        Ok(Self(Arc::new(EndpointState {
            id: EndpointId::unique(),
            context: parts.context,
            side: parts.config.side,
            event: parts.config.event,
            info: parts.info,
            capabilities: parts.capabilities,
            applied: parts.applied,
            imports: Imports::new(parts.config.max_import_bytes),
            control,
            opened: parts.pairs.iter().map(|_| AtomicBool::new(false)).collect(),
            service,
            pairs: parts.pairs,
            exports,
        })))
    }
}

impl Endpoint for UcxEndpoint {
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
        self.0.context.alloc(len, align)
    }

    fn register(&self, foreign: ExternalBytes) -> Result<Slice, MemoryError> {
        self.0.context.register(foreign)
    }

    fn export(&self, len: usize, access: Access) -> Result<Exported, ExportError> {
        self.0.control.is_alive()?;
        let prepare = |memory: &Buffer| {
            let (start, len) = (memory.window().as_ptr(), memory.window().len());
            // SAFETY: what is exported holds both, and lets go of the registration first.
            let mapped = unsafe { self.0.context.map(start, len) }?;
            let mut description = (start as u64).to_le_bytes().to_vec();
            description.extend(mapped.key()?);
            Ok(Prepared { description, registration: Box::new(mapped) })
        };
        self.0.exports.export(len, access, prepare)
    }

    fn import(&self, token: &Token) -> Result<RemoteMemory, ImportError> {
        let key = exports::key_of(token)?;
        let region = self.0.control.ask(key)?;
        if region.len == 0 || region.len > exports::MAX_EXPORT_BYTES {
            return Err(ImportError::Refused(format!("it has {} bytes", region.len)));
        }
        let import = Import {
            key,
            description: region.description,
            _counted: self.0.imports.take(region.len)?,
        };
        let (id, import) = (self.0.id, Arc::new(import));
        Ok(RemoteMemory::new(id, region.len, region.access, import))
    }

    fn open(&self, index: usize) -> Result<Box<dyn QueuePair>, ConnectError> {
        let count = self.0.pairs.len();
        let opened = self.0.opened.get(index);
        if opened.is_none_or(|opened| opened.swap(true, Ordering::Relaxed)) {
            return Err(ConnectError::QueuePair { index, count });
        }
        let queue_pair = UcxQueuePair::new(Arc::clone(&self.0), index, self.0.event)
            .map_err(|error| handshake::system(format!("opening queue pair {index}"), error))?;
        Ok(Box::new(queue_pair))
    }

    fn cpu_time(&self) -> CpuTime {
        self.0.side.cpu_time(self.0.service.spent_ns())
    }
}
