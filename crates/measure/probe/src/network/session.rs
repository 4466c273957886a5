//! The threads of the receiving end, and the bytes that came over its connections.

use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

use overside_base::{EventFd, lock};
use overside_device::threads::ThreadClock;
use rustix::event::epoll::EventFlags;

use super::arrivals::{ArrivalFigures, Arrivals, Expected, Timeline};
use super::connection::{ReadBuffer, write};
use super::event_loop::{EventLoop, waker};
use super::pattern::BytePattern;
use super::wire::Counts;
use super::{Error, Load, Traffic, nanoseconds, thread_setup};
use crate::closed_loop::CompletionMode;

/// Longest time that a thread sleeps before it checks whether the session has ended.
const SLEEP_MAX: Duration = Duration::from_millis(500);
/// Number of rounds over its connections after which a polling thread checks for new connections.
const ROUNDS_A_LOOK: u32 = 64;
/// Longest time that the counting thread waits for more bytes before it counts again.
const PARK_MAX: Duration = Duration::from_millis(50);
/// Reads from one connection before it is another's turn.
const READS_A_TURN: u32 = 16;
/// Reads of datagrams from one connection before it is another's turn.
const DATAGRAMS_A_TURN: u32 = 256;

/// State shared by the session's threads and the counting thread.
pub(super) struct Session {
    load: Load,
    pattern: BytePattern,
    workers: Vec<Worker>,
    stop: AtomicBool,
    /// Bytes of whole messages that came, by connection.
    received: Vec<AtomicU64>,
    /// Connections that are taken.
    taken: Mutex<Vec<bool>>,
    messages: AtomicU64,
    bytes: AtomicU64,
    wrong: AtomicU64,
    /// Number of bytes that the counting thread waits for; `u64::MAX` if it does not wait.
    target: AtomicU64,
    counting: Thread,
    started: Instant,
    running: AtomicUsize,
    /// Arrivals of the paced pass in progress.
    arrivals: RwLock<Arrivals>,
}

/// One thread's letter box and clock.
struct Worker {
    new: Mutex<Vec<(usize, TcpStream, Option<UdpSocket>)>>,
    waker: EventFd,
    clock: ThreadClock,
}

impl Session {
    /// Starts the threads; on `cores`, one after the other, if there are any. The thread that calls
    /// this counts.
    pub(super) fn start(
        load: Load,
        cores: Option<&[usize]>,
    ) -> Result<(Arc<Self>, Vec<JoinHandle<()>>), Error> {
        let workers = (0..load.threads).map(|_| {
            Ok(Worker { new: Mutex::default(), waker: waker()?, clock: ThreadClock::default() })
        });
        let session = Arc::new(Self {
            load,
            pattern: BytePattern::new(load.message_bytes, load.seed),
            workers: workers.collect::<Result<_, Error>>()?,
            stop: AtomicBool::new(false),
            received: (0..load.connections).map(|_| AtomicU64::new(0)).collect(),
            taken: Mutex::new(vec![false; load.connections]),
            messages: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
            target: AtomicU64::new(u64::MAX),
            counting: std::thread::current(),
            started: Instant::now(),
            running: AtomicUsize::new(0),
            arrivals: RwLock::default(),
        });
        let mut threads = Vec::new();
        for index in 0..session.workers.len() {
            let core = cores.and_then(|cores| cores.get(index % cores.len().max(1)).copied());
            match spawn(&session, index, core) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    session.end();
                    return Err(error);
                }
            }
        }
        Ok((session, threads))
    }

    /// Hands a connection to its thread. Returns `true` if the pass has a connection of that number
    /// that had not arrived.
    pub(super) fn take(&self, index: u32, stream: TcpStream, datagrams: Option<UdpSocket>) -> bool {
        let index = index as usize;
        let mut taken = lock(&self.taken);
        match taken.get_mut(index) {
            Some(taken) if !*taken => *taken = true,
            _ => return false,
        }
        drop(taken);
        let worker = &self.workers[index % self.workers.len()];
        lock(&worker.new).push((index, stream, datagrams));
        worker.waker.signal();
        true
    }

    /// Tells the threads to end.
    pub(super) fn end(&self) {
        self.stop.store(true, Ordering::Release);
        for worker in &self.workers {
            worker.waker.signal();
        }
    }

    /// Returns the time since the session started, in nanoseconds.
    pub(super) fn clock_ns(&self) -> u64 {
        nanoseconds(self.started.elapsed())
    }

    /// A paced pass begins; or why not.
    pub(super) fn begin(&self, expected: &[Expected]) -> Result<(), String> {
        let all = expected.iter().try_fold(0u64, |sum, one| sum.checked_add(one.most));
        let most = self.load.paced_messages.unwrap_or(0);
        if expected.len() != self.load.connections || all.is_none_or(|all| all > most) {
            return Err(format!(
                "messages on {} connections were to come, at most {most} together",
                self.load.connections
            ));
        }
        // The last pass's give their memory back first.
        *self.paced() = Arrivals::default();
        *self.paced() = Arrivals::new(expected);
        Ok(())
    }

    /// Returns the arrival figures of the paced pass.
    pub(super) fn arrivals(&self, timeline: &Timeline) -> ArrivalFigures {
        let arrivals = self.arrivals.read().unwrap_or_else(PoisonError::into_inner);
        arrivals.figures(timeline)
    }

    /// Returns the current time, and the arrivals in which a thread records messages.
    fn noting(&self) -> (u64, RwLockReadGuard<'_, Arrivals>) {
        let arrivals = self.arrivals.read().unwrap_or_else(PoisonError::into_inner);
        (self.clock_ns(), arrivals)
    }

    fn paced(&self) -> RwLockWriteGuard<'_, Arrivals> {
        self.arrivals.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the bytes, no longer than `patience`, and counts. Called by the thread that
    /// started the session.
    pub(super) fn counts(&self, bytes: u64, patience: Duration) -> Counts {
        let deadline = Instant::now() + patience;
        self.target.store(bytes, Ordering::SeqCst);
        while self.bytes.load(Ordering::SeqCst) < bytes {
            let left = deadline.saturating_duration_since(Instant::now());
            let over = self.running.load(Ordering::Acquire) == 0;
            if left.is_zero() || over {
                break;
            }
            // A thread that adds bytes after the store above sees the target and wakes this one.
            std::thread::park_timeout(left.min(PARK_MAX));
        }
        self.target.store(u64::MAX, Ordering::SeqCst);
        let received: Vec<u64> =
            (self.received.iter()).map(|count| count.load(Ordering::Acquire)).collect();
        Counts {
            clock_ns: self.clock_ns(),
            messages: self.messages.load(Ordering::Acquire),
            wrong: self.wrong.load(Ordering::Acquire),
            cpu_ns: (self.workers.iter()).map(|worker| worker.clock.spent_ns()).sum(),
            received,
        }
    }

    /// Adds received messages of a connection.
    fn add(&self, connection: usize, messages: u64, bytes: u64) {
        self.messages.fetch_add(messages, Ordering::AcqRel);
        self.received[connection].fetch_add(bytes, Ordering::AcqRel);
        let all = self.bytes.fetch_add(bytes, Ordering::SeqCst) + bytes;
        if all >= self.target.load(Ordering::SeqCst) {
            self.counting.unpark();
        }
    }
}

fn spawn(
    session: &Arc<Session>,
    index: usize,
    core: Option<usize>,
) -> Result<JoinHandle<()>, Error> {
    let shared = Arc::clone(session);
    session.running.fetch_add(1, Ordering::AcqRel);
    let spawned = std::thread::Builder::new().name("net-session".into()).spawn(move || {
        let clock = &shared.workers[index].clock;
        clock.begin();
        if core.is_none_or(|core| thread_setup::pin(core).is_ok()) {
            // What it fails with is its connections' end, which the client sees.
            let _ = serve(&shared, index);
        }
        clock.end();
        shared.running.fetch_sub(1, Ordering::AcqRel);
    });
    if spawned.is_err() {
        session.running.fetch_sub(1, Ordering::AcqRel);
    }
    spawned.map_err(Error::system("a thread"))
}

/// A connection as its thread has it.
struct ServerConnection {
    index: usize,
    stream: TcpStream,
    /// Socket that carries the messages in place of `stream`, and a buffer of one message and one
    /// byte more; UDP only.
    datagrams: Option<(UdpSocket, Vec<u8>)>,
    read_buffer: ReadBuffer,
    next: u64,
    /// Bytes of whole messages in the read buffer that have been echoed.
    echoed: usize,
    interest: EventFlags,
}

/// The loop of one thread.
fn serve(session: &Session, index: usize) -> Result<(), Error> {
    let worker = &session.workers[index];
    let mut events = EventLoop::new(session.load.waiting)?;
    events.add_waker(&worker.waker)?;
    let mut all: Vec<Option<ServerConnection>> = Vec::new();
    let eager = session.load.waiting == CompletionMode::Poll;
    let mut rounds = 0_u32;
    while !session.stop.load(Ordering::Acquire) {
        rounds = rounds.wrapping_add(1);
        if events.woken || (eager && rounds.is_multiple_of(ROUNDS_A_LOOK)) {
            worker.waker.clear();
            for (index, stream, datagrams) in lock(&worker.new).drain(..) {
                let interest = EventFlags::IN;
                match &datagrams {
                    Some(socket) => events.add(socket, interest)?,
                    None => events.add(&stream, interest)?,
                }
                let room = || vec![0; session.load.message_bytes + 1];
                all.push(Some(ServerConnection {
                    index,
                    stream,
                    datagrams: datagrams.map(|socket| (socket, room())),
                    read_buffer: ReadBuffer::new(session.pattern.message_bytes()),
                    next: 0,
                    echoed: 0,
                    interest,
                }));
            }
        }
        if eager && all.iter().all(Option::is_none) {
            // Nothing to be eager about.
            std::thread::sleep(Duration::from_millis(1));
        }
        events.look(SLEEP_MAX)?;
        for place in 0..events.ready.len() {
            let number = events.ready[place];
            let Some(served) = all.get_mut(number).and_then(Option::as_mut) else {
                continue;
            };
            let interest = match session.load.traffic {
                Traffic::RoundTrips => served.echo(session),
                Traffic::Stream if served.datagrams.is_some() => served.receive_datagrams(session),
                Traffic::Stream => served.receive_stream(session),
            };
            match interest {
                Ok(interest) if interest == served.interest || eager => {}
                Ok(interest) => {
                    events.change(number, &served.stream, interest)?;
                    served.interest = interest;
                }
                // The client has gone, or the network has.
                Err(_) => all[number] = None,
            }
        }
    }
    Ok(())
}

impl ServerConnection {
    /// Reads once and sends whole messages back; messages that cannot be sent yet are sent before
    /// more is read. Returns the events to wait for.
    fn echo(&mut self, session: &Session) -> Result<EventFlags, Error> {
        if self.echoed == self.read_buffer.whole().len()
            && self.read_buffer.read(&self.stream)?.is_none()
        {
            return Ok(EventFlags::IN);
        }
        let whole = self.read_buffer.whole();
        while self.echoed < whole.len() {
            match write(&self.stream, &whole[self.echoed..])? {
                Some(count) => self.echoed += count,
                None => return Ok(EventFlags::OUT),
            }
        }
        let bytes = whole.len();
        self.read_buffer.consume();
        self.echoed = 0;
        let messages = bytes / session.pattern.message_bytes();
        if messages > 0 {
            session.add(self.index, messages as u64, bytes as u64);
        }
        Ok(EventFlags::IN)
    }

    /// Reads a few times and checks the messages that are whole.
    fn receive_stream(&mut self, session: &Session) -> Result<EventFlags, Error> {
        for _ in 0..READS_A_TURN {
            if self.read_buffer.read(&self.stream)?.is_none() {
                break;
            }
            let paced = (session.load.is_paced()).then(|| session.noting());
            let whole = self.read_buffer.whole();
            let (mut messages, mut wrong) = (0, 0);
            for message in whole.chunks_exact(session.pattern.message_bytes()) {
                wrong += u64::from(!session.pattern.is(message, self.next));
                if let Some((now_ns, arrivals)) = &paced {
                    arrivals.note(self.index, self.next, *now_ns);
                }
                self.next += 1;
                messages += 1;
            }
            let bytes = whole.len();
            self.read_buffer.consume();
            if wrong > 0 {
                session.wrong.fetch_add(wrong, Ordering::AcqRel);
            }
            if messages > 0 {
                session.add(self.index, messages, bytes as u64);
            }
        }
        Ok(EventFlags::IN)
    }

    /// Takes a few datagrams. One that comes again, or too late for its pass, counts for nothing.
    fn receive_datagrams(&mut self, session: &Session) -> Result<EventFlags, Error> {
        let Some((socket, room)) = &mut self.datagrams else {
            return Ok(EventFlags::IN);
        };
        for _ in 0..DATAGRAMS_A_TURN {
            let count = match socket.recv(room) {
                Ok(count) => count,
                // Also that the client's port is closed: it may still send, or has ended.
                Err(_) => break,
            };
            let (now_ns, arrivals) = session.noting();
            let message = &room[..count];
            let number = session.pattern.number(message);
            match number.filter(|number| session.pattern.is(message, *number)) {
                Some(number) => {
                    if arrivals.note(self.index, number, now_ns) {
                        session.add(self.index, 1, count as u64);
                    }
                }
                None => {
                    session.wrong.fetch_add(1, Ordering::AcqRel);
                }
            }
        }
        Ok(EventFlags::IN)
    }
}
