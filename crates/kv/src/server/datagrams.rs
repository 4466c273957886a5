//! Sockets for datagrams, of one worker.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use super::addresses::is_local;
use super::packets::{Endpoint, Incoming, PacketServer};
use super::replies::Serving;
use super::state::State;
use crate::protocol::datagram::DATAGRAM_MAX_BYTES;
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

/// The sockets of a worker.
pub struct Datagrams {
    sockets: Vec<DatagramListener>,
    buffers: ReceiveBuffers,
}

impl Datagrams {
    /// For these sockets; `None` where there are none.
    pub fn new(sockets: Vec<DatagramListener>) -> Option<Self> {
        (!sockets.is_empty()).then(|| Self {
            sockets,
            buffers: ReceiveBuffers::new(),
        })
    }

    /// The sockets, in order of their numbers.
    pub fn sockets(&self) -> impl Iterator<Item = impl AsFd> {
        self.sockets.iter().map(|listener| &listener.socket)
    }

    /// Serves what has come to a socket, so much at most that others have their turn.
    pub fn serve(&mut self, number: usize, server: &mut PacketServer, serving: &mut Serving<'_>) {
        for _ in 0..READS_MAX {
            let Ok(1..) = self.sockets[number].socket.receive(&mut self.buffers) else {
                return;
            };
            self.process(number, server, serving);
            if !self.buffers.is_full() {
                return;
            }
        }
    }

    /// Has executed and answered what was received.
    fn process(&mut self, number: usize, server: &mut PacketServer, serving: &mut Serving<'_>) {
        let listener = &self.sockets[number];
        let endpoint = Endpoint {
            service: listener.service,
            is_steered: listener.is_steered,
            port: listener.address.port(),
            is_local: is_local(listener.address.ip()),
            datagram_max_bytes: DATAGRAM_MAX_BYTES,
        };
        let peers: Vec<&Peer> = self
            .buffers
            .received()
            .map(|message| message.peer)
            .collect();
        let messages = (self.buffers.received()).enumerate();
        let incoming = messages.flat_map(|(sender, message)| {
            let from_here = (message.peer.address()).is_some_and(|from| is_local(from.ip()));
            message.datagrams().map(move |bytes| Incoming {
                bytes,
                sender: sender as u32,
                is_local: from_here,
            })
        });
        let peer = |number: u32| Some(peers[number as usize]);
        let mut reply = |bytes: &[u8], ends: &[(u32, usize)]| {
            listener.socket.send_longest_first(bytes, ends, peer)
        };
        server.serve(endpoint, incoming, &mut reply, serving);
    }

    /// Adds what waits in the sockets and what they have lost.
    pub fn sample(&self, state: &mut State) {
        let counters = &mut state.counters.datagrams;
        for listener in &self.sockets {
            let memory = listener.socket.memory();
            counters.backlog_bytes += memory.backlog_bytes;
            counters.queue_bytes += memory.queue_bytes;
            counters.dropped += memory.dropped;
        }
    }
}
