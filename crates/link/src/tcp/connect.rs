//! The handshake over TCP: a connection for control, and one for each queue pair.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{
    Applied, Foreign, MemoryError, MemoryKind, Provenance, Region, Slice, Timing,
};

use super::engine::TcpEngine;
use super::frame::MAX_BYTES;
use super::{NAME, TcpEndpoint};
use crate::control::channel::{self, Channel, Door, Manners, Terms};
use crate::control::frame::Frame;
use crate::credit::Limits;
use crate::exports::{self, Exports, Prepared};
use crate::heap::Heap;
use crate::network::{Memory, NetworkEndpoint, Pair, Parts};
use crate::verbs::{Capabilities, ConnectError, LinkConfig, LinkInfo, Mover, VerbLimits};

/// Payloads up to this length may be posted inline.
const MAX_INLINE_BYTES: u64 = 2 << 10;
/// What is said of it in results.
const DRIVER: &str = concat!("overside-link ", env!("CARGO_PKG_VERSION"));

/// A handshake that has succeeded.
struct Connected {
    control: Channel,
    terms: Terms,
    streams: Vec<TcpStream>,
}

pub(super) fn accept(
    door: &Door,
    config: &LinkConfig,
    manners: &Manners,
    deadline: Instant,
) -> Result<TcpEndpoint, ConnectError> {
    config.check()?;
    loop {
        let (mut control, first) = door.next(deadline)?;
        let link = exports::random_bytes()
            .map_err(|error| channel::system("drawing a random name".into(), error))?;
        let welcomed = channel::welcome(&mut control, &first, manners, config, link, deadline);
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
        return connected.endpoint(config, manners.patience);
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
    manners: &Manners,
    deadline: Instant,
) -> Result<TcpEndpoint, ConnectError> {
    config.check()?;
    let mut control = Channel::connect(address, deadline)?;
    let terms = channel::greet(&mut control, manners, config.side, deadline)?;
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
    connected.endpoint(config, manners.patience)
}

impl Connected {
    fn endpoint(
        self,
        config: &LinkConfig,
        patience: Duration,
    ) -> Result<TcpEndpoint, ConnectError> {
        let peer = self.control.peer().to_owned();
        let failed = |error| channel::system(format!("setting up the link with {peer}"), error);
        let exports = Exports::new(false);
        let limits = Limits {
            depth: self.terms.decision.depth as usize,
            max_message_bytes: self.terms.decision.max_message_bytes as usize,
        };
        let pair = |stream| {
            let (engine, descriptor) = TcpEngine::new(stream, Arc::clone(&exports), limits)?;
            Pair::new(engine, descriptor).map(Arc::new)
        };
        let pairs: Result<Vec<_>, _> = self.streams.into_iter().map(pair).collect();
        let pairs = pairs.map_err(failed)?;
        let endpoint = NetworkEndpoint::new(Parts {
            name: NAME,
            info: info(&peer),
            applied: applied(),
            capabilities: capabilities(config, &limits, pairs.len()),
            memory: Box::new(Plain),
            exports,
            control: self.control,
            patience,
            their_patience: self.terms.their_patience,
            pairs,
            config,
        })?;
        Ok(TcpEndpoint(endpoint))
    }
}

/// Sockets reach any memory.
struct Plain;

impl Memory for Plain {
    fn alloc(&self, len: usize, align: usize) -> Result<Region, MemoryError> {
        Region::allocate(len, align, None)
    }

    fn register(&self, foreign: Foreign) -> Result<Slice, MemoryError> {
        Ok(Slice::from_foreign(foreign, None))
    }

    fn prepare(&self, _memory: &Heap) -> Result<Prepared, String> {
        Ok(Prepared::default())
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
