//! The handshake for UCX: addresses of workers, over a TCP connection that stays.

// Makes workers, which need their context.
#![allow(unsafe_code)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{Applied, MemoryKind, Provenance, Timing};

use super::context::Context;
use super::control::Listener;
use super::control::frame::ControlMessage;
use super::control::handshake::{self, Channel, Negotiated};
use super::credit::Limits;
use super::endpoint::Parts;
use super::engine::UcxEngine;
use super::exports;
use super::pair::Pair;
use super::shim::{RawWorker, Shim};
use super::{NAME, UcxEndpoint, UcxOptions};
use crate::verbs::{Capabilities, ConnectError, LinkConfig, LinkInfo, Mover, VerbLimits};

/// Maximum number of bytes of one read or write.
const MAX_BYTES: u64 = 1 << 30;
/// Payloads up to this length may be posted inline.
const MAX_INLINE_BYTES: u64 = 2 << 10;

pub(super) fn accept(
    listener: &Listener,
    config: &LinkConfig,
    options: &UcxOptions,
    deadline: Instant,
) -> Result<UcxEndpoint, ConnectError> {
    config.check()?;
    let context = open(options)?;
    loop {
        let (mut control, first) = listener.next(deadline)?;
        match handshake::welcome(&mut control, &first, options, config, deadline) {
            Ok(negotiated) => {
                let setup = Setup::new(context, control, negotiated)?;
                return setup.endpoint(config, options.peer_timeout, deadline);
            }
            // The next one may be who is waited for.
            Err(error @ ConnectError::Protocol { .. }) => handshake::refuse(control, &error),
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
    let negotiated = handshake::greet(&mut control, options, config.side, deadline)?;
    Setup::new(context, control, negotiated)?.endpoint(config, options.peer_timeout, deadline)
}

fn open(options: &UcxOptions) -> Result<Arc<Context>, ConnectError> {
    let transports = options.transports.as_deref();
    Context::open(Shim::get()?, transports, options.devices.as_deref())
}

fn unavailable(reason: String) -> ConnectError {
    ConnectError::Unavailable { transport: NAME, reason }
}

/// Workers that are being connected.
struct Setup {
    context: Arc<Context>,
    control: Channel,
    negotiated: Negotiated,
    limits: Limits,
    /// Workers of the peer, each with the tag of its messages.
    workers: Vec<(RawWorker, u64)>,
}

impl Setup {
    fn new(
        context: Arc<Context>,
        control: Channel,
        negotiated: Negotiated,
    ) -> Result<Self, ConnectError> {
        let limits = Limits {
            depth: negotiated.decision.depth as usize,
            max_message_bytes: negotiated.decision.max_message_bytes as usize,
        };
        let mut workers = Vec::new();
        for _ in 0..negotiated.decision.queue_pairs {
            let tag = exports::random()
                .map_err(|error| handshake::system("drawing a random tag".into(), error))?;
            let slots = UcxEngine::slots(&limits);
            // SAFETY: the engine holds the context for longer than the worker.
            let worker = unsafe { context.shim.worker(context.raw(), slots, tag) };
            workers.push((worker.map_err(unavailable)?, tag));
        }
        Ok(Self { context, control, negotiated, limits, workers })
    }

    /// Exchanges addresses, and sets the connections up.
    fn endpoint(
        mut self,
        config: &LinkConfig,
        our_timeout: Duration,
        deadline: Instant,
    ) -> Result<UcxEndpoint, ConnectError> {
        let connected = self.exchange(deadline).and_then(|()| self.greet(deadline));
        if let Err(error) = connected {
            // Workers that are half connected are not to be closed, and need their context.
            std::mem::forget(Arc::clone(&self.context));
            return Err(error);
        }
        self.finish(config, our_timeout)
    }

    /// Sends and receives all addresses first: they are short.
    fn exchange(&mut self, deadline: Instant) -> Result<(), ConnectError> {
        for (index, (worker, tag)) in self.workers.iter().enumerate() {
            let address = worker.address().map_err(unavailable)?;
            let (index, tag) = (index as u32, *tag);
            let frame = ControlMessage::Worker { index, tag, address };
            self.control.send(&frame, deadline)?;
        }
        for (index, (worker, _)) in self.workers.iter_mut().enumerate() {
            match self.control.receive(deadline)? {
                ControlMessage::Worker { index: theirs, tag, address }
                    if theirs as usize == index && !address.is_empty() =>
                {
                    worker.connect(&address, tag).map_err(unavailable)?;
                }
                _ => {
                    return Err(self.control.unexpected("it does not say where its worker is"));
                }
            }
        }
        Ok(())
    }

    /// Sets all connections up. Each end continues until the other reports that all of its own are set up.
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
                self.control.send(&ControlMessage::Ready, deadline)?;
            }
            if said && self.control.has_input() {
                return match self.control.receive(deadline)? {
                    ControlMessage::Ready => Ok(()),
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

    fn finish(
        self,
        config: &LinkConfig,
        our_timeout: Duration,
    ) -> Result<UcxEndpoint, ConnectError> {
        let peer = self.control.peer().to_owned();
        let failed = |error| handshake::system(format!("setting up the link with {peer}"), error);
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
        UcxEndpoint::new(Parts {
            info: info(&peer, &driver, &transports),
            applied: applied(&driver, &transports),
            capabilities: capabilities(config, &self.limits, pairs.len()),
            context: self.context,
            control: self.control,
            our_timeout,
            their_timeout: self.negotiated.their_timeout,
            pairs,
            config,
        })
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
        because: None,
        provenance: Provenance::Measured,
    }
}

fn capabilities(config: &LinkConfig, limits: &Limits, queue_pairs: usize) -> Capabilities {
    let up_to = |max_bytes| VerbLimits { max_bytes, mover: Mover::Nic };
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
