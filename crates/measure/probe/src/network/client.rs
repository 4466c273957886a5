//! The end that measures.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use overside_device::threads::thread_cpu_ns;
use overside_link::agent::CancellationToken;
use rustix::event::epoll::EventFlags;
use rustix::net::sockopt;

use super::arrivals::{ArrivalFigures, Expected, Timeline};
use super::clock_offset::{ClockOffset, ClockRelation, Echo};
use super::connection::{ReadBuffer, WriteBuffer, gone};
use super::event_loop::EventLoop;
use super::group::{Group, Link, PassContext, PassWork};
use super::pass::{Limit, OneWay, Pass, Slice, slices_can_be};
use super::pattern::BytePattern;
use super::wire::{self, Counts, REPORTS, Reply, Request};
use super::{
    Error, Plan, Protocol, SLICES_MAX, Traffic, nanoseconds, paced, round_trips, streams,
    thread_setup,
};
use crate::counters::{Counters, Events};
use crate::latency::Latencies;

/// Longest time to wait for an answer of the other end.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// Longest time that a server may take to answer one request for counts.
const PATIENCE_MAX: Duration = Duration::from_secs(1);
/// Datagrams that do not come within this time after the others are lost.
const DATAGRAM_PATIENCE: Duration = Duration::from_millis(250);
/// Echoes that relate the two ends' clocks, before and after a paced pass.
const ECHOES: usize = 32;

/// The end that sends, with all connections open.
pub struct Client {
    plan: Plan,
    reports: TcpStream,
    groups: Vec<Group>,
    pattern: BytePattern,
    /// Bytes that the server has had so far.
    arrived: u64,
    cancelled: CancellationToken,
}

/// Ends a client's pass.
pub struct Interrupter {
    cancelled: CancellationToken,
    /// Connection for reports, on which the client may be waiting.
    reports: TcpStream,
}

impl Interrupter {
    /// [`Client::pass`] fails soon, and the client is of no use any more.
    pub fn interrupt(&self) {
        self.cancelled.cancel();
        // If it is already closed, no thread waits for it.
        let _ = self.reports.shutdown(std::net::Shutdown::Both);
    }
}

impl Client {
    /// Opens the connections.
    ///
    /// # Errors
    /// [`Error::Bound`], [`Error::Unreachable`], [`Error::Stranger`], [`Error::System`].
    pub fn open(plan: Plan) -> Result<Self, Error> {
        Self::open_for(plan, CancellationToken::default())
    }

    /// Variant of [`Client::open`] for a requester that may go: then this fails, and [`Client::pass`] as well.
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
        let (reports, _) = connect(&plan, REPORTS)?;
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
            let (stream, datagrams) = connect(&plan, index as u32)?;
            stream.set_nonblocking(true).map_err(Error::system("a connection"))?;
            let group = &mut groups[index % plan.load.threads];
            let interest = EventFlags::IN;
            match &datagrams {
                Some(socket) => group.events.add(socket, interest)?,
                None => group.events.add(&stream, interest)?,
            }
            group.links.push(Link {
                index,
                stream,
                datagrams,
                read_buffer: ReadBuffer::new(plan.load.message_bytes),
                write_buffer: WriteBuffer::new(&pattern, plan.batch),
                sent: 0,
                returned: 0,
                interest,
            });
        }
        reports.set_read_timeout(Some(ANSWER_TIME)).map_err(Error::system("a connection"))?;
        // Who is not the other end of this test hangs up or says something else.
        let address = plan.destination;
        ask_counts(&reports, 0, PATIENCE_MAX, plan.load.connections)
            .map_err(|_| Error::Stranger { address })?;
        Ok(Self { plan, reports, groups, pattern, arrived: 0, cancelled })
    }

    /// Returns a handle that ends a pass from another thread.
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

    /// Sends until `limit` is reached and waits for all messages on their way, but not beyond
    /// `deadline`. Calls `started` when the threads that send begin.
    ///
    /// # Errors
    /// [`Error::Wrong`], [`Error::Closed`], [`Error::Timeout`], [`Error::System`]. The client is of
    /// no use afterwards.
    pub fn pass(
        &mut self,
        limit: Limit,
        deadline: Instant,
        started: impl FnOnce(),
    ) -> Result<Pass, Error> {
        let before = self.counts(0)?;
        let already: Vec<u64> = self.links().map(|link| link.sent).collect();
        let origin = Instant::now();
        let clocks = match self.plan.load.is_paced() {
            true => Some(self.begin_paced(limit, &already, origin)?),
            false => None,
        };
        let gate = Barrier::new(self.groups.len() + 1);
        let (plan, pattern, cancelled) = (&self.plan, &self.pattern, &self.cancelled);
        let reports = &self.reports;
        let connections = plan.load.connections;
        // All threads share one beginning.
        let begun = OnceLock::new();
        let (done, mut slices, start) = std::thread::scope(|scope| {
            let (gate, begun) = (&gate, &begun);
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
                            start: *begun.get_or_init(Instant::now),
                            deadline,
                            cancelled,
                        };
                        let counters = plan.events.then(Counters::open);
                        counters.iter().for_each(Counters::start);
                        let cpu = thread_cpu_ns();
                        let mut done = match plan.load.traffic {
                            Traffic::RoundTrips => round_trips::run(group, &task),
                            Traffic::Stream if plan.load.is_paced() => paced::run(group, &task),
                            Traffic::Stream => streams::run(group, &task),
                        }?;
                        done.cpu_ns = thread_cpu_ns() - cpu;
                        counters.iter().for_each(Counters::stop);
                        done.events = counters.map(Counters::events);
                        Ok::<_, Error>(done)
                    })
                })
                .collect();
            let start = Instant::now();
            gate.wait();
            started();
            let still = || threads.iter().any(|thread| !thread.is_finished());
            let slices = match (plan.load.traffic, plan.slice) {
                (Traffic::Stream, Some(length)) if !plan.load.is_paced() => {
                    watch(reports, connections, length, start, still)
                }
                _ => Ok(Vec::new()),
            };
            let done: Result<Vec<PassWork>, Error> = threads
                .into_iter()
                .map(|thread| thread.join().expect("a sending thread does not panic"))
                .collect();
            Ok::<_, Error>((done?, slices?, start))
        })?;
        let sent: Vec<u64> =
            (self.links().zip(&already)).map(|(link, before)| link.sent - before).collect();
        let messages: u64 = sent.iter().sum();
        let target = self.arrived + messages * self.plan.load.message_bytes as u64;
        let (after, ended) = self.settle(target, deadline)?;
        self.arrived = after.bytes();
        let end = match self.plan.load.traffic {
            Traffic::RoundTrips => done.iter().filter_map(|done| done.end).max(),
            Traffic::Stream => Some(ended),
        };
        let mut latencies = Latencies::new();
        for one in &done {
            merge(&mut slices, &one.slices);
            latencies.add(&one.latencies);
        }
        let bytes_of = |messages: &u64| messages * self.plan.load.message_bytes as u64;
        let connection_bytes: Vec<u64> = sent.iter().map(bytes_of).collect();
        let mut pass = Pass {
            start,
            elapsed: end.unwrap_or(ended) - start,
            messages,
            bytes: connection_bytes.iter().sum(),
            connection_bytes,
            writes: done.iter().map(|done| done.writes).sum(),
            client_cpu: Duration::from_nanos(done.iter().map(|done| done.cpu_ns).sum()),
            server_cpu: Duration::from_nanos(after.cpu_ns.saturating_sub(before.cpu_ns)),
            late: done.iter().map(|done| done.late).sum(),
            events: Events::of_all(done.iter().filter_map(|done| done.events.clone())),
            slices,
            latencies,
            one_way: None,
            started_ns: 0,
        };
        if let Some(clock_before) = clocks {
            pass.start = begun.get().copied().unwrap_or(start);
            self.finish_paced(&mut pass, (clock_before, origin), sent)?;
        }
        Ok(pass)
    }

    /// Relates the clocks, and announces the messages to the receiver.
    fn begin_paced(
        &self,
        limit: Limit,
        already: &[u64],
        origin: Instant,
    ) -> Result<ClockOffset, Error> {
        let most = self.plan.intervals().most(limit);
        let offset = self.clock_offset(origin)?;
        let expected = |&first: &u64| Expected { first, most };
        let request = Request::Begin(already.iter().map(expected).collect());
        match ask(&self.reports, &request)? {
            Reply::Begun => Ok(offset),
            other => Err(no_answer(other)),
        }
    }

    /// Adds the receiver's figures of a paced pass's messages.
    fn finish_paced(
        &self,
        pass: &mut Pass,
        (before, origin): (ClockOffset, Instant),
        sent: Vec<u64>,
    ) -> Result<(), Error> {
        let after = self.clock_offset(origin)?;
        let clocks = ClockRelation::between(before, after).ok_or_else(|| {
            Error::Wrong("the clocks of the two ends drift apart as no clocks do".into())
        })?;
        let request = Request::Arrivals(Timeline {
            start_ns: clocks.there_ns(nanoseconds(pass.start - origin)),
            drift: clocks.drift,
            step_ns: self.plan.intervals().step_ns,
            slice_ns: self.plan.slice.map(nanoseconds),
            sent: sent.clone(),
        });
        let figures = match ask(&self.reports, &request)? {
            Reply::Arrivals(figures) => *figures,
            other => return Err(no_answer(other)),
        };
        figures_can_be(&figures, &sent)?;
        let message_bytes = self.plan.load.message_bytes as u64;
        pass.messages = figures.received.iter().sum();
        if pass.messages == 0 {
            let sent: u64 = sent.iter().sum();
            return Err(Error::Timeout(format!("none of {sent} messages had come")));
        }
        pass.connection_bytes =
            (figures.received.iter()).map(|messages| messages * message_bytes).collect();
        pass.bytes = pass.connection_bytes.iter().sum();
        pass.elapsed = Duration::from_nanos(figures.last_ns.max(1));
        pass.slices = figures.slices;
        for slice in &mut pass.slices {
            slice.bytes = slice.messages * message_bytes;
        }
        pass.latencies = figures.delays;
        pass.one_way = Some(OneWay {
            sent: sent.iter().sum(),
            duplicates: figures.duplicates,
            reordered: figures.reordered,
            clock_error_ns: clocks.error_ns,
            drift: clocks.drift,
            drift_error: clocks.drift_error,
        });
        Ok(())
    }

    /// Measures the offset between the receiver's clock and the time since `origin`.
    fn clock_offset(&self, origin: Instant) -> Result<ClockOffset, Error> {
        let echo = || {
            let sent_ns = nanoseconds(origin.elapsed());
            match ask(&self.reports, &Request::Clock)? {
                Reply::Clock(there_ns) => {
                    Ok(Echo { sent_ns, there_ns, back_ns: nanoseconds(origin.elapsed()) })
                }
                other => Err(no_answer(other)),
            }
        };
        let echoes = (0..ECHOES).map(|_| echo()).collect::<Result<Vec<_>, _>>()?;
        let none = || Error::Wrong("no echo came back".into());
        ClockOffset::estimate(&echoes).ok_or_else(none)
    }

    /// All links in the order of their numbers.
    fn links(&self) -> impl Iterator<Item = &Link> {
        let groups = self.groups.len();
        (0..self.plan.load.connections)
            .map(move |index| &self.groups[index % groups].links[index / groups])
    }

    /// Waits until the server has had `target` bytes, and all of them were right. Datagrams that
    /// are missing when no more come are lost.
    fn settle(&self, target: u64, deadline: Instant) -> Result<(Counts, Instant), Error> {
        let is_lossy = self.plan.load.protocol == Protocol::Udp;
        let mut before = None;
        loop {
            let counts = match is_lossy {
                true => self.counts_within(target, DATAGRAM_PATIENCE)?,
                false => self.counts(target)?,
            };
            let now = Instant::now();
            if counts.wrong > 0 {
                return Err(Error::Wrong(format!(
                    "{} of {} messages were not what was sent when they came",
                    counts.wrong, counts.messages
                )));
            }
            let bytes = counts.bytes();
            if bytes > target {
                let text = format!("{bytes} bytes came of {target} that were sent");
                return Err(Error::Wrong(text));
            }
            let no_more_come = is_lossy && before == Some(bytes);
            if bytes == target || no_more_come {
                return Ok((counts, now));
            }
            if self.cancelled.is_cancelled() {
                return Err(Error::Closed);
            }
            if now >= deadline {
                let missing = target - bytes;
                return Err(Error::Timeout(format!("{missing} bytes had not come")));
            }
            before = Some(bytes);
        }
    }

    fn counts(&self, bytes: u64) -> Result<Counts, Error> {
        self.counts_within(bytes, PATIENCE_MAX)
    }

    fn counts_within(&self, bytes: u64, patience: Duration) -> Result<Counts, Error> {
        ask_counts(&self.reports, bytes, patience, self.plan.load.connections)
    }
}

/// Connects and sends the connection's number; with a socket for its datagrams, if they carry the
/// messages.
fn connect(plan: &Plan, index: u32) -> Result<(TcpStream, Option<UdpSocket>), Error> {
    let address = plan.destination;
    let mut stream = TcpStream::connect_timeout(&address, ANSWER_TIME)
        .map_err(|source| Error::Unreachable { address, source })?;
    let failed = || Error::system(format!("the connection to {address}"));
    let is_udp = plan.load.protocol == Protocol::Udp && index != REPORTS;
    if let (Some(bytes), true) = (plan.load.socket_buffer, index != REPORTS) {
        let sized = sockopt::set_socket_recv_buffer_size(&stream, bytes)
            .and_then(|()| sockopt::set_socket_send_buffer_size(&stream, bytes));
        sized.map_err(|error| failed()(error.into()))?;
    }
    stream.set_nodelay(true).map_err(failed())?;
    if !is_udp {
        let greeting = wire::greeting(plan.secret, index, 0);
        stream.write_all(&greeting).map_err(gone)?;
        return Ok((stream, None));
    }
    let here = stream.local_addr().map_err(failed())?.ip();
    let socket = UdpSocket::bind(SocketAddr::new(here, 0)).map_err(failed())?;
    let port = socket.local_addr().map_err(failed())?.port();
    let greeting = wire::greeting(plan.secret, index, port);
    stream.write_all(&greeting).map_err(gone)?;
    stream.set_read_timeout(Some(ANSWER_TIME)).map_err(failed())?;
    let mut theirs = [0; 2];
    let stranger = |_| Error::Stranger { address };
    stream.read_exact(&mut theirs).map_err(stranger)?;
    let there = SocketAddr::new(address.ip(), u16::from_le_bytes(theirs));
    socket.connect(there).map_err(failed())?;
    socket.set_nonblocking(true).map_err(failed())?;
    if let Some(bytes) = plan.load.socket_buffer {
        sockopt::set_socket_send_buffer_size(&socket, bytes)
            .map_err(|error| failed()(error.into()))?;
    }
    Ok((stream, Some(socket)))
}

fn ask(reports: &TcpStream, request: &Request) -> Result<Reply, Error> {
    wire::send(reports, request).map_err(gone)?;
    wire::receive(reports).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => Error::Wrong(error.to_string()),
        _ => gone(error),
    })
}

/// Requests the number of received bytes, once `bytes` have arrived or some time has passed.
fn ask_counts(
    reports: &TcpStream,
    bytes: u64,
    patience: Duration,
    connections: usize,
) -> Result<Counts, Error> {
    let patience_ms = patience.as_millis() as u32;
    match ask(reports, &Request::Counts { bytes, patience_ms })? {
        Reply::Counts(counts) if counts.received.len() == connections => Ok(counts),
        Reply::Counts(counts) => Err(Error::Wrong(format!(
            "the other end counts {} connections, not {connections}",
            counts.received.len()
        ))),
        other => Err(no_answer(other)),
    }
}

/// Converts an unexpected reply into an error.
fn no_answer(reply: Reply) -> Error {
    match reply {
        Reply::Refused(reason) => Error::Wrong(format!("the other end refuses: {reason}")),
        _ => Error::Wrong("the other end answers something else".into()),
    }
}

/// Checks that the receiver's figures are plausible. `sent` is the number of messages sent on each
/// connection.
fn figures_can_be(figures: &ArrivalFigures, sent: &[u64]) -> Result<(), Error> {
    let received = &figures.received;
    let total = received.iter().try_fold(0u64, |sum, &one| sum.checked_add(one));
    let is_right = received.len() == sent.len()
        && received.iter().zip(sent).all(|(came, sent)| came <= sent)
        && total == Some(figures.delays.count())
        && slices_can_be(&figures.slices)
        && figures.reordered <= figures.delays.count();
    match is_right {
        true => Ok(()),
        false => Err(Error::Wrong("what the other end says of the messages cannot be".into())),
    }
}

/// Requests the number of received bytes repeatedly while the threads send.
fn watch(
    reports: &TcpStream,
    connections: usize,
    length: Duration,
    start: Instant,
    still: impl Fn() -> bool,
) -> Result<Vec<Slice>, Error> {
    let count = || ask_counts(reports, 0, PATIENCE_MAX, connections);
    let first = count()?;
    // From here on by the server's clock, which knows when the bytes came.
    let offset = start.elapsed();
    let first_ns = first.clock_ns;
    let (mut slices, mut before) = (Vec::new(), first);
    let mut next = offset + length;
    while still() && slices.len() < SLICES_MAX {
        std::thread::sleep(next.saturating_sub(start.elapsed()));
        let now = count()?;
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
