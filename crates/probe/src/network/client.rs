//! The end that measures.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use overside_device::threads::thread_cpu_ns;
use overside_link::agent::CancellationToken;
use overside_link::codec;
use rustix::event::epoll::EventFlags;
use rustix::net::sockopt;
use serde::{Deserialize, Serialize};

use super::connection::{ReadBuffer, WriteBuffer, gone};
use super::event_loop::EventLoop;
use super::pattern::BytePattern;
use super::wire::{self, Counts, Question, REPORTS};
use super::{
    CONNECTIONS_MAX, Error, Plan, SLICES_MAX, SLICES_SENT_MAX, Traffic, nanoseconds, round_trips,
    streams, thread_setup,
};
use crate::latency::Latencies;

/// How long the other end may take to answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// The most patience that is asked of a server at a time.
const PATIENCE_MAX: Duration = Duration::from_secs(1);

/// When to stop sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// After so many messages on each connection.
    Messages(u64),
    /// When so much time has passed; each connection sends at least one message.
    Time(Duration),
}

/// What was sent and checked in one pass. It is sent from one machine to another as it is, but for
/// when it began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pass {
    /// When it began; of one that came from another machine, when it came.
    #[serde(skip, default = "Instant::now")]
    pub start: Instant,
    /// From before the first message until the last came back, or until the server had all.
    #[serde(rename = "elapsed_ns", with = "as_nanoseconds")]
    pub elapsed: Duration,
    /// Messages that came back right, or that the server has found right.
    pub messages: u64,
    /// Their bytes; of a round trip in one direction.
    pub bytes: u64,
    /// The same by connection.
    #[serde(deserialize_with = "codec::list::<_, _, CONNECTIONS_MAX>")]
    pub connection_bytes: Vec<u64>,
    /// Writes that took at least one byte.
    pub writes: u64,
    /// CPU time of the client's threads.
    #[serde(rename = "client_cpu_ns", with = "as_nanoseconds")]
    pub client_cpu: Duration,
    /// CPU time of the server's threads.
    #[serde(rename = "server_cpu_ns", with = "as_nanoseconds")]
    pub server_cpu: Duration,
    /// With a rate: messages that were sent more than a millisecond after their time.
    pub late: u64,
    /// The pass in slices, if the plan asks for them.
    #[serde(deserialize_with = "codec::list::<_, _, SLICES_SENT_MAX>")]
    pub slices: Vec<Slice>,
    /// Of each round trip. With a rate it begins at the intended time of sending.
    pub latencies: Latencies,
}

/// A part of a pass; sent as its fields in this order, times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "[u64; 6]", into = "[u64; 6]")]
pub struct Slice {
    /// When it ends, from the beginning of the pass.
    pub end: Duration,
    /// How long it is.
    pub length: Duration,
    /// Bytes that came in it.
    pub bytes: u64,
    /// Round trips that ended in it.
    pub messages: u64,
    /// Sum of their latencies in nanoseconds.
    pub latency_sum_ns: u64,
    /// The longest of them.
    pub latency_max_ns: u64,
}

impl From<[u64; 6]> for Slice {
    fn from([end, length, bytes, messages, latency_sum_ns, latency_max_ns]: [u64; 6]) -> Self {
        Self {
            end: Duration::from_nanos(end),
            length: Duration::from_nanos(length.max(1)),
            bytes,
            messages,
            latency_sum_ns,
            latency_max_ns,
        }
    }
}

impl From<Slice> for [u64; 6] {
    fn from(slice: Slice) -> Self {
        [
            nanoseconds(slice.end),
            nanoseconds(slice.length),
            slice.bytes,
            slice.messages,
            slice.latency_sum_ns,
            slice.latency_max_ns,
        ]
    }
}

/// A duration as a number of nanoseconds.
mod as_nanoseconds {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(
        duration: &std::time::Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        super::nanoseconds(*duration).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<std::time::Duration, D::Error> {
        u64::deserialize(deserializer).map(std::time::Duration::from_nanos)
    }
}

/// The end that sends, with all connections open.
pub struct Client {
    plan: Plan,
    reports: TcpStream,
    groups: Vec<Group>,
    pattern: BytePattern,
    /// Bytes that the server has had so far.
    sent: u64,
    cancelled: CancellationToken,
}

/// Ends a client's pass.
pub struct Interrupter {
    cancelled: CancellationToken,
    /// What the client may be waiting for.
    reports: TcpStream,
}

impl Interrupter {
    /// [`Client::pass`] fails soon, and the client is of no use any more.
    pub fn interrupt(&self) {
        self.cancelled.cancel();
        // If it is closed already, nobody waits for it.
        let _ = self.reports.shutdown(std::net::Shutdown::Both);
    }
}

/// The connections of one thread.
pub(super) struct Group {
    pub events: EventLoop,
    pub links: Vec<Link>,
    pub core: Option<usize>,
}

/// A data connection as the client has it.
pub(super) struct Link {
    /// Among all of the session.
    pub index: usize,
    pub stream: TcpStream,
    pub read_buffer: ReadBuffer,
    pub write_buffer: WriteBuffer,
    /// Messages put into the write buffer so far, and messages that came back.
    pub sent: u64,
    pub returned: u64,
    pub interest: EventFlags,
}

/// What one thread did in a pass.
#[derive(Default)]
pub(super) struct Done {
    pub end: Option<Instant>,
    pub messages: u64,
    pub writes: u64,
    pub late: u64,
    pub cpu_ns: u64,
    pub slices: Vec<Slice>,
    pub latencies: Latencies,
}

/// What every thread of a pass knows.
pub(super) struct PassContext<'a> {
    pub plan: &'a Plan,
    pub pattern: &'a BytePattern,
    pub limit: Limit,
    pub start: Instant,
    pub deadline: Instant,
    pub cancelled: &'a CancellationToken,
}

impl Client {
    /// Opens the connections.
    ///
    /// # Errors
    /// [`Error::Bound`], [`Error::Unreachable`], [`Error::Stranger`], [`Error::System`].
    pub fn open(plan: Plan) -> Result<Self, Error> {
        Self::open_for(plan, CancellationToken::default())
    }

    /// The same for somebody who may go: then it gives up, [`Client::pass`] as well.
    ///
    /// # Errors
    /// The same, and [`Error::Closed`].
    pub fn open_for(plan: Plan, cancelled: CancellationToken) -> Result<Self, Error> {
        plan.check()?;
        let Some(namespace) = plan.namespace.clone() else {
            return Self::connect(plan, cancelled);
        };
        // A thread of its own enters the namespace; sockets stay where they were made.
        std::thread::scope(|scope| {
            let opened = scope.spawn(move || {
                thread_setup::enter(&namespace)?;
                Self::connect(plan, cancelled)
            });
            opened.join().expect("opening connections does not panic")
        })
    }

    fn connect(plan: Plan, cancelled: CancellationToken) -> Result<Self, Error> {
        let reports = connect(&plan, REPORTS)?;
        let pattern = BytePattern::new(plan.load.message_bytes, plan.load.seed);
        let mut groups: Vec<Group> = (0..plan.load.threads)
            .map(|thread| {
                let cores = plan.cores.as_deref().unwrap_or(&[]);
                Ok(Group {
                    events: EventLoop::new(plan.load.waiting)?,
                    links: Vec::new(),
                    core: cores.get(thread % cores.len().max(1)).copied(),
                })
            })
            .collect::<Result<_, Error>>()?;
        for index in 0..plan.load.connections {
            if cancelled.is_cancelled() {
                return Err(Error::Closed);
            }
            let stream = connect(&plan, index as u32)?;
            stream
                .set_nonblocking(true)
                .map_err(Error::system("a connection"))?;
            let group = &mut groups[index % plan.load.threads];
            let interest = EventFlags::IN;
            group.events.add(&stream, interest)?;
            group.links.push(Link {
                index,
                stream,
                read_buffer: ReadBuffer::new(plan.load.message_bytes),
                write_buffer: WriteBuffer::new(&pattern, plan.batch),
                sent: 0,
                returned: 0,
                interest,
            });
        }
        reports
            .set_read_timeout(Some(ANSWER_TIME))
            .map_err(Error::system("a connection"))?;
        // Who is not the other end of this test hangs up or says something else.
        let address = plan.destination;
        ask(&reports, 0, plan.load.connections).map_err(|_| Error::Stranger { address })?;
        Ok(Self {
            plan,
            reports,
            groups,
            pattern,
            sent: 0,
            cancelled,
        })
    }

    /// What ends a pass from another thread.
    ///
    /// # Errors
    /// [`Error::System`]: no descriptor is left.
    pub fn interrupter(&self) -> Result<Interrupter, Error> {
        let reports = self.reports.try_clone();
        Ok(Interrupter {
            cancelled: self.cancelled.clone(),
            reports: reports.map_err(Error::system("a connection"))?,
        })
    }

    /// Sends for as long as `limit` says and waits for all that is on its way, but not beyond
    /// `deadline`.
    ///
    /// # Errors
    /// [`Error::Wrong`], [`Error::Closed`], [`Error::Timeout`], [`Error::System`]. The client is of
    /// no use afterwards.
    pub fn pass(&mut self, limit: Limit, deadline: Instant) -> Result<Pass, Error> {
        let before = self.counts(0)?;
        let already: Vec<u64> = self.links().map(|link| link.sent).collect();
        let gate = Barrier::new(self.groups.len() + 1);
        let (plan, pattern, cancelled) = (&self.plan, &self.pattern, &self.cancelled);
        let reports = &self.reports;
        let connections = plan.load.connections;
        let (done, mut slices, start) = std::thread::scope(|scope| {
            let gate = &gate;
            let threads: Vec<_> = (self.groups.iter_mut())
                .map(|group| {
                    scope.spawn(move || {
                        let pinned = group.core.map_or(Ok(()), thread_setup::pin);
                        gate.wait();
                        pinned?;
                        let task = PassContext {
                            plan,
                            pattern,
                            limit,
                            start: Instant::now(),
                            deadline,
                            cancelled,
                        };
                        let cpu = thread_cpu_ns();
                        let mut done = match plan.load.traffic {
                            Traffic::RoundTrips => round_trips::run(group, &task),
                            Traffic::Stream => streams::run(group, &task),
                        }?;
                        done.cpu_ns = thread_cpu_ns() - cpu;
                        Ok::<_, Error>(done)
                    })
                })
                .collect();
            let start = Instant::now();
            gate.wait();
            let still = || threads.iter().any(|thread| !thread.is_finished());
            let slices = match (plan.load.traffic, plan.slice) {
                (Traffic::Stream, Some(length)) => {
                    watch(reports, connections, length, start, still)
                }
                _ => Ok(Vec::new()),
            };
            let done: Result<Vec<Done>, Error> = threads
                .into_iter()
                .map(|thread| thread.join().expect("a sending thread does not panic"))
                .collect();
            Ok::<_, Error>((done?, slices?, start))
        })?;
        let sent: u64 = (self.links().zip(&already))
            .map(|(link, before)| link.sent - before)
            .sum();
        self.sent += sent * self.plan.load.message_bytes as u64;
        let (after, ended) = self.settle(deadline)?;
        let end = match self.plan.load.traffic {
            Traffic::RoundTrips => done.iter().filter_map(|done| done.end).max(),
            Traffic::Stream => Some(ended),
        };
        let mut latencies = Latencies::new();
        for one in &done {
            merge(&mut slices, &one.slices);
            latencies.add(&one.latencies);
        }
        let connection_bytes = (self.links().zip(&already))
            .map(|(link, before)| (link.sent - before) * self.plan.load.message_bytes as u64)
            .collect::<Vec<_>>();
        Ok(Pass {
            start,
            elapsed: end.unwrap_or(ended) - start,
            messages: sent,
            bytes: connection_bytes.iter().sum(),
            connection_bytes,
            writes: done.iter().map(|done| done.writes).sum(),
            client_cpu: Duration::from_nanos(done.iter().map(|done| done.cpu_ns).sum()),
            server_cpu: Duration::from_nanos(after.cpu_ns.saturating_sub(before.cpu_ns)),
            late: done.iter().map(|done| done.late).sum(),
            slices,
            latencies,
        })
    }

    /// All links in the order of their numbers.
    fn links(&self) -> impl Iterator<Item = &Link> {
        let groups = self.groups.len();
        (0..self.plan.load.connections)
            .map(move |index| &self.groups[index % groups].links[index / groups])
    }

    /// Waits until the server has everything that was sent, and that all of it was right.
    fn settle(&self, deadline: Instant) -> Result<(Counts, Instant), Error> {
        loop {
            let counts = self.counts(self.sent)?;
            let now = Instant::now();
            if counts.wrong > 0 {
                return Err(Error::Wrong(format!(
                    "{} of {} messages were not what was sent when they came",
                    counts.wrong, counts.messages
                )));
            }
            let bytes = counts.bytes();
            if bytes >= self.sent {
                return match bytes == self.sent {
                    true => Ok((counts, now)),
                    false => Err(Error::Wrong(format!(
                        "{bytes} bytes came of {} that were sent",
                        self.sent
                    ))),
                };
            }
            if self.cancelled.is_cancelled() {
                return Err(Error::Closed);
            }
            if now >= deadline {
                let missing = self.sent - bytes;
                return Err(Error::Timeout(format!("{missing} bytes had not come")));
            }
        }
    }

    fn counts(&self, bytes: u64) -> Result<Counts, Error> {
        ask(&self.reports, bytes, self.plan.load.connections)
    }
}

/// Connects and says which connection it is.
fn connect(plan: &Plan, index: u32) -> Result<TcpStream, Error> {
    let address = plan.destination;
    let stream = TcpStream::connect_timeout(&address, ANSWER_TIME)
        .map_err(|source| Error::Unreachable { address, source })?;
    let failed = || Error::system(format!("the connection to {address}"));
    if let (Some(bytes), true) = (plan.load.socket_buffer, index != REPORTS) {
        let sized = sockopt::set_socket_recv_buffer_size(&stream, bytes)
            .and_then(|()| sockopt::set_socket_send_buffer_size(&stream, bytes));
        sized.map_err(|error| failed()(error.into()))?;
    }
    stream.set_nodelay(true).map_err(failed())?;
    let greeting = wire::greeting(plan.secret, index);
    (&stream).write_all(&greeting).map_err(gone)?;
    Ok(stream)
}

/// Asks how much has come, once `bytes` have or some patience is over.
fn ask(reports: &TcpStream, bytes: u64, connections: usize) -> Result<Counts, Error> {
    let question = Question {
        bytes,
        patience_ms: PATIENCE_MAX.as_millis() as u32,
    };
    wire::send(reports, &question).map_err(gone)?;
    let counts: Counts = wire::receive(reports).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => Error::Wrong(error.to_string()),
        _ => gone(error),
    })?;
    match counts.received.len() == connections {
        true => Ok(counts),
        false => Err(Error::Wrong(format!(
            "the other end counts {} connections, not {connections}",
            counts.received.len()
        ))),
    }
}

/// Asks the server again and again how much has come, as long as the threads send.
fn watch(
    reports: &TcpStream,
    connections: usize,
    length: Duration,
    start: Instant,
    still: impl Fn() -> bool,
) -> Result<Vec<Slice>, Error> {
    let first = ask(reports, 0, connections)?;
    // From here on by the server's clock, which knows when the bytes came.
    let offset = start.elapsed();
    let first_ns = first.clock_ns;
    let (mut slices, mut before) = (Vec::new(), first);
    let mut next = offset + length;
    while still() && slices.len() < SLICES_MAX {
        std::thread::sleep(next.saturating_sub(start.elapsed()));
        let now = ask(reports, 0, connections)?;
        let end = offset + Duration::from_nanos(now.clock_ns.saturating_sub(first_ns));
        slices.push(Slice {
            end,
            length: Duration::from_nanos(now.clock_ns.saturating_sub(before.clock_ns)),
            bytes: now.bytes().saturating_sub(before.bytes()),
            messages: now.messages.saturating_sub(before.messages),
            ..Slice::default()
        });
        before = now;
        next = (next + length).max(start.elapsed());
    }
    Ok(slices)
}

/// Adds one thread's slices to those of the others.
fn merge(all: &mut Vec<Slice>, one: &[Slice]) {
    for (index, slice) in one.iter().enumerate() {
        match all.get_mut(index) {
            None => all.push(*slice),
            Some(sum) => {
                sum.bytes += slice.bytes;
                sum.messages += slice.messages;
                sum.latency_sum_ns += slice.latency_sum_ns;
                sum.latency_max_ns = sum.latency_max_ns.max(slice.latency_max_ns);
            }
        }
    }
}
