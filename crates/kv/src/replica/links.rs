//! A primary's replicas: a thread that sends them what there is.

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
use crate::server::transport::{Received, Transport};

/// Bytes that wait in a replica's output at most, beside the copy.
const OUTPUT_BYTES: usize = 256 << 10;
/// Bytes of a copy that wait for a replica.
pub(super) const COPY_BYTES: usize = 1 << 20;
/// A replica that says nothing for so long is dropped.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// One that says nothing for so long is not waited for at the end; it does once a second.
const SILENCE_AT_THE_END_MAX: Duration = Duration::from_secs(3);
/// How often one that waits for its copy hears so.
const PING: Duration = Duration::from_secs(1);
/// Most replicas.
pub(super) const REPLICAS_MAX: usize = 16;
/// What a replica says: how much it has executed.
pub(super) const ACKNOWLEDGMENT_BYTES: usize = 8;

/// A replica's connection, as the server hands it over.
pub struct ReplicaConnection {
    transport: Transport,
    unsent: Vec<u8>,
    address: String,
}

impl ReplicaConnection {
    pub(crate) fn new(transport: Transport, unsent: Vec<u8>, address: String) -> Self {
        Self {
            transport,
            unsent,
            address,
        }
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }
}

impl std::fmt::Debug for ReplicaConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ReplicaConnection")
            .field(&self.address)
            .finish()
    }
}

/// How far a replica is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Waiting,
    Copying,
    Online,
}

/// A replica, as both threads see it.
#[derive(Debug)]
pub(super) struct Link {
    /// Which replica it is.
    pub replica: String,
    pub host: String,
    pub port: u16,
    pub phase: Phase,
    /// Where in the history it goes on, and where it must stop until more of the copy has been sent.
    pub position: u64,
    pub limit: u64,
    /// What is sent before the history.
    pub copy: Vec<u8>,
    pub acknowledged: u64,
    pub heard: Instant,
}

/// What both threads have.
#[derive(Debug)]
pub(super) struct Shared {
    pub state: Mutex<State>,
    /// For the thread that sends.
    pub event: EventFd,
    /// For the threads that serve.
    member: GroupMember,
}

impl Shared {
    /// Which replicas have executed and kept what is before `end`.
    pub fn acknowledged(&self, end: u64) -> Vec<String> {
        let state = lock(&self.state);
        let links = state.links.values();
        let have = links.filter(|link| link.acknowledged >= end.max(1));
        have.map(|link| link.replica.clone()).collect()
    }
}

#[derive(Debug)]
pub(super) struct State {
    pub backlog: Backlog,
    pub links: HashMap<u64, Link>,
    incoming: Vec<(u64, ReplicaConnection)>,
    is_ended: bool,
}

/// The thread. It ends when this is dropped, and the connections with it.
#[derive(Debug)]
pub(super) struct Links {
    pub shared: Arc<Shared>,
    next: u64,
}

impl Links {
    pub fn start(backlog_bytes: usize, member: &GroupMember) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                backlog: Backlog::new(backlog_bytes),
                links: HashMap::new(),
                incoming: Vec::new(),
                is_ended: false,
            }),
            event: EventFd::new()?,
            member: member.clone(),
        });
        member.set_links(&shared);
        let theirs = Arc::clone(&shared);
        let builder = Builder::new().name("kv-replicas".into());
        builder.spawn(move || run(&theirs))?;
        Ok(Self { shared, next: 0 })
    }

    /// Takes a replica's connection, in place of one that it had before.
    pub fn add(&mut self, connection: ReplicaConnection, link: Link) {
        let number = self.next;
        self.next += 1;
        let mut state = lock(&self.shared.state);
        state.links.retain(|_, other| other.replica != link.replica);
        state.links.insert(number, link);
        state.incoming.push((number, connection));
        drop(state);
        self.shared.event.signal();
    }

    pub fn append(&self, frames: &[u8]) {
        lock(&self.shared.state).backlog.append(frames);
        self.shared.event.signal();
    }

    /// Whether every replica that follows has executed everything, those left out that say nothing.
    pub fn have_all(&self) -> bool {
        let state = lock(&self.shared.state);
        let end = state.backlog.end();
        let is_there = |link: &&Link| {
            link.phase == Phase::Online && link.heard.elapsed() < SILENCE_AT_THE_END_MAX
        };
        let mut links = state.links.values().filter(is_there);
        links.all(|link| link.acknowledged >= end)
    }

    pub fn statuses(&self) -> Vec<ReplicaStatus> {
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

fn run(shared: &Shared) {
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
            let served = serve(shared, *number, sender);
            if let Err(error) = &served {
                let link = lock(&shared.state).links.remove(number);
                let host = link.map_or_else(String::new, |link| link.host);
                tracing::warn!(%host, "a replica is dropped: {error}");
                shared.member.bell().ring();
            }
            served.is_ok()
        });
    }
}

fn wait(shared: &Shared, senders: &HashMap<u64, Sender>) {
    let mut events = vec![PollFd::new(&shared.event, PollFlags::IN)];
    for sender in senders.values() {
        let has_output = sender.sent < sender.output.len() || sender.transport.has_unsent();
        let output = if has_output {
            PollFlags::OUT
        } else {
            PollFlags::empty()
        };
        events.push(PollFd::new(&sender.transport, PollFlags::IN | output));
    }
    let timeout = Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    // A signal ends the wait too; then nothing is there.
    let _ = poll(&mut events, Some(&timeout));
}

/// Reads and sends what can be.
fn serve(shared: &Shared, number: u64, sender: &mut Sender) -> io::Result<()> {
    receive(shared, number, sender)?;
    check(shared, number)?;
    loop {
        let unsent = sender.output.len() - sender.sent;
        if unsent < OUTPUT_BYTES {
            sender.output.drain(..sender.sent);
            sender.sent = 0;
            fill(shared, number, sender)?;
        }
        let sent = sender.transport.send(&sender.output[sender.sent..])?;
        sender.sent += sent;
        if sent == 0 {
            return Ok(());
        }
    }
}

fn receive(shared: &Shared, number: u64, sender: &mut Sender) -> io::Result<()> {
    sender.input.reserve(4096);
    let received = sender.transport.receive(&mut sender.input)?;
    let whole = sender.input.len() / ACKNOWLEDGMENT_BYTES * ACKNOWLEDGMENT_BYTES;
    let last = sender.input[..whole].last_chunk::<ACKNOWLEDGMENT_BYTES>();
    if let Some(last) = last
        && let Some(link) = lock(&shared.state).links.get_mut(&number)
    {
        link.acknowledged = u64::from_le_bytes(*last).min(link.position);
        link.heard = Instant::now();
        shared.member.wake_awaiting();
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

/// Finds a replica that does not take what it is sent, or says nothing.
fn check(shared: &Shared, number: u64) -> io::Result<()> {
    let state = lock(&shared.state);
    let link = state.links.get(&number).ok_or_else(gone)?;
    match link.phase {
        Phase::Waiting => Ok(()),
        _ if link.heard.elapsed() > SILENCE_MAX => Err(io::ErrorKind::TimedOut.into()),
        _ if link.position < state.backlog.start() => Err(slow()),
        _ => Ok(()),
    }
}

/// Takes what is sent next.
fn fill(shared: &Shared, number: u64, sender: &mut Sender) -> io::Result<()> {
    let mut state = lock(&shared.state);
    let State { backlog, links, .. } = &mut *state;
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
            shared.member.bell().ring();
        }
    }
    let room = OUTPUT_BYTES.saturating_sub(sender.output.len());
    let copied = backlog.copy(link.position, link.limit, room, &mut sender.output);
    link.position += copied.ok_or_else(slow)? as u64;
    Ok(())
}
