//! Sockets for datagrams, of one worker.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use super::addresses::is_local;
use super::packets::{Endpoint, PacketServer};
use super::replies::{ReceivedPackets, Serving};
use super::state::WorkerContext;
use crate::protocol::datagram::DATAGRAM_MAX_BYTES;
use crate::udp::{DatagramSocket, Peer, ReceiveBuffers};

/// Offset of the partition in a datagram's header: that of its lower byte. There are fewer than 256
/// partitions.
const PARTITION_OFFSET: u32 = 4;
/// Free ports that are tried where any will do.
const ANY_PORT_TRIES: usize = 16;
/// Times that a socket is read a turn.
const READS_MAX: usize = 4;

/// A socket of a worker.
#[derive(Debug)]
pub(super) struct DatagramListener {
    /// Datagrams arrive here by the partition in their header.
    pub is_steered: bool,
    pub socket: DatagramSocket,
    pub address: SocketAddr,
}

impl DatagramListener {
    /// Listens at an address with several sockets. If the system supports it, a datagram arrives at the
    /// socket of its partition, unless `ports_only`. In addition, each socket has a port of its own: the next
    /// ones, in order. Returns the sockets of each partition, that of all first. Port 0 takes any.
    pub(super) fn bind(
        address: SocketAddr,
        count: usize,
        rx_queue: usize,
        ports_only: bool,
    ) -> io::Result<Vec<Vec<Self>>> {
        let mut tries = ANY_PORT_TRIES;
        loop {
            let bound = Self::try_bind(address, count, rx_queue, ports_only);
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

    /// Binds `count` sockets at one address.
    fn bind_all(address: SocketAddr, count: usize, rx_queue: usize) -> io::Result<Vec<Self>> {
        let mut address = address;
        let mut all = Vec::with_capacity(count);
        for number in 0..count {
            let socket = DatagramSocket::bind(address, number > 0, rx_queue)?;
            // So that others can join, but only from here on: a second server finds the address in use.
            socket.share(count > 1)?;
            address = socket.address()?;
            all.push(Self { is_steered: false, socket, address });
        }
        Ok(all)
    }

    fn try_bind(
        address: SocketAddr,
        count: usize,
        rx_queue: usize,
        ports_only: bool,
    ) -> io::Result<Vec<Vec<Self>>> {
        let mut shared = Self::bind_all(address, count, rx_queue)?;
        if count == 1 {
            return Ok(vec![shared]);
        }
        let is_steered =
            !ports_only && (shared[0].socket).steer(PARTITION_OFFSET, count as u32).is_ok();
        let mut address = shared[0].address;
        let mut all = Vec::with_capacity(count);
        for mut first in shared.drain(..) {
            first.is_steered = is_steered;
            let port = address.port().checked_add(1);
            address.set_port(port.ok_or(io::ErrorKind::AddrInUse)?);
            let mut sockets = Self::bind_all(address, 1, rx_queue)?;
            sockets.insert(0, first);
            all.push(sockets);
        }
        Ok(all)
    }
}

/// The sockets of a worker.
pub(super) struct Datagrams {
    sockets: Vec<DatagramListener>,
    buffers: ReceiveBuffers,
}

impl Datagrams {
    /// Makes a server for these sockets; `None` if there are none.
    pub(super) fn new(sockets: Vec<DatagramListener>) -> Option<Self> {
        (!sockets.is_empty()).then(|| Self { sockets, buffers: ReceiveBuffers::new() })
    }

    /// The sockets, in order of their numbers.
    pub(super) fn sockets(&self) -> impl Iterator<Item = impl AsFd> {
        self.sockets.iter().map(|listener| &listener.socket)
    }

    /// Serves datagrams of a socket, up to a limit, so that others have their turn.
    pub(super) fn serve(
        &mut self,
        number: usize,
        server: &mut PacketServer,
        serving: &mut Serving<'_>,
    ) {
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

    /// Executes and answers the received datagrams.
    fn process(&mut self, number: usize, server: &mut PacketServer, serving: &mut Serving<'_>) {
        let listener = &self.sockets[number];
        let endpoint =
            Endpoint { is_steered: listener.is_steered, datagram_max_bytes: DATAGRAM_MAX_BYTES };
        let counters = &mut serving.state.counters.datagrams;
        let (mut packets, mut senders) = (Vec::new(), Vec::new());
        let mut peers: Vec<&Peer> = Vec::new();
        for message in self.buffers.received() {
            if !(message.peer.address()).is_some_and(|from| is_local(from.ip())) {
                counters.refused += message.datagrams().count() as u64;
                continue;
            }
            packets.extend(message.datagrams());
            senders.resize(packets.len(), peers.len() as u32);
            peers.push(message.peer);
        }
        let received = ReceivedPackets {
            packets: &packets,
            senders: &senders,
            reply: &mut |bytes, ends| {
                let peer = |number: u32| Some(peers[number as usize]);
                listener.socket.send_longest_first(bytes, ends, peer)
            },
        };
        server.serve(endpoint, received, serving);
    }

    /// Adds the bytes that wait in the sockets, and the datagrams that they lost.
    pub(super) fn sample(&self, state: &mut WorkerContext) {
        let counters = &mut state.counters.datagrams;
        for listener in &self.sockets {
            let memory = listener.socket.memory();
            counters.backlog_bytes += memory.backlog_bytes;
            counters.queue_bytes += memory.queue_bytes;
            counters.dropped += memory.dropped;
        }
    }
}
