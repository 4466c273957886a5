//! Accepts clients and passes them on to the workers.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use overside_base::EventFd;
use overside_link::Secret;
use overside_link::shm::{self, ShmOptions};
use overside_link::ucx::{self, UcxOptions};
use overside_link::verbs::{Access, ConnectError, Endpoint, Side};
use rustix::event::{PollFd, PollFlags, poll};

use super::introduction::{ClientIntroduction, ServerIntroduction};
use super::region::ClientPlace;
use super::{CLIENTS_MAX, REGION_BYTES, RegionAddress, RequestRegion, link_config};
use crate::link::{OffloadError, receive_message, send_message};
use crate::udp::{DatagramSocket, Peer};

/// Longest time that a client may take to connect. Other clients wait meanwhile.
const COMING_MAX: Duration = Duration::from_secs(1);
/// Pause after an error of the system.
const PAUSE: Duration = Duration::from_millis(100);
/// Receive descriptors of the socket that only sends.
const RX_QUEUE: usize = 8;

/// Reason why clients cannot connect.
#[derive(Debug, thiserror::Error)]
pub enum HerdError {
    /// Listening for links failed.
    #[error("{0}")]
    Listen(#[from] ConnectError),
    /// The system refuses something else.
    #[error("{0}")]
    System(#[from] io::Error),
}

/// Accepts clients in a thread of its own, until it is dropped.
#[derive(Debug)]
pub struct HerdListener {
    place: RegionAddress,
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

/// Inbox in which a worker finds its new clients.
#[derive(Debug)]
pub struct RegionInbox {
    regions: Receiver<RequestRegion>,
    waker: Arc<EventFd>,
    /// Replies leave by it.
    pub socket: Arc<DatagramSocket>,
}

impl RegionInbox {
    /// A client that has come.
    #[must_use]
    pub fn next(&self) -> Option<RequestRegion> {
        self.waker.clear();
        self.regions.try_recv().ok()
    }
}

/// Readable when a client has come.
impl AsFd for RegionInbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker.as_fd()
    }
}

/// Sender by which the accepting thread hands new clients to a worker.
struct Outbox {
    regions: Sender<RequestRegion>,
    waker: Arc<EventFd>,
}

enum Listener {
    Shm(shm::Listener),
    Ucx(ucx::Listener),
}

impl Listener {
    fn bind(place: &RegionAddress, secret: Option<Secret>) -> Result<Self, ConnectError> {
        Ok(match place {
            RegionAddress::Path(path) => Self::Shm(shm::Listener::bind(path)?),
            RegionAddress::Address(address) => {
                // Missing UCX is reported before a client connects.
                ucx::version()?;
                let options = UcxOptions { secret, ..UcxOptions::default() };
                Self::Ucx(ucx::Listener::bind(*address, options)?)
            }
        })
    }

    fn place(&self, asked: &RegionAddress) -> RegionAddress {
        match self {
            Self::Shm(_) => asked.clone(),
            Self::Ucx(listener) => RegionAddress::Address(listener.address()),
        }
    }

    fn accept(&self, workers: usize) -> Result<Arc<dyn Endpoint>, ConnectError> {
        let deadline = Instant::now() + COMING_MAX;
        let config = link_config(Side::Host, workers);
        Ok(match self {
            Self::Shm(listener) => {
                Arc::new(listener.accept(&config, &ShmOptions::default(), deadline)?)
            }
            Self::Ucx(listener) => Arc::new(listener.accept(&config, deadline)?),
        })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Shm(listener) => listener.as_fd(),
            Self::Ucx(listener) => listener.as_fd(),
        }
    }
}

impl HerdListener {
    /// Listens for clients of `workers` workers, each with an inbox. Port 0 takes any. Clients that
    /// connect by UCX must know the secret.
    ///
    /// # Errors
    /// [`HerdError`].
    pub fn bind(
        place: &RegionAddress,
        workers: usize,
        secret: Option<Secret>,
    ) -> Result<(Self, Vec<RegionInbox>), HerdError> {
        let listener = Listener::bind(place, secret)?;
        let place = listener.place(place);
        let ip = match place {
            RegionAddress::Path(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            RegionAddress::Address(address) => address.ip(),
        };
        let socket = DatagramSocket::bind(SocketAddr::new(ip, 0), false, RX_QUEUE)?;
        let socket = Arc::new(socket);
        let (mut inboxes, mut outboxes) = (Vec::new(), Vec::new());
        for _ in 0..workers {
            let waker = Arc::new(EventFd::new().map_err(io::Error::from)?);
            let (sender, receiver) = mpsc::channel();
            outboxes.push(Outbox { regions: sender, waker: Arc::clone(&waker) });
            inboxes.push(RegionInbox { regions: receiver, waker, socket: Arc::clone(&socket) });
        }
        let stop = Arc::new(EventFd::new().map_err(io::Error::from)?);
        let acceptor = Acceptor {
            port: socket.address()?.port(),
            listener,
            outboxes,
            clients: Arc::default(),
            stop: Arc::clone(&stop),
        };
        let thread = thread::Builder::new().name("kv-herd".into()).spawn(move || acceptor.run())?;
        let listener = Self { place, stop, thread: Some(thread) };
        Ok((listener, inboxes))
    }

    /// Returns the place where it listens, with the port that was taken.
    #[must_use]
    pub fn place(&self) -> &RegionAddress {
        &self.place
    }
}

impl Drop for HerdListener {
    fn drop(&mut self) {
        self.stop.signal();
        let _ = (self.thread.take()).is_some_and(|thread| thread.join().is_ok());
    }
}

struct Acceptor {
    listener: Listener,
    outboxes: Vec<Outbox>,
    clients: Arc<AtomicUsize>,
    /// UDP port from which replies are sent.
    port: u16,
    stop: Arc<EventFd>,
}

impl Acceptor {
    fn run(&self) {
        loop {
            let mut fds = [
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::new(&*self.stop, PollFlags::IN),
            ];
            let polled = poll(&mut fds, None);
            if !fds[1].revents().is_empty() {
                return;
            }
            if polled.is_err() || fds[0].revents().is_empty() {
                continue;
            }
            if let Err(error) = self.accept() {
                tracing::warn!("a client of the request regions did not come: {error}");
                if matches!(error, OffloadError::Connect(ConnectError::System { .. })) {
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Admits the client that calls.
    fn accept(&self) -> Result<(), OffloadError> {
        let endpoint = self.listener.accept(self.outboxes.len())?;
        let Some(place) = ClientPlace::take(&self.clients, CLIENTS_MAX) else {
            return Err(OffloadError::Violation("one client too many"));
        };
        let place = Arc::new(place);
        let deadline = Instant::now() + COMING_MAX;
        let mut regions = Vec::new();
        for index in 0..self.outboxes.len() {
            let mut queue_pair = endpoint.open(index)?;
            let region = endpoint.export(REGION_BYTES, Access::ReadWrite)?;
            let introduction = ServerIntroduction::new(self.port, region.token().clone());
            send_message(&mut *queue_pair, &introduction.encode(), deadline)?;
            regions.push((queue_pair, region));
        }
        let first = &mut *regions[0].0;
        let client = ClientIntroduction::decode(&receive_message(first, deadline)?)?;
        let ip = match self.listener {
            Listener::Shm(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Listener::Ucx(_) => remote_ip(&*endpoint)?,
        };
        let peer = Peer::from(SocketAddr::new(ip, client.port));
        for ((queue_pair, region), outbox) in regions.into_iter().zip(&self.outboxes) {
            let held = (Arc::clone(&endpoint), Arc::clone(&place));
            let region = RequestRegion::new(queue_pair, region, peer, held);
            // A worker that has ended needs none.
            if outbox.regions.send(region).is_ok() {
                outbox.waker.signal();
            }
        }
        Ok(())
    }
}

/// Returns the IP address of a client that uses a link between machines. Replies are sent nowhere
/// else.
fn remote_ip(endpoint: &dyn Endpoint) -> Result<IpAddr, OffloadError> {
    let peer = endpoint.info().peer.parse::<SocketAddr>();
    peer.map(|address| address.ip()).map_err(|_| OffloadError::Violation("no address"))
}
