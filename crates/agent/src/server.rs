//! Connections: who gets in, how many, and how all of them end.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use overside_base::{EventFd, lock};
use overside_device::{Device, MemoryKind};
use overside_link::agent::{Offer, Reply, Welcome, control};
use rustix::event::{PollFd, PollFlags};

use crate::{AgentError, Settings, session};

/// The pause after the system could not give another connection.
const PAUSE: Duration = Duration::from_millis(50);

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
    /// Connections with a thread.
    open: Mutex<usize>,
    changed: Condvar,
    /// Those of them whose hosts have not said who they are.
    unauthenticated: AtomicUsize,
    /// Tests of which an end is played.
    probes: AtomicUsize,
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
            settings,
            devices,
            welcome: control(&welcome),
            draining: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            drain: EventFd::new()?,
            stop: EventFd::new()?,
            open: Mutex::new(0),
            changed: Condvar::new(),
            unauthenticated: AtomicUsize::new(0),
            probes: AtomicUsize::new(0),
        })
    }

    pub(crate) fn connections(&self) -> usize {
        let open = *lock(&self.open);
        open.saturating_sub(self.unauthenticated.load(Ordering::Acquire))
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
            .wait_timeout_while(open, left, |open| *open > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
    }
}

/// A place among the connections, given back when it is dropped.
pub(crate) struct ConnectionPermit {
    shared: Arc<Shared>,
    unauthenticated: bool,
}

impl ConnectionPermit {
    /// `None` if there are too many already who have not said who they are.
    fn take(shared: &Arc<Shared>) -> Option<Self> {
        let limit = shared.settings.limits.unauthenticated;
        // Only the listening thread adds.
        if shared.unauthenticated.load(Ordering::Acquire) >= limit {
            return None;
        }
        shared.unauthenticated.fetch_add(1, Ordering::AcqRel);
        *lock(&shared.open) += 1;
        let shared = Arc::clone(shared);
        let unauthenticated = true;
        Some(Self {
            shared,
            unauthenticated,
        })
    }

    /// The host has said who it is. Whether there is a place for it.
    pub(crate) fn authenticate(&mut self) -> bool {
        let open = self.shared.open.lock();
        let open = open.unwrap_or_else(PoisonError::into_inner);
        let known = open.saturating_sub(self.shared.unauthenticated.load(Ordering::Acquire));
        if known >= self.shared.settings.limits.connections {
            return false;
        }
        if std::mem::take(&mut self.unauthenticated) {
            self.shared.unauthenticated.fetch_sub(1, Ordering::AcqRel);
        }
        true
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let open = self.shared.open.lock();
        let mut open = open.unwrap_or_else(PoisonError::into_inner);
        if self.unauthenticated {
            self.shared.unauthenticated.fetch_sub(1, Ordering::AcqRel);
        }
        *open -= 1;
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
    let Some(permit) = ConnectionPermit::take(shared) else {
        tracing::warn!(%peer, "refused: too many unauthenticated connections");
        return;
    };
    let inside = Arc::clone(shared);
    // If there is no thread left, the permit is given back and the socket closed.
    let thread = std::thread::Builder::new()
        .name("agent".into())
        .spawn(move || session::serve(&inside, permit, socket, peer));
    if let Err(error) = thread {
        tracing::error!(%peer, %error, "refused: no thread for the connection");
    }
}
