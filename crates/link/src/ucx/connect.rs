//! The handshake for UCX: addresses of workers, over a TCP connection that stays.

// Registers memory by its address.
#![allow(unsafe_code)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{
    Applied, DeviceId, Foreign, MemoryError, MemoryKind, Provenance, Region, Slice, Timing,
};

use super::context::Context;
use super::engine::UcxEngine;
use super::shim::{RawWorker, Shim};
use super::{NAME, UcxEndpoint, UcxOptions};
use crate::control::channel::{self, Channel, Door, Terms};
use crate::control::frame::Frame;
use crate::credit::Limits;
use crate::exports::{self, Exports, Prepared};
use crate::heap::Heap;
use crate::network::{Memory, NetworkEndpoint, Pair, Parts};
use crate::verbs::{Capabilities, ConnectError, LinkConfig, LinkInfo, Mover, VerbLimits};

/// The most bytes of one read or write.
const MAX_BYTES: u64 = 1 << 30;
/// Payloads up to this length may be posted inline.
const MAX_INLINE_BYTES: u64 = 2 << 10;

pub(super) fn accept(
    door: &Door,
    config: &LinkConfig,
    options: &UcxOptions,
    deadline: Instant,
) -> Result<UcxEndpoint, ConnectError> {
    config.check()?;
    let context = open(options)?;
    loop {
        let (mut control, first) = door.next(deadline)?;
        let link = exports::random_bytes()
            .map_err(|error| channel::system("drawing a random name".into(), error))?;
        let manners = options.manners();
        let welcomed = channel::welcome(&mut control, &first, &manners, config, link, deadline);
        match welcomed {
            Ok(terms) => {
                let setup = Setup::new(context, control, terms)?;
                return setup.endpoint(config, options.patience, deadline);
            }
            // The next one may be who is waited for.
            Err(error @ ConnectError::Protocol { .. }) => channel::refuse(control, &error),
            Err(error) => return Err(error),
        }
    }
}

pub(super) fn connect(
    address: SocketAddr,
    config: &LinkConfig,
    options: &UcxOptions,
    deadline: Instant,
) -> Result<UcxEndpoint, ConnectError> {
    config.check()?;
    let context = open(options)?;
    let mut control = Channel::connect(address, deadline)?;
    let terms = channel::greet(&mut control, &options.manners(), config.side, deadline)?;
    Setup::new(context, control, terms)?.endpoint(config, options.patience, deadline)
}

fn open(options: &UcxOptions) -> Result<Arc<Context>, ConnectError> {
    let transports = options.transports.as_deref();
    Context::open(Shim::get()?, transports, options.devices.as_deref())
}

fn unavailable(reason: String) -> ConnectError {
    ConnectError::Unavailable {
        transport: NAME,
        reason,
    }
}

/// Workers that are being connected.
struct Setup {
    context: Arc<Context>,
    control: Channel,
    terms: Terms,
    limits: Limits,
    /// With what the peer is to mark its messages.
    workers: Vec<(RawWorker, u64)>,
}

impl Setup {
    fn new(context: Arc<Context>, control: Channel, terms: Terms) -> Result<Self, ConnectError> {
        let limits = Limits {
            depth: terms.decision.depth as usize,
            max_message_bytes: terms.decision.max_message_bytes as usize,
        };
        let mut workers = Vec::new();
        for _ in 0..terms.decision.queue_pairs {
            let tag = exports::random()
                .map_err(|error| channel::system("drawing a random tag".into(), error))?;
            let slots = UcxEngine::slots(&limits);
            // SAFETY: the engine holds the context for longer than the worker.
            let worker = unsafe { context.shim.worker(context.raw(), slots, tag) };
            workers.push((worker.map_err(unavailable)?, tag));
        }
        Ok(Self {
            context,
            control,
            terms,
            limits,
            workers,
        })
    }

    /// Exchanges addresses, and sets the connections up.
    fn endpoint(
        mut self,
        config: &LinkConfig,
        patience: Duration,
        deadline: Instant,
    ) -> Result<UcxEndpoint, ConnectError> {
        let connected = self.exchange(deadline).and_then(|()| self.greet(deadline));
        if let Err(error) = connected {
            // Workers that are half connected are not to be closed, and need their context.
            std::mem::forget(Arc::clone(&self.context));
            return Err(error);
        }
        self.finish(config, patience)
    }

    /// Both ends say all of their addresses first: they are short.
    fn exchange(&mut self, deadline: Instant) -> Result<(), ConnectError> {
        for (index, (worker, tag)) in self.workers.iter().enumerate() {
            let address = worker.address().map_err(unavailable)?;
            let (index, tag) = (index as u32, *tag);
            let frame = Frame::Worker {
                index,
                tag,
                address,
            };
            self.control.send(&frame, deadline)?;
        }
        for (index, (worker, _)) in self.workers.iter_mut().enumerate() {
            match self.control.receive(deadline)? {
                Frame::Worker {
                    index: theirs,
                    tag,
                    address,
                } if theirs as usize == index && !address.is_empty() => {
                    worker.connect(&address, tag).map_err(unavailable)?;
                }
                _ => {
                    return Err(self
                        .control
                        .unexpected("it does not say where its worker is"));
                }
            }
        }
        Ok(())
    }

    /// Sets all connections up. Each end goes on until the other says that all of its stand.
    fn greet(&mut self, deadline: Instant) -> Result<(), ConnectError> {
        let greetings = self.workers.iter_mut().map(|(worker, _)| worker.greet());
        let greetings: Result<Vec<_>, _> = greetings.collect();
        let mut greetings = greetings.map_err(unavailable)?;
        let mut said = false;
        loop {
            let mut stands = true;
            for ((worker, _), greeting) in self.workers.iter_mut().zip(&mut greetings) {
                stands &= greeting.progress(worker).map_err(unavailable)?;
            }
            if stands && !said {
                said = true;
                self.control.send(&Frame::Ready, deadline)?;
            }
            if said && self.control.has_word() {
                return match self.control.receive(deadline)? {
                    Frame::Ready => Ok(()),
                    _ => Err(self.control.unexpected("it does not say that it is ready")),
                };
            }
            if Instant::now() >= deadline {
                let reason = "the peer does not answer over UCX's transports";
                return Err(unavailable(reason.into()));
            }
            std::thread::yield_now();
        }
    }

    fn finish(self, config: &LinkConfig, patience: Duration) -> Result<UcxEndpoint, ConnectError> {
        let peer = self.control.peer().to_owned();
        let failed = |error| channel::system(format!("setting up the link with {peer}"), error);
        let transports = self.workers.first().map(|(worker, _)| worker.describe());
        let transports = super::describe::transports(&transports.unwrap_or_default());
        let mut pairs = Vec::new();
        for (worker, _) in self.workers {
            let context = Arc::clone(&self.context);
            let (engine, descriptor) =
                UcxEngine::new(context, worker, self.limits).map_err(unavailable)?;
            let pair = Pair::new(engine, descriptor).map_err(failed)?;
            pairs.push(Arc::new(pair));
        }
        let driver = format!("ucx {}", self.context.shim.version());
        let endpoint = NetworkEndpoint::new(Parts {
            name: NAME,
            info: info(&peer, &driver, &transports),
            applied: applied(&driver, &transports),
            capabilities: capabilities(config, &self.limits, pairs.len()),
            memory: Box::new(Registered(self.context)),
            exports: Exports::new(true),
            control: self.control,
            patience,
            their_patience: self.terms.their_patience,
            pairs,
            config,
        })?;
        Ok(UcxEndpoint(endpoint))
    }
}

/// Memory that UCX's devices reach.
struct Registered(Arc<Context>);

impl Memory for Registered {
    fn device(&self) -> DeviceId {
        self.0.device
    }

    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError> {
        self.0.alloc(len, align)
    }

    fn register(&self, foreign: Foreign) -> Result<Slice, MemoryError> {
        self.0.register(foreign)
    }

    fn prepare(&self, memory: &Heap) -> Result<Prepared, String> {
        let (start, len) = (memory.window().as_ptr(), memory.window().len());
        // SAFETY: what is exported holds both, and lets go of the registration first.
        let mapped = unsafe { self.0.map(start, len) }?;
        let mut description = (start as u64).to_le_bytes().to_vec();
        description.extend(mapped.key()?);
        Ok(Prepared {
            description,
            registration: Some(Box::new(mapped)),
        })
    }

    fn end(&self, exports: Arc<Exports>, parted: &dyn Fn() -> bool) {
        // Some transports write to this process's memory by its address, whether it is registered
        // or not. So it is given back once the peer says that it has stopped, or else never.
        if !exports.is_empty() && !parted() {
            std::mem::forget(exports);
        }
    }
}

fn info(peer: &str, driver: &str, transports: &str) -> LinkInfo {
    LinkInfo {
        name: NAME.into(),
        driver: driver.into(),
        peer: peer.into(),
        description: format!(
            "RDMA verbs through UCX over {transports}; network hardware moves the bytes only \
             where these transports are hardware"
        ),
        provenance: Provenance::Measured,
        timing: Timing::Real,
    }
}

fn applied(driver: &str, transports: &str) -> Applied {
    Applied {
        device: NAME.into(),
        driver: driver.into(),
        variant: transports.into(),
        library: driver.into(),
        provenance: Provenance::Measured,
    }
}

fn capabilities(config: &LinkConfig, limits: &Limits, queue_pairs: usize) -> Capabilities {
    let up_to = |max_bytes| {
        Some(VerbLimits {
            max_bytes,
            mover: Mover::Nic,
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
