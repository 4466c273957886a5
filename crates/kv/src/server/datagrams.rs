//! Datagrams of one worker: receives, has executed what they ask, and sends the answers.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use super::admission::{Admitted, Seals, is_local};
use super::replies::{ReceivedPackets, Replies, Serving};
use super::state::State;
use crate::protocol::MemcachedDatagramEngine;
use crate::protocol::datagram::DatagramEngine;
use crate::stages::Stage;
use crate::udp::{DatagramSocket, Peer, ReceiveBuffers};

/// Where the partition is in a datagram's header: its lower byte. There are fewer than 256.
const PARTITION_OFFSET: u32 = 4;
/// Free ports that are tried where any will do.
const ANY_PORT_TRIES: usize = 16;
/// Times that a socket is read a turn.
const READS_MAX: usize = 4;

/// What datagrams say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramService {
    /// Requests of this store's protocol.
    Own,
    /// memcached's commands.
    Memcached,
}

/// A socket of a worker.
#[derive(Debug)]
pub struct DatagramListener {
    pub service: DatagramService,
    /// Datagrams arrive here by the partition in their header.
    pub is_steered: bool,
    pub socket: DatagramSocket,
    pub address: SocketAddr,
}

impl DatagramListener {
    /// Listens at an address, by as many sockets, among which datagrams of memcached's clients are divided by
    /// their senders. Port 0 takes any.
    pub fn bind(
        address: SocketAddr,
        service: DatagramService,
        count: usize,
        rx_queue: usize,
    ) -> io::Result<Vec<Self>> {
        let mut address = address;
        let mut all = Vec::with_capacity(count);
        for number in 0..count {
            let socket = DatagramSocket::bind(address, number > 0, rx_queue)?;
            // So that others can join, but only from here on: a second server finds the address in use.
            socket.share(count > 1)?;
            address = socket.address()?;
            all.push(Self {
                service,
                is_steered: false,
                socket,
                address,
            });
        }
        Ok(all)
    }

    /// As [`Self::bind`] for this store's datagrams: where there are several sockets, a datagram arrives at
    /// that of its partition, if the system can, unless `ports_only`. Also, each of them has a port of its own:
    /// the next ones, in order. The sockets of each, that of all first.
    pub fn bind_steered(
        address: SocketAddr,
        count: usize,
        rx_queue: usize,
        ports_only: bool,
    ) -> io::Result<Vec<Vec<Self>>> {
        let mut tries = ANY_PORT_TRIES;
        loop {
            let bound = Self::try_bind_steered(address, count, rx_queue, ports_only);
            tries -= 1;
            match bound {
                // The ports after any free one may be taken.
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse
                        && address.port() == 0
                        && tries > 0 => {}
                bound => return bound,
            }
        }
    }

    fn try_bind_steered(
        address: SocketAddr,
        count: usize,
        rx_queue: usize,
        ports_only: bool,
    ) -> io::Result<Vec<Vec<Self>>> {
        let own = DatagramService::Own;
        let mut shared = Self::bind(address, own, count, rx_queue)?;
        if count == 1 {
            return Ok(vec![shared]);
        }
        let is_steered = !ports_only
            && (shared[0].socket)
                .steer(PARTITION_OFFSET, count as u32)
                .is_ok();
        let mut address = shared[0].address;
        let mut all = Vec::with_capacity(count);
        for mut first in shared.drain(..) {
            first.is_steered = is_steered;
            let port = address.port().checked_add(1);
            address.set_port(port.ok_or(io::ErrorKind::AddrInUse)?);
            let mut sockets = Self::bind(address, own, 1, rx_queue)?;
            sockets.insert(0, first);
            all.push(sockets);
        }
        Ok(all)
    }
}

/// The sockets of a worker, and what serves them.
pub struct Datagrams {
    sockets: Vec<DatagramListener>,
    buffers: ReceiveBuffers,
    engine: DatagramEngine,
    memcached: MemcachedDatagramEngine,
    replies: Replies,
    seals: Seals,
    /// Hellos, and where each ends.
    hellos: (Vec<u8>, Vec<(u32, usize)>),
}

impl Datagrams {
    /// For these sockets; `None` where there are none.
    pub fn new(sockets: Vec<DatagramListener>, state: &State) -> Option<Self> {
        (!sockets.is_empty()).then(|| Self {
            sockets,
            buffers: ReceiveBuffers::new(),
            engine: DatagramEngine::default(),
            memcached: MemcachedDatagramEngine::default(),
            replies: Replies::default(),
            seals: Seals::new(state),
            hellos: Default::default(),
        })
    }

    /// The sockets, in order of their numbers.
    pub fn sockets(&self) -> impl Iterator<Item = impl AsFd> {
        self.sockets.iter().map(|listener| &listener.socket)
    }

    /// Requests executed.
    pub fn commands(&self) -> u64 {
        self.engine.counts().commands + self.memcached.counts().commands
    }

    /// Serves what has come to a socket, so much at most that others have their turn.
    pub fn serve(&mut self, number: usize, serving: &mut Serving<'_>) {
        for _ in 0..READS_MAX {
            let Ok(1..) = self.sockets[number].socket.receive(&mut self.buffers) else {
                return;
            };
            self.process(number, serving);
            if !self.buffers.is_full() {
                return;
            }
        }
    }

    /// Executes what was received, and answers.
    fn process(&mut self, number: usize, serving: &mut Serving<'_>) {
        let listener = &self.sockets[number];
        let counters = &mut serving.state.counters.datagrams;
        let (mut packets, mut peers) = (Vec::new(), Vec::<&Peer>::new());
        // Of each packet, which of the peers has sent it, and whether its answers are sealed.
        let (mut senders, mut is_sealed) = (Vec::new(), Vec::new());
        let admission = self.seals.admission(listener, serving.now_ms);
        let (hellos, hello_ends) = &mut self.hellos;
        hellos.clear();
        hello_ends.clear();
        for message in self.buffers.received() {
            let sender = peers.len() as u32;
            peers.push(message.peer);
            counters.received_bytes += message.bytes.len() as u64;
            let from_here = (message.peer.address()).is_some_and(|from| is_local(from.ip()));
            for bytes in message.datagrams() {
                counters.received += 1;
                let (packet, has_seal) = match admission.admit(bytes, from_here) {
                    Admitted::Plain(packet) => (packet, false),
                    Admitted::Sealed(packet) => (packet, true),
                    Admitted::Hello => {
                        admission.write_hello(hellos);
                        hello_ends.push((sender, hellos.len()));
                        continue;
                    }
                    Admitted::Refused => {
                        counters.refused += 1;
                        continue;
                    }
                };
                packets.push(packet);
                senders.push(sender);
                is_sealed.push(has_seal);
            }
        }
        if !hello_ends.is_empty() {
            let peer = |number: u32| Some(peers[number as usize]);
            counters.add_sent(listener.socket.send(hellos, hello_ends, peer));
        }
        serving.state.stages.end(Stage::Receive);
        let has_sealed = is_sealed.contains(&true);
        let received = ReceivedPackets {
            packets: &packets,
            senders: &senders,
            peers: &peers,
            socket: &listener.socket,
            seals: has_sealed.then_some((admission, is_sealed.as_slice())),
        };
        match listener.service {
            DatagramService::Own => {
                (self.replies).set_steered(listener.is_steered);
                (self.replies).answer(&mut self.engine, received, serving);
            }
            DatagramService::Memcached => {
                (self.replies).answer(&mut self.memcached, received, serving);
            }
        }
    }

    /// Looks at what waits in the sockets and what they have lost.
    pub fn sample(&self, state: &mut State) {
        let counters = &mut state.counters.datagrams;
        counters.backlog_bytes = 0;
        counters.queue_bytes = 0;
        counters.dropped = 0;
        for listener in &self.sockets {
            let memory = listener.socket.memory();
            counters.backlog_bytes += memory.backlog_bytes;
            counters.queue_bytes += memory.queue_bytes;
            counters.dropped += memory.dropped;
        }
        counters.backlog_max_bytes = counters.backlog_max_bytes.max(counters.backlog_bytes);
    }
}
