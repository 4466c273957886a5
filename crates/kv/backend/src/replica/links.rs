//! A primary's replicas: a thread that sends them the history.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::thread::Builder;
use std::time::{Duration, Instant};

use overside_base::{EventFd, lock};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::ReplicaStatus;
use super::backlog::Backlog;
use super::group::GroupMember;
use super::link::{Link, LinkTable, Phase, ReplicaConnection, Replicas};
use crate::transport::{Received, Transport};

/// Bytes that wait in a replica's output at most, without the copy.
const OUTPUT_BYTES: usize = 256 << 10;
/// Bytes of a copy that wait for a replica.
pub(super) const COPY_BYTES: usize = 1 << 20;
/// Silence after which a replica is dropped.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Silence after which a server that ends waits for a replica no longer; replicas send once a second.
const SILENCE_AT_THE_END_MAX: Duration = Duration::from_secs(3);
/// Time between the line feeds that a replica gets while it waits for its copy.
const PING: Duration = Duration::from_secs(1);
/// Maximum number of replicas.
pub(super) const REPLICAS_MAX: usize = 16;
/// Length of a replica's acknowledgment in bytes: the offset up to which it has executed the
/// history.
pub(super) const ACKNOWLEDGMENT_BYTES: usize = 8;

/// The thread. It ends when this is dropped, and the connections with it.
#[derive(Debug)]
pub(super) struct Links {
    pub shared: Arc<Replicas>,
    next: u64,
}

impl Links {
    pub(super) fn start(backlog_bytes: usize, member: &GroupMember) -> io::Result<Self> {
        let shared = Arc::new(Replicas {
            state: Mutex::new(LinkTable {
                backlog: Backlog::new(backlog_bytes),
                links: HashMap::new(),
                incoming: Vec::new(),
                is_ended: false,
            }),
            event: EventFd::new()?,
        });
        member.set_links(&shared);
        let (theirs, member) = (Arc::clone(&shared), member.clone());
        let builder = Builder::new().name("kv-replicas".into());
        builder.spawn(move || run(&theirs, &member))?;
        Ok(Self { shared, next: 0 })
    }

    /// Takes a replica's connection, in place of one that it had before.
    pub(super) fn add(&mut self, connection: ReplicaConnection, link: Link) {
        let number = self.next;
        self.next += 1;
        let mut state = lock(&self.shared.state);
        state.links.retain(|_, other| other.replica != link.replica);
        state.links.insert(number, link);
        state.incoming.push((number, connection));
        drop(state);
        self.shared.event.signal();
    }

    pub(super) fn append(&self, frames: &[u8]) {
        lock(&self.shared.state).backlog.append(frames);
        self.shared.event.signal();
    }

    /// Returns `true` if every replica that follows has acknowledged the whole history. A replica
    /// that has sent nothing for `SILENCE_AT_THE_END_MAX`, counted from `begun` at the earliest, is
    /// left out: one that was held up may come back.
    pub(super) fn have_all(&self, begun: Instant) -> bool {
        let state = lock(&self.shared.state);
        let end = state.backlog.end();
        let is_there = |link: &&Link| {
            let heard = link.heard.max(begun);
            link.phase == Phase::Online && heard.elapsed() < SILENCE_AT_THE_END_MAX
        };
        let mut links = state.links.values().filter(is_there);
        links.all(|link| link.acknowledged >= end)
    }

    pub(super) fn statuses(&self) -> Vec<ReplicaStatus> {
        let state = lock(&self.shared.state);
        let mut links: Vec<_> = state.links.iter().collect();
        links.sort_unstable_by_key(|(number, _)| **number);
        let status = |(_, link): (&u64, &Link)| ReplicaStatus {
            host: link.host.clone(),
            port: link.port,
            offset: link.acknowledged,
            is_online: link.phase == Phase::Online,
            lag_s: link.heard.elapsed().as_secs(),
            id: link.replica.clone(),
            partitions: 1,
        };
        links.into_iter().map(status).collect()
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        lock(&self.shared.state).is_ended = true;
        self.shared.event.signal();
    }
}

/// A connection, as the thread has it.
struct Sender {
    transport: Transport,
    output: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    pinged: Instant,
}

fn run(shared: &Replicas, member: &GroupMember) {
    let mut senders: HashMap<u64, Sender> = HashMap::new();
    loop {
        wait(shared, &senders);
        shared.event.clear();
        let mut state = lock(&shared.state);
        if state.is_ended {
            return;
        }
        for (number, connection) in std::mem::take(&mut state.incoming) {
            let sender = Sender {
                transport: connection.transport,
                output: connection.unsent,
                sent: 0,
                input: Vec::new(),
                pinged: Instant::now(),
            };
            senders.insert(number, sender);
        }
        drop(state);
        senders.retain(|number, sender| {
            let served = serve(shared, member, *number, sender);
            if let Err(error) = &served {
                let link = lock(&shared.state).links.remove(number);
                let host = link.map_or_else(String::new, |link| link.host);
                tracing::warn!(%host, "a replica is dropped: {error}");
                member.waker().wake();
            }
            served.is_ok()
        });
    }
}

fn wait(shared: &Replicas, senders: &HashMap<u64, Sender>) {
    let mut events = vec![PollFd::new(&shared.event, PollFlags::IN)];
    for sender in senders.values() {
        let has_output = sender.sent < sender.output.len() || sender.transport.has_unsent();
        let output = if has_output { PollFlags::OUT } else { PollFlags::empty() };
        events.push(PollFd::new(&sender.transport, PollFlags::IN | output));
    }
    let timeout = Timespec { tv_sec: 1, tv_nsec: 0 };
    // A signal ends the wait too; then nothing is there.
    let _ = poll(&mut events, Some(&timeout));
}

/// Reads and sends without blocking.
fn serve(
    shared: &Replicas,
    member: &GroupMember,
    number: u64,
    sender: &mut Sender,
) -> io::Result<()> {
    receive(shared, member, number, sender)?;
    check(shared, number)?;
    loop {
        let unsent = sender.output.len() - sender.sent;
        if unsent < OUTPUT_BYTES {
            sender.output.drain(..sender.sent);
            sender.sent = 0;
            fill(shared, member, number, sender)?;
        }
        let sent = sender.transport.send(&sender.output[sender.sent..])?;
        sender.sent += sent;
        if sent == 0 {
            return Ok(());
        }
    }
}

fn receive(
    shared: &Replicas,
    member: &GroupMember,
    number: u64,
    sender: &mut Sender,
) -> io::Result<()> {
    sender.input.reserve(4096);
    let received = sender.transport.receive(&mut sender.input)?;
    let whole = sender.input.len() / ACKNOWLEDGMENT_BYTES * ACKNOWLEDGMENT_BYTES;
    let last = sender.input[..whole].last_chunk::<ACKNOWLEDGMENT_BYTES>();
    if let Some(last) = last
        && let Some(link) = lock(&shared.state).links.get_mut(&number)
    {
        link.acknowledged = u64::from_le_bytes(*last).min(link.position);
        link.heard = Instant::now();
        member.wake_awaiting();
    }
    sender.input.drain(..whole);
    match received {
        Received::End => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

fn gone() -> io::Error {
    io::Error::other("it is not served any more")
}

fn slow() -> io::Error {
    io::Error::other("it is further behind than the backlog is long")
}

/// Fails for a replica that does not read its stream, or sends nothing.
fn check(shared: &Replicas, number: u64) -> io::Result<()> {
    let state = lock(&shared.state);
    let link = state.links.get(&number).ok_or_else(gone)?;
    match link.phase {
        Phase::Waiting => Ok(()),
        _ if link.heard.elapsed() > SILENCE_MAX => Err(io::ErrorKind::TimedOut.into()),
        _ if link.position < state.backlog.start() => Err(slow()),
        _ => Ok(()),
    }
}

/// Fetches the bytes to send next.
fn fill(
    shared: &Replicas,
    member: &GroupMember,
    number: u64,
    sender: &mut Sender,
) -> io::Result<()> {
    let mut state = lock(&shared.state);
    let LinkTable { backlog, links, .. } = &mut *state;
    let link = links.get_mut(&number).ok_or_else(gone)?;
    if link.phase == Phase::Waiting {
        if sender.pinged.elapsed() >= PING {
            sender.pinged = Instant::now();
            sender.output.push(b'\n');
        }
        return Ok(());
    }
    if !link.copy.is_empty() {
        sender.output.append(&mut link.copy);
        link.copy.shrink_to(2 * COPY_BYTES);
        if link.phase == Phase::Copying {
            member.waker().wake();
        }
    }
    let room = OUTPUT_BYTES.saturating_sub(sender.output.len());
    let copied = backlog.copy(link.position, link.limit, room, &mut sender.output);
    link.position += copied.ok_or_else(slow)? as u64;
    Ok(())
}
