//! Connections: who gets in, how many, and how all of them end.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use overside_base::{EventFd, MemoryBudget, Reservation, lock};
use overside_device::{Device, MemoryKind};
use overside_link::agent::{Offer, Reply, Welcome, control};
use rustix::event::{PollFd, PollFlags};

use crate::refusals::Refusals;
use crate::unauthenticated::{Origin, UnauthenticatedConnection, UnauthenticatedConnections};
use crate::{AgentError, Settings, session};

/// The pause after the system could not give another connection.
const PAUSE: Duration = Duration::from_millis(50);
/// What a connection takes before anything is asked for, in bytes: buffers for encryption and for
/// messages, and a thread.
const CONNECTION_BYTES: u64 = 512 << 10;

/// What all connections have in common.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) devices: Vec<Arc<dyn Device>>,
    /// What hosts are greeted with, as it is sent.
    pub(crate) welcome: Vec<u8>,
    draining: AtomicBool,
    stopping: AtomicBool,
    /// Readable once the agent drains, and for good.
    drain: EventFd,
    /// Readable once it stops, and for good.
    stop: EventFd,
    open: Mutex<Open>,
    changed: Condvar,
    unauthenticated: UnauthenticatedConnections,
    pub(crate) refusals: Refusals,
    pub(crate) memory: Arc<MemoryBudget>,
    /// Tests of which an end is played.
    probes: AtomicUsize,
}

/// Connections with a thread.
#[derive(Default)]
struct Open {
    all: usize,
    /// Those of them whose hosts have said who they are, by where they come from.
    known: HashMap<Origin, Known>,
}

/// Those that come from one address.
struct Known {
    connections: usize,
    /// Their share of the memory.
    memory: Arc<MemoryBudget>,
}

impl Open {
    fn known(&self) -> usize {
        self.known.values().map(|one| one.connections).sum()
    }
}

impl Shared {
    pub(crate) fn new(settings: Settings, devices: Vec<Arc<dyn Device>>) -> io::Result<Self> {
        let offers = devices.iter().map(|device| Offer {
            info: device.info().clone(),
            // Jobs' bytes are received into the device's memory, which this thread must address.
            capabilities: (device.capabilities().iter())
                .filter(|capability| capability.memory != MemoryKind::Device)
                .cloned()
                .collect(),
        });
        let welcome = Reply::Welcome(Welcome {
            release: env!("CARGO_PKG_VERSION").into(),
            devices: offers.collect(),
        });
        Ok(Self {
            memory: MemoryBudget::new(settings.limits.memory),
            settings,
            devices,
            welcome: control(&welcome),
            draining: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            drain: EventFd::new()?,
            stop: EventFd::new()?,
            open: Mutex::default(),
            changed: Condvar::new(),
            unauthenticated: UnauthenticatedConnections::default(),
            refusals: Refusals::default(),
            probes: AtomicUsize::new(0),
        })
    }

    pub(crate) fn connections(&self) -> usize {
        lock(&self.open).known()
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn drains(&self) -> BorrowedFd<'_> {
        self.drain.as_fd()
    }

    pub(crate) fn stops(&self) -> BorrowedFd<'_> {
        self.stop.as_fd()
    }

    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
        self.drain.signal();
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.stop.signal();
    }

    pub(crate) fn wait_until_empty(&self, deadline: Instant) -> bool {
        let open = lock(&self.open);
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self
            .changed
            .wait_timeout_while(open, left, |open| open.all > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.all == 0
    }
}

/// What hosts at one address may have of something, so that others can have the rest.
fn share(of: usize) -> usize {
    of - of / 4
}

/// A place among the connections, given back when it is dropped.
pub(crate) struct ConnectionPermit {
    shared: Arc<Shared>,
    origin: Origin,
    /// Until the host has said who it is.
    unauthenticated: Option<Arc<UnauthenticatedConnection>>,
    reserved: Option<Reservation>,
}

impl ConnectionPermit {
    /// A place for somebody who has not said who it is; why there is none.
    fn take(
        shared: &Arc<Shared>,
        socket: &TcpStream,
        peer: SocketAddr,
    ) -> Result<Self, &'static str> {
        let limits = &shared.settings.limits;
        // Those that had to go need a moment. Only the listening thread adds.
        if lock(&shared.open).all >= limits.connections + 2 * limits.unauthenticated {
            return Err("too many connections end just now");
        }
        let connection =
            UnauthenticatedConnection::new(peer, socket).map_err(|_| "no descriptor is left")?;
        let (most, of_one) = (limits.unauthenticated, limits.unauthenticated_of_one);
        lock(&shared.open).all += 1;
        if shared
            .unauthenticated
            .add(Arc::clone(&connection), most, of_one)
        {
            let reason = "one that had not said who it is had to go for it";
            shared.refusals.log(peer, &reason);
        }
        Ok(Self {
            shared: Arc::clone(shared),
            origin: Origin::of(peer),
            unauthenticated: Some(connection),
            reserved: None,
        })
    }

    /// The host has said something.
    pub(crate) fn received(&self) {
        if let Some(connection) = &self.unauthenticated {
            connection.received();
        }
    }

    /// It had to go for another one, which has been logged.
    pub(crate) fn is_evicted(&self) -> bool {
        self.unauthenticated
            .as_ref()
            .is_some_and(|one| one.is_evicted())
    }

    /// The host has said who it is. What memory it may take, together with the others from its
    /// address.
    ///
    /// # Errors
    /// That there is no place for it, in words for the host.
    pub(crate) fn authenticate(&mut self) -> Result<Arc<MemoryBudget>, String> {
        let most = self.shared.settings.limits.connections;
        let mut open = lock(&self.shared.open);
        if open.known() >= most {
            return Err("it has all the connections that it takes".into());
        }
        let connections = open
            .known
            .get(&self.origin)
            .map_or(0, |one| one.connections);
        if connections >= share(most) {
            return Err("it has all the connections that it takes from one address".into());
        }
        let all = &self.shared.memory;
        let memory = (open.known.get(&self.origin)).map_or_else(
            || all.share(share(all.limit() as usize) as u64),
            |one| Arc::clone(&one.memory),
        );
        let reserved = memory.reserve(CONNECTION_BYTES);
        self.reserved = Some(reserved.map_err(|error| error.to_string())?);
        if let Some(connection) = self.unauthenticated.take() {
            let connections = connections + 1;
            let memory = Arc::clone(&memory);
            (open.known).insert(
                self.origin,
                Known {
                    connections,
                    memory,
                },
            );
            self.shared.unauthenticated.remove(&connection);
        }
        Ok(memory)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut open = lock(&self.shared.open);
        match &self.unauthenticated {
            Some(connection) => self.shared.unauthenticated.remove(connection),
            None => {
                if let Some(one) = open.known.get_mut(&self.origin) {
                    one.connections -= 1;
                }
                open.known.retain(|_, one| one.connections > 0);
                self.reserved = None;
            }
        }
        open.all -= 1;
        self.shared.changed.notify_all();
    }
}

/// A place among the tests of which an end is played, given back when it is dropped.
pub(crate) struct ProbePermit(Arc<Shared>);

impl ProbePermit {
    /// Takes one.
    ///
    /// # Errors
    /// That there is none left, in words for the host.
    pub(crate) fn take(shared: &Arc<Shared>) -> Result<Self, String> {
        let most = shared.settings.limits.probes;
        let more = |count: usize| (count < most).then_some(count + 1);
        let order = (Ordering::AcqRel, Ordering::Acquire);
        match shared.probes.fetch_update(order.0, order.1, more) {
            Ok(_) => Ok(Self(Arc::clone(shared))),
            Err(_) => Err(format!("it plays a part in {most} tests already")),
        }
    }
}

impl Drop for ProbePermit {
    fn drop(&mut self) {
        self.0.probes.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What listens.
pub(crate) struct Acceptor {
    address: SocketAddr,
    /// Readable when no more connections are taken.
    signal: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    pub(crate) fn open(shared: &Arc<Shared>) -> Result<Self, AgentError> {
        let address = shared.settings.listen;
        let failed = |error| AgentError::Listen { address, error };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let signal = EventFd::new();
        let signal = Arc::new(signal.map_err(|error| AgentError::System(error.into()))?);
        let (shared, closed) = (Arc::clone(shared), Arc::clone(&signal));
        let thread = std::thread::Builder::new()
            .name("agent-accept".into())
            .spawn(move || attend(&listener, &closed, &shared))
            .map_err(AgentError::System)?;
        Ok(Self {
            address,
            signal,
            thread: Some(thread),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections.
    pub(crate) fn close(&mut self) {
        self.signal.signal();
        if let Some(thread) = self.thread.take() {
            // It never panics; if it did, it is gone as well.
            let _ = thread.join();
        }
    }
}

/// Lets connections in until told to stop.
fn attend(listener: &TcpListener, closed: &EventFd, shared: &Arc<Shared>) {
    let mut was_failing = false;
    loop {
        let mut set = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(closed, PollFlags::IN),
        ];
        match rustix::event::poll(&mut set, None) {
            Ok(_) if !set[1].revents().is_empty() => return,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // Nothing can be waited for: look now and then.
            Err(_) => std::thread::sleep(PAUSE),
        }
        let accepted = listener.accept();
        let is_failing =
            matches!(&accepted, Err(error) if error.kind() != io::ErrorKind::WouldBlock);
        if let (Err(error), false, true) = (&accepted, was_failing, is_failing) {
            tracing::warn!(%error, "cannot accept connections");
        }
        was_failing = is_failing;
        match accepted {
            Ok((socket, peer)) => admit(socket, peer, shared),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The connection was gone already, or there is no descriptor left for it.
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

fn admit(socket: TcpStream, peer: SocketAddr, shared: &Arc<Shared>) {
    // Whoever does not get in finds the connection closed: who it is, is not known yet.
    let permit = match ConnectionPermit::take(shared, &socket, peer) {
        Ok(permit) => permit,
        Err(reason) => return shared.refusals.log(peer, &reason),
    };
    let inside = Arc::clone(shared);
    // If there is no thread left, the permit is given back and the socket closed.
    let thread = std::thread::Builder::new()
        .name("agent".into())
        .spawn(move || session::serve(&inside, permit, socket, peer));
    if let Err(error) = thread {
        let reason = format!("no thread is left for it: {error}");
        shared.refusals.log(peer, &reason);
    }
}
