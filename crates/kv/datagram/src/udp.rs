//! UDP sockets that move many datagrams by one system call.
//!
//! 1. Datagrams are received by recvmmsg(2), many messages at once. If the kernel supports it, a message is a
//!    train of datagrams of equal length from one sender (generic receive offload, udp(7) `UDP_GRO`).
//! 2. They are sent by sendmmsg(2), and those of equal length to one receiver as one message
//!    (segmentation offload, `UDP_SEGMENT`).
//!
//! On loopback such a train is never taken apart.

mod messages;

use std::cmp::Reverse;
use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};

use messages::{MESSAGES, Outgoing};
pub use messages::{Peer, RECEIVE_BYTES, ReceiveBuffers, Received};

/// Maximum number of datagrams of a train: a number that every kernel with segmentation offload takes.
const SEGMENTS_MAX: usize = 64;
/// Maximum number of bytes of a train: the limit of UDP over IPv4.
const TRAIN_MAX_BYTES: usize = 65_507;
/// A train may be longer than its datagrams by this.
const FILL: (usize, usize) = (4, 5);
/// Bytes of a receive descriptor: a frame of Ethernet and the kernel's own data. The kernel doubles
/// the requested size for the latter.
pub const DESCRIPTOR_BYTES: usize = 2048;
/// Receive descriptors by default: as much as the system allows in most cases.
pub const RX_QUEUE_DEFAULT: usize = 2048;

/// A socket that never blocks.
#[derive(Debug)]
pub struct DatagramSocket(OwnedFd);

/// Fill level and size of a socket's receive queue, and the datagrams that it has lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketMemory {
    /// Number of bytes waiting to be received, with the kernel's overhead.
    pub backlog_bytes: u64,
    /// Maximum number of waiting bytes, counted like `backlog_bytes`.
    pub queue_bytes: u64,
    /// Datagrams that were dropped because no more could wait. A train counts as one.
    pub dropped: u64,
}

/// Result of sending datagrams: numbers of those that the kernel took and refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Datagrams that the kernel has taken.
    pub datagrams: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Datagrams that it has not.
    pub failed: u64,
}

impl DatagramSocket {
    /// A socket at an address. Port 0 takes any. `joins`: others may have it already, if they
    /// [share](Self::share) it.
    ///
    /// # Errors
    /// That of the system.
    pub fn bind(address: SocketAddr, joins: bool, rx_queue: usize) -> io::Result<Self> {
        let socket = open(address)?;
        sockopt::set_socket_reuseport(&socket, joins)?;
        bind(&socket, &address)?;
        Ok(Self::new(socket, rx_queue))
    }

    /// Allows other sockets with the same address, among which the system distributes senders.
    ///
    /// # Errors
    /// That of the system.
    pub fn share(&self, shares: bool) -> io::Result<()> {
        Ok(sockopt::set_socket_reuseport(&self.0, shares)?)
    }

    /// Makes the kernel choose the receiving socket of a datagram by one of its bytes. The `count`
    /// sockets that [share](Self::share) this one's address are numbered in the order in which they
    /// were bound. A datagram goes to the socket whose number is its byte at offset `byte`, modulo
    /// `count`.
    ///
    /// # Errors
    /// That of the system, where it has no such programs.
    pub fn steer(&self, byte: u32, count: u32) -> io::Result<()> {
        messages::steer(&self.0, byte, count)
    }

    /// A socket that sends to an address, and receives only from there.
    ///
    /// # Errors
    /// That of the system.
    pub fn connect(address: SocketAddr, rx_queue: usize) -> io::Result<Self> {
        let socket = open(address)?;
        connect(&socket, &address)?;
        Ok(Self::new(socket, rx_queue))
    }

    fn new(socket: OwnedFd, rx_queue: usize) -> Self {
        // The system gives as much as it allows. Without offload, datagrams come one by one.
        let _ = sockopt::set_socket_recv_buffer_size(&socket, rx_queue * DESCRIPTOR_BYTES);
        let _ = sockopt::set_socket_send_buffer_size(&socket, RX_QUEUE_DEFAULT * DESCRIPTOR_BYTES);
        let _ = messages::enable_receive_offload(&socket);
        Self(socket)
    }

    /// Returns the local address of the socket.
    ///
    /// # Errors
    /// That of the system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        UdpSocket::from(self.0.try_clone()?).local_addr()
    }

    /// Returns the state of the receive queue, all zero if the system does not report it.
    #[must_use]
    pub fn memory(&self) -> SocketMemory {
        messages::memory(&self.0).unwrap_or_default()
    }

    /// Receives waiting messages, as many as `buffers` take. Returns their number.
    ///
    /// # Errors
    /// That of the system. An empty socket is no error.
    pub fn receive(&self, buffers: &mut ReceiveBuffers) -> io::Result<usize> {
        match buffers.receive(self.0.as_fd()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            received => received,
        }
    }

    /// Sends datagrams that are concatenated in `bytes`; each has the number of its peer, and its end. Some
    /// are padded with zeros if that makes a train of them. `peer` returns the address of a number; `None` if
    /// the socket is connected. Does not wait: datagrams without room fail.
    pub fn send<'p>(
        &self,
        bytes: &[u8],
        ends: &[(u32, usize)],
        peer: impl Fn(u32) -> Option<&'p Peer>,
    ) -> Sent {
        self.send_datagrams(bytes, &datagrams(ends), peer)
    }

    /// Sends datagrams like [`Self::send`], but sorts consecutive ones to the same receiver by
    /// length, longest first, which makes trains longer.
    pub fn send_longest_first<'p>(
        &self,
        bytes: &[u8],
        ends: &[(u32, usize)],
        peer: impl Fn(u32) -> Option<&'p Peer>,
    ) -> Sent {
        let mut all = datagrams(ends);
        for to_one in all.chunk_by_mut(|one, next| one.0 == next.0) {
            to_one.sort_by_key(|(_, range)| Reverse(range.len()));
        }
        self.send_datagrams(bytes, &all, peer)
    }

    fn send_datagrams<'p>(
        &self,
        bytes: &[u8],
        all: &[Datagram],
        peer: impl Fn(u32) -> Option<&'p Peer>,
    ) -> Sent {
        let mut sent = Sent::default();
        let (mut pieces, mut batch) = (Vec::new(), Vec::new());
        let mut trains = trains(all).peekable();
        while let Some(train) = trains.next() {
            let begin = pieces.len();
            train.pieces(bytes, &mut pieces);
            batch.push((train, begin..pieces.len()));
            if batch.len() == MESSAGES || trains.peek().is_none() {
                let message = |(train, range): &(Train<'_>, Range<usize>)| Outgoing {
                    pieces: &pieces[range.clone()],
                    segment: train.segment,
                    count: train.datagrams.len(),
                    peer: peer(train.to),
                };
                let messages: Vec<_> = batch.iter().map(message).collect();
                self.send_messages(&messages, &batch, bytes, &mut sent);
                batch.clear();
                pieces.clear();
            }
        }
        sent
    }

    fn send_messages(
        &self,
        messages: &[Outgoing<'_, '_>],
        trains: &[(Train<'_>, Range<usize>)],
        bytes: &[u8],
        sent: &mut Sent,
    ) {
        let mut done = 0;
        while done < messages.len() {
            match messages::send(self.0.as_fd(), &messages[done..]) {
                Ok(count) => {
                    for (train, _) in &trains[done..done + count] {
                        sent.datagrams += train.datagrams.len() as u64;
                        sent.bytes += train.len as u64;
                    }
                    done += count;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.send_singly(&trains[done].0, messages[done].peer, bytes, sent);
                    done += 1;
                }
            }
        }
    }

    /// Sends a train that the system has refused as datagrams: segmentation offload is not there, or they are
    /// longer than a frame.
    fn send_singly(&self, train: &Train<'_>, peer: Option<&Peer>, bytes: &[u8], sent: &mut Sent) {
        if train.datagrams.len() == 1 {
            sent.failed += 1;
            return;
        }
        for (_, range) in train.datagrams {
            let one = Outgoing {
                pieces: &[IoSlice::new(&bytes[range.clone()])],
                segment: range.len(),
                count: 1,
                peer,
            };
            match messages::send(self.0.as_fd(), &[one]) {
                Ok(_) => {
                    sent.datagrams += 1;
                    sent.bytes += range.len() as u64;
                }
                Err(_) => sent.failed += 1,
            }
        }
    }
}

impl AsFd for DatagramSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn open(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(socket_with(family, SocketType::DGRAM, flags, None)?)
}

/// Number of a datagram's receiver, and the range of its bytes in the buffer.
type Datagram = (u32, Range<usize>);

fn datagrams(ends: &[(u32, usize)]) -> Vec<Datagram> {
    let mut begin = 0;
    let datagram = |&(to, end): &(u32, usize)| (to, std::mem::replace(&mut begin, end)..end);
    ends.iter().map(datagram).collect()
}

/// Datagrams to one receiver, which get equal lengths; the last may be shorter.
#[derive(Debug, PartialEq, Eq)]
struct Train<'d> {
    to: u32,
    datagrams: &'d [Datagram],
    /// The length of the longest.
    segment: usize,
    /// Bytes without padding.
    len: usize,
}

impl Train<'_> {
    /// Appends the bytes to send to `pieces`: every datagram but the last is filled up with zeros
    /// to the length of the longest.
    fn pieces<'b>(&self, bytes: &'b [u8], pieces: &mut Vec<IoSlice<'b>>) {
        static ZEROS: [u8; TRAIN_MAX_BYTES] = [0; TRAIN_MAX_BYTES];
        let last = self.datagrams.len() - 1;
        // What lies one behind the other goes together.
        let mut piece = 0..0;
        for (number, (_, range)) in self.datagrams.iter().enumerate() {
            if piece.is_empty() {
                piece.start = range.start;
            } else if piece.end != range.start {
                pieces.push(IoSlice::new(&bytes[piece]));
                piece = range.clone();
            }
            piece.end = range.end;
            let missing = self.segment - range.len();
            if number == last {
                pieces.push(IoSlice::new(&bytes[piece.clone()]));
            } else if missing > 0 {
                pieces.push(IoSlice::new(&bytes[piece]));
                pieces.push(IoSlice::new(&ZEROS[..missing]));
                piece = 0..0;
            }
        }
    }
}

fn trains(all: &[Datagram]) -> impl Iterator<Item = Train<'_>> {
    let mut rest = all;
    std::iter::from_fn(move || {
        let (&(to, ref first), _) = rest.split_first()?;
        let (mut count, mut len, mut segment) = (1, first.len(), first.len());
        while let Some((other, range)) = rest.get(count) {
            let longest = segment.max(range.len());
            let filled = longest * (count + 1);
            let fits = count < SEGMENTS_MAX && filled <= TRAIN_MAX_BYTES;
            if *other != to || !fits || filled > (len + range.len()) / FILL.0 * FILL.1 {
                break;
            }
            (segment, len, count) = (longest, len + range.len(), count + 1);
        }
        let (datagrams, after) = rest.split_at(count);
        rest = after;
        Some(Train { to, datagrams, segment, len })
    })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
    use std::time::{Duration, Instant};

    use super::{DatagramSocket, RX_QUEUE_DEFAULT, ReceiveBuffers, Train, datagrams, trains};

    #[test]
    fn trains_are_of_one_receiver_and_like_lengths() {
        let ends = [(7, 100), (7, 210), (7, 260), (8, 360), (8, 900), (8, 1410)];
        let lens = |ends: &[(u32, usize)]| -> Vec<_> {
            let train =
                |train: Train<'_>| (train.to, train.datagrams.len(), train.segment, train.len);
            trains(&datagrams(ends)).map(train).collect()
        };
        let expected = [(7, 2, 110, 210), (7, 1, 50, 50), (8, 1, 100, 100), (8, 2, 540, 1050)];
        assert_eq!(lens(&ends), expected);
        let many: Vec<_> = (1..=200).map(|number| (1, number * 1000)).collect();
        let expected = [(1, 64, 1000, 64_000); 3].into_iter().chain([(1, 8, 1000, 8000)]);
        assert_eq!(lens(&many), expected.collect::<Vec<_>>());
        let mut pieces = Vec::new();
        let bytes = [1; 1410];
        for train in trains(&datagrams(&ends)) {
            pieces.clear();
            train.pieces(&bytes, &mut pieces);
            let sent: usize = pieces.iter().map(|piece| piece.len()).sum();
            let (_, last) = &train.datagrams[train.datagrams.len() - 1];
            assert_eq!(sent, (train.datagrams.len() - 1) * train.segment + last.len());
        }
    }

    /// Receives `count` datagrams; returns the first byte and the length of each.
    fn receive(socket: &DatagramSocket, count: usize) -> Vec<(u8, usize)> {
        let mut buffers = ReceiveBuffers::new();
        let mut all = Vec::new();
        let begin = Instant::now();
        while all.len() < count {
            socket.receive(&mut buffers).unwrap();
            for message in buffers.received() {
                all.extend(message.datagrams().map(|bytes| (bytes[0], bytes.len())));
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "{all:?}");
        }
        all
    }

    #[test]
    fn datagrams_arrive_as_they_were_sent_in_trains_or_not() {
        for ip in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
            let any = SocketAddr::new(ip, 0);
            // There may be no IPv6.
            let Ok(server) = DatagramSocket::bind(any, false, RX_QUEUE_DEFAULT) else {
                continue;
            };
            let address = server.address().unwrap();
            let client = DatagramSocket::connect(address, RX_QUEUE_DEFAULT).unwrap();
            let lens = [700, 700, 690, 300, 1, 1400, 1400, 60_000];
            let (mut bytes, mut ends) = (Vec::new(), Vec::new());
            for (number, len) in lens.iter().enumerate() {
                bytes.resize(bytes.len() + len, number as u8);
                ends.push((0, bytes.len()));
            }
            let sent = client.send(&bytes, &ends, |_| None);
            assert_eq!((sent.datagrams, sent.failed), (8, 0));
            assert_eq!(sent.bytes, bytes.len() as u64);
            // All but the last of a train are as long as its longest.
            let mut expected: Vec<_> = (0..).zip(lens).collect();
            expected[2].1 = 700;
            assert_eq!(receive(&server, 8), expected);
            // And back to where they came from.
            client.send(b"ab", &[(0, 2)], |_| None);
            let mut buffers = ReceiveBuffers::new();
            while server.receive(&mut buffers).unwrap() == 0 {}
            let message = buffers.received().next().unwrap();
            assert_eq!(message.peer.address().unwrap().ip(), ip);
            server.send(&bytes, &ends, |_| Some(message.peer));
            assert_eq!(receive(&client, 8), expected);
        }
    }

    #[test]
    fn the_longest_to_one_receiver_go_first_if_that_is_asked_for() {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = DatagramSocket::bind(any, false, RX_QUEUE_DEFAULT).unwrap();
        let address = server.address().unwrap();
        let client = DatagramSocket::connect(address, RX_QUEUE_DEFAULT).unwrap();
        let lens = [1400, 30, 1400, 40, 1400, 20];
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for (number, len) in lens.iter().enumerate() {
            bytes.resize(bytes.len() + len, number as u8);
            ends.push((0, bytes.len()));
        }
        let sent = client.send_longest_first(&bytes, &ends, |_| None);
        let total: usize = lens.iter().sum();
        assert_eq!((sent.datagrams, sent.bytes), (6, total as u64));
        let order = receive(&server, 6).into_iter().map(|(number, _)| number);
        assert_eq!(order.collect::<Vec<_>>(), [0, 2, 4, 3, 1, 5]);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = DatagramSocket::bind(any, false, 8).unwrap();
        let address = server.address().unwrap();
        let client = DatagramSocket::connect(address, 8).unwrap();
        for _ in 0..200 {
            client.send(&[0; 1000], &[(0, 1000)], |_| None);
        }
        let memory = server.memory();
        assert!(memory.dropped > 0 && memory.backlog_bytes > 0, "{memory:?}");
        assert!(memory.queue_bytes >= 16 << 10 && memory.queue_bytes < 1 << 20);
    }
}
