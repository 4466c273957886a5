//! State that all connections share: authentication, limits, and the end of all of them.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use overside_base::{EventFd, MemoryBudget, Reservation, lock};
use overside_device::{Device, MemoryKind};
use overside_link::agent::{Offer, Reply, Welcome, control};

use crate::Settings;
use crate::refusals::Refusals;
use crate::unauthenticated::{Origin, UnauthenticatedConnection, UnauthenticatedConnections};

/// Memory that a connection takes before the host requests anything, in bytes: buffers for
/// encryption and for messages, and a thread.
const CONNECTION_BYTES: u64 = 512 << 10;

/// State that all connections of an agent share.
pub(crate) struct AgentState {
    pub(crate) settings: Settings,
    pub(crate) devices: Vec<Arc<dyn Device>>,
    /// Encoded welcome message, which the agent sends to each host at the end of its handshake.
    pub(crate) welcome: Vec<u8>,
    draining: AtomicBool,
    stopping: AtomicBool,
    /// Event that is signalled when the agent drains, and stays so.
    drain: EventFd,
    /// Event that is signalled when the agent stops, and stays so.
    stop: EventFd,
    open: Mutex<OpenConnections>,
    changed: Condvar,
    unauthenticated: UnauthenticatedConnections,
    pub(crate) refusals: Refusals,
    pub(crate) memory: Arc<MemoryBudget>,
    /// Tests of which an end is played.
    probes: AtomicUsize,
}

/// Connections with a thread.
#[derive(Default)]
struct OpenConnections {
    all: usize,
    /// Connections whose hosts have identified themselves, grouped by the origin of the host.
    known: HashMap<Origin, OriginConnections>,
}

/// Identified connections from one origin.
struct OriginConnections {
    connections: usize,
    /// Memory budget that they share.
    memory: Arc<MemoryBudget>,
}

impl OpenConnections {
    fn known(&self) -> usize {
        self.known.values().map(|one| one.connections).sum()
    }
}

impl AgentState {
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
        let waited = self.changed.wait_timeout_while(open, left, |open| open.all > 0);
        waited.unwrap_or_else(PoisonError::into_inner).0.all == 0
    }
}

/// Returns the part of `of` that hosts at one address may use: three quarters. The rest is left for
/// other hosts.
fn share(of: usize) -> usize {
    of - of / 4
}

/// A place among the connections, given back when it is dropped.
pub(crate) struct ConnectionPermit {
    shared: Arc<AgentState>,
    origin: Origin,
    /// Set until the host has authenticated.
    unauthenticated: Option<Arc<UnauthenticatedConnection>>,
    reserved: Option<Reservation>,
}

impl ConnectionPermit {
    /// Reserves a permit for a connection that has not authenticated. The error is the reason of a refusal.
    pub(crate) fn take(
        shared: &Arc<AgentState>,
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
        if shared.unauthenticated.add(Arc::clone(&connection), most, of_one) {
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

    /// Notes that the host has sent something.
    pub(crate) fn received(&self) {
        if let Some(connection) = &self.unauthenticated {
            connection.received();
        }
    }

    /// Returns `true` if it had to make room for another connection, which has been logged.
    pub(crate) fn is_evicted(&self) -> bool {
        self.unauthenticated.as_ref().is_some_and(|one| one.is_evicted())
    }

    /// Notes that the host has authenticated. Returns the memory budget of its address.
    ///
    /// # Errors
    /// A message for the host if there is no place for it.
    pub(crate) fn authenticate(&mut self) -> Result<Arc<MemoryBudget>, String> {
        let most = self.shared.settings.limits.connections;
        let mut open = lock(&self.shared.open);
        if open.known() >= most {
            return Err("it has all the connections that it takes".into());
        }
        let connections = open.known.get(&self.origin).map_or(0, |one| one.connections);
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
            (open.known).insert(self.origin, OriginConnections { connections, memory });
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
pub(crate) struct ProbePermit(Arc<AgentState>);

impl ProbePermit {
    /// Reserves a permit.
    ///
    /// # Errors
    /// None is left; the message is for the host.
    pub(crate) fn take(shared: &Arc<AgentState>) -> Result<Self, String> {
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
