//! Accepts connections, greets, and hands them to their sessions.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt;

use super::session::Session;
use super::wire::{
    ANSWER_BYTES, Answer, GREETING_BYTES, Greeting, Hello, QUESTION_BYTES, Question, Refusal,
};
use super::{Error, Role, Token, place};

/// How long a new connection may take to say what it wants.
const GREETING_TIME: Duration = Duration::from_secs(5);
/// New connections that have not said it yet; more are closed at once.
const GREETING_MAX: usize = 256;
/// How long the system may lack descriptors before the next try.
const BREATHER: Duration = Duration::from_millis(20);
/// A client that is silent is asked whether it lives after this time.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// The longest that a client may let its control connection wait.
const PATIENCE_MAX: Duration = Duration::from_secs(60);

/// How a server serves.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which machine it says that it stands for.
    pub role: Role,
    /// The network namespace that it listens in, as a file of it.
    pub namespace: Option<PathBuf>,
    /// The cores that the threads of a session are pinned to, one after the other.
    pub cores: Option<Vec<usize>>,
    /// The most sessions at a time.
    pub sessions_max: usize,
    /// Clients are only those that know it; without one, all who reach the address.
    pub token: Option<Token>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            role: Role::Host,
            namespace: None,
            cores: None,
            sessions_max: 4,
            token: None,
        }
    }
}

/// Answers clients until it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    options: Options,
    stop: AtomicBool,
    waker: super::lookout::Waker,
    sessions: Mutex<HashMap<u64, Entry>>,
    greeting: AtomicUsize,
    machine: u64,
}

/// A session, and a handle to its control connection for ending it.
struct Entry {
    session: Arc<Session>,
    control: TcpStream,
}

impl Server {
    /// Listens at `address`; port 0 takes any that is free.
    ///
    /// # Errors
    /// [`Error::System`] if it cannot listen there, or has no such cores.
    pub fn start(address: SocketAddr, options: Options) -> Result<Self, Error> {
        place::are_there(options.cores.as_deref().unwrap_or_default())?;
        let shared = Arc::new(Shared {
            options,
            stop: AtomicBool::new(false),
            waker: super::lookout::Waker::new()?,
            sessions: Mutex::default(),
            greeting: AtomicUsize::new(0),
            machine: place::machine(),
        });
        let (say, hear) = mpsc::sync_channel(1);
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("net-server".into())
            .spawn(move || match listen(address, &own.options) {
                Ok((listener, address)) => {
                    let _ = say.send(Ok(address));
                    accept(&own, &listener);
                }
                Err(error) => drop(say.send(Err(error))),
            })
            .map_err(Error::system("a thread"))?;
        let address = hear
            .recv()
            .unwrap_or_else(|_| Err(Error::Timeout("the server had ended".into())))?;
        Ok(Self {
            shared,
            address,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sessions that are open.
    pub fn sessions(&self) -> usize {
        self.shared.sessions().len()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn sessions(&self) -> MutexGuard<'_, HashMap<u64, Entry>> {
        self.sessions
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn listen(address: SocketAddr, options: &Options) -> Result<(TcpListener, SocketAddr), Error> {
    if let Some(namespace) = &options.namespace {
        place::enter(namespace)?;
    }
    let failed = || Error::system(format!("listening at {address}"));
    let listener = TcpListener::bind(address).map_err(failed())?;
    listener.set_nonblocking(true).map_err(failed())?;
    let address = listener.local_addr().map_err(failed())?;
    Ok((listener, address))
}

/// The loop of the accepting thread; threads that it starts are in its namespace.
fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    while !shared.stop.load(Ordering::Acquire) {
        let mut both = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(shared.waker.descriptor(), PollFlags::IN),
        ];
        let _ = poll(&mut both, None);
        match listener.accept() {
            Ok((stream, _)) => welcome(shared, stream),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => std::thread::sleep(BREATHER),
        }
    }
    for entry in shared.sessions().values() {
        let _ = entry.control.shutdown(Shutdown::Both);
        entry.session.end();
    }
}

/// Gives a new connection a thread of its own until it is known what it is.
fn welcome(shared: &Arc<Shared>, stream: TcpStream) {
    if shared.greeting.fetch_add(1, Ordering::AcqRel) >= GREETING_MAX {
        shared.greeting.fetch_sub(1, Ordering::AcqRel);
        return;
    }
    let own = Arc::clone(shared);
    let spawned = std::thread::Builder::new()
        .name("net-control".into())
        .spawn(move || {
            let greeting = greet(&stream, own.options.token.as_ref());
            own.greeting.fetch_sub(1, Ordering::AcqRel);
            match greeting {
                Ok(Greeting::Control(hello)) => control(&own, hello, stream),
                Ok(Greeting::Data { session, index }) => data(&own, session, index, stream),
                Err(Some(refusal)) => answer(&stream, Err(refusal)),
                // Neither a word nor an answer for who says nothing.
                Err(None) => {}
            }
        });
    if spawned.is_err() {
        shared.greeting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Reads what a connection is for.
fn greet(stream: &TcpStream, token: Option<&Token>) -> Result<Greeting, Option<Refusal>> {
    let mut bytes = [0; GREETING_BYTES];
    stream.set_nonblocking(false).map_err(|_| None)?;
    read_until(stream, &mut bytes, Instant::now() + GREETING_TIME).ok_or(None)?;
    Greeting::parse(&bytes, token).map_err(Some)
}

/// Fills `bytes` before the deadline, or gives up.
fn read_until(mut stream: &TcpStream, bytes: &mut [u8], deadline: Instant) -> Option<()> {
    let mut filled = 0;
    while filled < bytes.len() {
        let left = deadline.checked_duration_since(Instant::now())?;
        if left.is_zero() {
            return None;
        }
        stream.set_read_timeout(Some(left)).ok()?;
        match stream.read(&mut bytes[filled..]) {
            Ok(0) => return None,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(())
}

fn answer(mut stream: &TcpStream, what: Result<Answer, Refusal>) {
    let _ = stream.set_write_timeout(Some(GREETING_TIME));
    let bytes: [u8; ANSWER_BYTES] = Answer::to_bytes(what);
    // Whoever does not take it is found out by the next read.
    let _ = stream.write_all(&bytes);
}

/// Serves a session for as long as its control connection lives.
fn control(shared: &Shared, hello: Hello, stream: TcpStream) {
    let number = RandomState::new().build_hasher().finish() | 1;
    let opened = open(shared, number, hello, &stream);
    let (session, threads) = match opened {
        Ok(opened) => opened,
        Err(refusal) => return answer(&stream, Err(refusal)),
    };
    let given = Answer {
        session: number,
        role: shared.options.role,
        machine: shared.machine,
    };
    answer(&stream, Ok(given));
    let _ = converse(&session, &stream);
    shared.sessions().remove(&number);
    session.end();
    for thread in threads {
        let _ = thread.join();
    }
}

type Opened = (Arc<Session>, Vec<JoinHandle<()>>);

fn open(shared: &Shared, number: u64, hello: Hello, stream: &TcpStream) -> Result<Opened, Refusal> {
    // Held until the session is in the table, so that two cannot take the last place.
    let mut sessions = shared.sessions();
    if sessions.len() >= shared.options.sessions_max || shared.stop.load(Ordering::Acquire) {
        return Err(Refusal::Full);
    }
    let copy = stream.try_clone().map_err(|_| Refusal::Resources)?;
    let cores = shared.options.cores.as_deref();
    let (session, threads) =
        Session::start(number, hello, cores).map_err(|_| Refusal::Resources)?;
    let entry = Entry {
        session: Arc::clone(&session),
        control: copy,
    };
    sessions.insert(session.number, entry);
    Ok((session, threads))
}

/// Answers questions until there are no more.
fn converse(session: &Session, stream: &TcpStream) -> Option<()> {
    stream.set_read_timeout(None).ok()?;
    stream.set_nodelay(true).ok()?;
    // A client whose machine has gone is noticed, though it may be silent for an hour.
    sockopt::set_socket_keepalive(stream, true).ok()?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE).ok()?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE).ok()?;
    let (mut from, mut to) = (stream, stream);
    let mut bytes = [0; QUESTION_BYTES];
    loop {
        from.read_exact(&mut bytes).ok()?;
        let question = Question::parse(&bytes);
        let patience = Duration::from_millis(question.patience_ms.into()).min(PATIENCE_MAX);
        let (counts, received) = session.counts(question.bytes, patience);
        let mut reply = counts.to_bytes().to_vec();
        for bytes in received {
            reply.extend_from_slice(&bytes.to_le_bytes());
        }
        to.write_all(&reply).ok()?;
    }
}

/// Hands a data connection to its session.
fn data(shared: &Shared, number: u64, index: u32, stream: TcpStream) {
    let session = (shared.sessions().get(&number)).map(|entry| Arc::clone(&entry.session));
    let Some(session) = session else {
        return answer(&stream, Err(Refusal::NoSession));
    };
    let buffer = session.hello().socket_buffer as usize;
    let prepared = prepare(&stream, buffer);
    if !prepared {
        return answer(&stream, Err(Refusal::Resources));
    }
    let Ok(copy) = stream.try_clone() else {
        return answer(&stream, Err(Refusal::Resources));
    };
    // Before the session has it, which may write to it at once.
    let given = Answer {
        session: number,
        role: shared.options.role,
        machine: shared.machine,
    };
    answer(&stream, Ok(given));
    if stream.set_nonblocking(true).is_err() || session.take(index, stream).is_err() {
        let _ = copy.shutdown(Shutdown::Both);
    }
}

/// Sets a data connection up. The read time-out goes with `set_nonblocking`.
fn prepare(stream: &TcpStream, buffer: usize) -> bool {
    let sized = buffer == 0
        || (sockopt::set_socket_recv_buffer_size(stream, buffer).is_ok()
            && sockopt::set_socket_send_buffer_size(stream, buffer).is_ok());
    sized && stream.set_nodelay(true).is_ok()
}
