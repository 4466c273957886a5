//! The end that answers: accepts the connections of one test and hands them to its threads.
//!
//! 1. It listens. A client sends the secret and the number of the connection within 5 seconds;
//!    other greetings, and more than 64 connections without one, are closed.
//! 2. Once all of the test's connections are there it stops listening.
//! 3. It answers the client's requests on the connection of reports, until that ends or it is dropped.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use overside_base::{EventFd, lock};
use overside_link::Secret;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt;

use super::event_loop::waker;
use super::session::Session;
use super::wire::{self, GREETING_BYTES, REPORTS, Reply, Request};
use super::{Error, Load, Protocol, thread_setup};

/// Longest time for a new connection to send its greeting.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);
/// New connections that have not sent their greeting yet; more are closed at once.
const GREETING_MAX: usize = 64;
/// Time to wait before the next accept if the system has no descriptors left.
const ACCEPT_RETRY: Duration = Duration::from_millis(20);
/// Silence after which TCP checks that a client is alive.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Longest time that a client may let its request wait.
const PATIENCE_MAX: Duration = Duration::from_secs(60);

/// Configuration of a receiver: its traffic, its client, and where it runs.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Traffic that the client is going to send.
    pub load: Load,
    /// Secret by which the receiver recognizes its client.
    pub secret: Secret,
    /// The network namespace that it listens in, as a file of it.
    pub namespace: Option<PathBuf>,
    /// The cores that its threads are pinned to, one after the other.
    pub cores: Option<Vec<usize>>,
}

/// Answers one client until it is dropped.
pub struct Receiver {
    shared: Arc<ReceiverState>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

struct ReceiverState {
    config: ReceiverConfig,
    stop: AtomicBool,
    waker: EventFd,
    /// The connection of reports, for ending it.
    reports: Mutex<Option<TcpStream>>,
}

/// A connection that has not sent its greeting yet.
struct PendingConnection {
    stream: TcpStream,
    greeting: [u8; GREETING_BYTES],
    filled: usize,
    deadline: Instant,
}

impl Receiver {
    /// Listens at `address`; port 0 takes any that is free.
    ///
    /// # Errors
    /// [`Error::Bound`] if the load cannot be; [`Error::System`] if it cannot listen there, or has no
    /// such cores.
    pub fn listen(address: SocketAddr, config: ReceiverConfig) -> Result<Self, Error> {
        config.load.check()?;
        thread_setup::check_cores(config.cores.as_deref().unwrap_or_default())?;
        let shared = Arc::new(ReceiverState {
            config,
            stop: AtomicBool::new(false),
            waker: waker()?,
            reports: Mutex::default(),
        });
        let (say, hear) = mpsc::sync_channel(1);
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("net-receiver".into())
            .spawn(move || match begin(address, &own.config) {
                Ok((listener, address, session, threads)) => {
                    let _ = say.send(Ok(address));
                    own.serve(listener, &session);
                    session.end();
                    for thread in threads {
                        let _ = thread.join();
                    }
                }
                Err(error) => drop(say.send(Err(error))),
            })
            .map_err(Error::system("a thread"))?;
        let address =
            hear.recv().unwrap_or_else(|_| Err(Error::Timeout("the receiver had ended".into())))?;
        Ok(Self { shared, address, thread: Some(thread) })
    }

    /// Returns the address at which the receiver listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.waker.signal();
        if let Some(reports) = &*self.shared.reports() {
            let _ = reports.shutdown(Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

type Begun = (TcpListener, SocketAddr, Arc<Session>, Vec<JoinHandle<()>>);

/// Prepares the receiver's thread: enters the namespace, listens, and starts the session. Threads
/// that it starts are in its namespace.
fn begin(address: SocketAddr, config: &ReceiverConfig) -> Result<Begun, Error> {
    if let Some(namespace) = &config.namespace {
        thread_setup::enter(namespace)?;
    }
    let failed = || Error::system(format!("listening at {address}"));
    let listener = TcpListener::bind(address).map_err(failed())?;
    listener.set_nonblocking(true).map_err(failed())?;
    let address = listener.local_addr().map_err(failed())?;
    let (session, threads) = Session::start(config.load, config.cores.as_deref())?;
    Ok((listener, address, session, threads))
}

impl ReceiverState {
    fn reports(&self) -> MutexGuard<'_, Option<TcpStream>> {
        lock(&self.reports)
    }

    fn serve(&self, listener: TcpListener, session: &Session) {
        let Some(reports) = self.admit(&listener, session) else {
            return;
        };
        drop(listener);
        *self.reports() = reports.try_clone().ok();
        if !self.stop.load(Ordering::Acquire) {
            let _ = answer_requests(session, &reports);
        }
    }

    /// Accepts connections until all are there. Returns the connection for reports; `None` if the receiver
    /// was stopped.
    fn admit(&self, listener: &TcpListener, session: &Session) -> Option<TcpStream> {
        let (mut pending, mut reports): (Vec<PendingConnection>, _) = (Vec::new(), None);
        let mut missing = self.config.load.connections;
        while missing > 0 || reports.is_none() {
            self.wait(listener, &pending);
            if self.stop.load(Ordering::Acquire) {
                return None;
            }
            match listener.accept() {
                Ok((stream, _)) if pending.len() < GREETING_MAX => {
                    pending.extend(PendingConnection::new(stream));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => std::thread::sleep(ACCEPT_RETRY),
            }
            for connection in std::mem::take(&mut pending) {
                match connection.read_greeting(&self.config.secret) {
                    Greeting::Nothing(connection) => pending.push(connection),
                    Greeting::Index((REPORTS, _), stream) if reports.is_none() => {
                        reports = Some(stream);
                    }
                    Greeting::Index((index, port), stream) => {
                        let load = &self.config.load;
                        let taken = prepare(&stream, load.socket_buffer)
                            && datagrams(&stream, load, port)
                                .is_ok_and(|datagrams| session.take(index, stream, datagrams));
                        missing -= usize::from(taken);
                    }
                    Greeting::Stranger => {}
                }
            }
        }
        reports
    }

    /// Waits for a connection or for bytes of a pending one.
    fn wait(&self, listener: &TcpListener, pending: &[PendingConnection]) {
        let descriptors = [listener.as_fd(), self.waker.as_fd()].into_iter();
        let others = pending.iter().map(|connection| connection.stream.as_fd());
        let all = descriptors.chain(others);
        let mut set: Vec<PollFd<'_>> =
            all.map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN)).collect();
        let first = pending.iter().map(|connection| connection.deadline).min();
        let left = first.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| left.try_into().ok());
        // Who cannot wait looks at once.
        let _ = poll(&mut set, timeout.as_ref());
    }
}

/// Result of reading a new connection's greeting.
enum Greeting {
    Nothing(PendingConnection),
    Index((u32, u16), TcpStream),
    Stranger,
}

impl PendingConnection {
    fn new(stream: TcpStream) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        Some(Self {
            stream,
            greeting: [0; GREETING_BYTES],
            filled: 0,
            deadline: Instant::now() + GREETING_TIMEOUT,
        })
    }

    /// Reads available bytes, no more than the greeting.
    fn read_greeting(mut self, secret: &Secret) -> Greeting {
        while self.filled < GREETING_BYTES {
            match self.stream.read(&mut self.greeting[self.filled..]) {
                Ok(0) => return Greeting::Stranger,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return match Instant::now() < self.deadline {
                        true => Greeting::Nothing(self),
                        false => Greeting::Stranger,
                    };
                }
                Err(_) => return Greeting::Stranger,
            }
        }
        match wire::parse_greeting(&self.greeting, secret) {
            Some(greets) => Greeting::Index(greets, self.stream),
            None => Greeting::Stranger,
        }
    }
}

/// Answers the client's requests until it disconnects.
fn answer_requests(session: &Session, stream: &TcpStream) -> Option<()> {
    stream.set_nonblocking(false).ok()?;
    // A client that has crashed is noticed, though it may be silent for an hour.
    sockopt::set_socket_keepalive(stream, true).ok()?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE).ok()?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE).ok()?;
    stream.set_nodelay(true).ok()?;
    loop {
        let request: Request = wire::receive(stream).ok()?;
        let reply = match request {
            Request::Counts { bytes, patience_ms } => {
                let patience = Duration::from_millis(patience_ms.into()).min(PATIENCE_MAX);
                Reply::Counts(session.counts(bytes, patience))
            }
            Request::Clock => Reply::Clock(session.clock_ns()),
            Request::Begin(expected) => match session.begin(&expected) {
                Ok(()) => Reply::Begun,
                Err(reason) => Reply::Refused(reason),
            },
            Request::Arrivals(timeline) => Reply::Arrivals(Box::new(session.arrivals(&timeline))),
        };
        wire::send(stream, &reply).ok()?;
    }
}

/// Opens the socket for a connection's datagrams; `None` if the protocol is not UDP. The socket
/// accepts datagrams only from `client_port` of the client. Its own port is sent to the client.
fn datagrams(
    mut stream: &TcpStream,
    load: &Load,
    client_port: u16,
) -> std::io::Result<Option<UdpSocket>> {
    if load.protocol != Protocol::Udp {
        return Ok(None);
    }
    let socket = UdpSocket::bind(SocketAddr::new(stream.local_addr()?.ip(), 0))?;
    if let Some(bytes) = load.socket_buffer {
        sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
    }
    socket.set_nonblocking(true)?;
    socket.connect(SocketAddr::new(stream.peer_addr()?.ip(), client_port))?;
    // Datagrams from before it was connected may come from any sender.
    while socket.recv(&mut [0]).is_ok() {}
    stream.write_all(&socket.local_addr()?.port().to_le_bytes())?;
    Ok(Some(socket))
}

/// Sets a data connection up.
fn prepare(stream: &TcpStream, buffer: Option<usize>) -> bool {
    let sized = buffer.is_none_or(|bytes| {
        sockopt::set_socket_recv_buffer_size(stream, bytes).is_ok()
            && sockopt::set_socket_send_buffer_size(stream, bytes).is_ok()
    });
    sized && stream.set_nodelay(true).is_ok()
}
