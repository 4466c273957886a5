//! Handshake between two ends of a link: hello, welcome with the queues' memory, ready.

use std::io::{Error, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use overside_base::random_bytes;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::layout::Layout;
use super::mapping::{self, Mapping};
use super::socket::{Received, receive_before, send};
use crate::doorbell::Notifier;
use crate::verbs::{ConnectError, LinkConfig, Side};

/// Every message begins with this: "OVERSIDE".
const MAGIC: u64 = u64::from_le_bytes(*b"OVERSIDE");
/// Version of this protocol and of the layout.
const VERSION: u64 = 2;

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Kind {
    Hello = 1,
    Welcome = 2,
    Ready = 3,
    Export = 4,
    Withdraw = 5,
}

/// A message's words.
pub(super) fn message(kind: Kind, rest: &[u64]) -> Vec<u64> {
    [&[MAGIC, VERSION, kind as u64], rest].concat()
}

/// The words after the kind, if it is such a message.
pub(super) fn parse<const N: usize>(words: &[u64], kind: Kind) -> Option<[u64; N]> {
    let rest = words.strip_prefix(&[MAGIC, VERSION, kind as u64])?;
    rest.try_into().ok()
}

/// Result of the handshake, as this end sees it.
pub(super) struct Agreed {
    /// The common configuration; `side`, `event` and `max_import_bytes` are this end's.
    pub(super) config: LinkConfig,
    pub(super) layout: Layout,
    pub(super) mapping: Arc<Mapping>,
    pub(super) notifiers: Vec<Notifier>,
    /// The peer waits for events.
    pub(super) peer_event: bool,
    /// Number that all tokens of this link begin with.
    pub(super) nonce: u64,
    /// This is the end that listened.
    pub(super) listens: bool,
}

fn system(doing: &str) -> impl FnOnce(Error) -> ConnectError {
    let doing = doing.to_owned();
    move |source| ConnectError::System { doing, source }
}

fn protocol(peer: &str, reason: impl Into<String>) -> ConnectError {
    ConnectError::Protocol { peer: peer.to_owned(), reason: reason.into() }
}

/// Waits for a message of one kind.
fn expect<const N: usize>(
    socket: &OwnedFd,
    kind: Kind,
    peer: &str,
    deadline: Instant,
) -> Result<([u64; N], Vec<OwnedFd>), ConnectError> {
    let Received { words, descriptors } =
        receive_before(socket, deadline).map_err(|error| match error.kind() {
            ErrorKind::TimedOut => ConnectError::Timeout { peer: peer.to_owned() },
            ErrorKind::UnexpectedEof => protocol(peer, "it hung up before the link was set up"),
            ErrorKind::InvalidData => protocol(peer, error.to_string()),
            _ => system("receiving from the peer")(error),
        })?;
    if let Some([theirs, ..]) = words.strip_prefix(&[MAGIC])
        && *theirs != VERSION
    {
        // So that it can say so as well.
        let _ = send(socket, &message(Kind::Hello, &[]), &[]);
        return Err(ConnectError::Version {
            peer: peer.to_owned(),
            theirs: u32::try_from(*theirs).unwrap_or(u32::MAX),
            ours: VERSION as u32,
        });
    }
    match parse(&words, kind) {
        Some(rest) => Ok((rest, descriptors)),
        None => Err(protocol(peer, format!("it did not say {kind:?} as expected"))),
    }
}

fn flag(value: u64, what: &str, peer: &str) -> Result<bool, ConnectError> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(protocol(peer, format!("{what} is {value}, not 0 or 1"))),
    }
}

/// The end that listens: decides, and makes the memory.
pub(super) fn serve(
    socket: &OwnedFd,
    config: &LinkConfig,
    peer: &str,
    deadline: Instant,
) -> Result<Agreed, ConnectError> {
    let layout = Layout::new(config)?;
    let ([_side, event], _) = expect(socket, Kind::Hello, peer, deadline)?;
    let peer_event = flag(event, "its wish for events", peer)?;
    let doing = "setting up shared memory";
    let file = mapping::create(layout.len()).map_err(system(doing))?;
    let mapping = Mapping::new(&file, layout.len() as usize, true).map_err(system(doing))?;
    mapping::seal(&file, false).map_err(system(doing))?;
    let nonce = u64::from_ne_bytes(random_bytes().map_err(system(doing))?);
    let mut notifiers = Vec::with_capacity(config.queue_pairs);
    let mut theirs = Vec::with_capacity(config.queue_pairs);
    for _ in 0..config.queue_pairs {
        let (ours, other) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
                .map_err(|error| system(doing)(error.into()))?;
        notifiers.push(Notifier::new(ours));
        theirs.push(other);
    }
    let welcome = message(
        Kind::Welcome,
        &[
            u64::from(config.side == Side::Dpu),
            config.event.into(),
            config.queue_pairs as u64,
            config.depth as u64,
            config.max_message_bytes as u64,
            nonce,
        ],
    );
    let descriptors: Vec<BorrowedFd<'_>> =
        std::iter::once(file.as_fd()).chain(theirs.iter().map(AsFd::as_fd)).collect();
    send(socket, &welcome, &descriptors).map_err(system("greeting the peer"))?;
    expect::<0>(socket, Kind::Ready, peer, deadline)?;
    Ok(Agreed {
        config: config.clone(),
        layout,
        mapping: Arc::new(mapping),
        notifiers,
        peer_event,
        nonce,
        listens: true,
    })
}

/// Handshake of the connecting end: takes the other's configuration, if it is valid.
pub(super) fn join(
    socket: &OwnedFd,
    config: &LinkConfig,
    peer: &str,
    deadline: Instant,
) -> Result<Agreed, ConnectError> {
    let side = u64::from(config.side == Side::Dpu);
    let hello = message(Kind::Hello, &[side, config.event.into()]);
    send(socket, &hello, &[]).map_err(system("greeting the peer"))?;
    let ([_side, event, queue_pairs, depth, longest, nonce], descriptors) =
        expect(socket, Kind::Welcome, peer, deadline)?;
    let peer_event = flag(event, "its wish for events", peer)?;
    let size = |value| usize::try_from(value).unwrap_or(usize::MAX);
    let agreed = LinkConfig {
        queue_pairs: size(queue_pairs),
        depth: size(depth),
        max_message_bytes: size(longest),
        ..config.clone()
    };
    let layout = Layout::new(&agreed).map_err(|error| protocol(peer, error.to_string()))?;
    let mut descriptors = descriptors.into_iter();
    let file = descriptors.next();
    let notifiers: Vec<Notifier> = descriptors.map(Notifier::new).collect();
    let Some(file) = file.filter(|_| notifiers.len() == agreed.queue_pairs) else {
        return Err(protocol(peer, "it sent other descriptors than it promised"));
    };
    mapping::check(&file, layout.len())
        .map_err(|reason| protocol(peer, format!("its queues' memory is refused: {reason}")))?;
    let mapping = Mapping::new(&file, layout.len() as usize, true)
        .map_err(system("mapping the queues' memory"))?;
    send(socket, &message(Kind::Ready, &[]), &[]).map_err(system("answering the peer"))?;
    Ok(Agreed {
        config: agreed,
        layout,
        mapping: Arc::new(mapping),
        notifiers,
        peer_event,
        nonce,
        listens: false,
    })
}
