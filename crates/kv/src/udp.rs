//! UDP sockets that move many datagrams by one system call.
//!
//! 1. Datagrams are received by recvmmsg(2), many messages at once. Where the kernel can, a message is a
//!    train of datagrams of equal length from one sender (generic receive offload, udp(7) `UDP_GRO`).
//! 2. They are sent by sendmmsg(2), and those of equal length to one receiver as one message
//!    (segmentation offload, `UDP_SEGMENT`).
//!
//! On loopback such a train is never taken apart.

mod messages;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};

use messages::{MESSAGES, Outgoing};
pub use messages::{Peer, ReceiveBuffers, Received};

/// Most datagrams of a train: what every kernel with segmentation offload takes.
const SEGMENTS_MAX: usize = 64;
/// Most bytes of a train: what UDP over IPv4 carries.
const TRAIN_MAX_BYTES: usize = 65_507;
/// Bytes of a receive descriptor: a frame of Ethernet and what the kernel keeps with it. The kernel doubles
/// what it is asked for, for the latter.
pub const DESCRIPTOR_BYTES: usize = 2048;
/// Receive descriptors unless told otherwise: as much as the system allows in most cases.
pub const RX_QUEUE_DEFAULT: usize = 2048;

/// A socket that never blocks.
#[derive(Debug)]
pub struct DatagramSocket(OwnedFd);

/// What waits in a socket, and what it has lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketMemory {
    /// Bytes that wait to be received, with what the kernel keeps with them.
    pub backlog_bytes: u64,
    /// As many can wait.
    pub queue_bytes: u64,
    /// Datagrams that were dropped because no more could wait. A train counts as one.
    pub dropped: u64,
}

/// What became of datagrams.
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

    /// Lets others have the same address, among which the system divides senders.
    ///
    /// # Errors
    /// That of the system.
    pub fn share(&self, shares: bool) -> io::Result<()> {
        Ok(sockopt::set_socket_reuseport(&self.0, shares)?)
    }

    /// A socket that sends to an address, and receives from there alone.
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

    /// Its own address.
    ///
    /// # Errors
    /// That of the system.
    pub fn address(&self) -> io::Result<SocketAddr> {
        UdpSocket::from(self.0.try_clone()?).local_addr()
    }

    /// What waits, and what was lost.
    #[must_use]
    pub fn memory(&self) -> SocketMemory {
        messages::memory(&self.0).unwrap_or_default()
    }

    /// Receives what is there, as much as `buffers` take. How many messages.
    ///
    /// # Errors
    /// That of the system. Nothing that is there is no error.
    pub fn receive(&self, buffers: &mut ReceiveBuffers) -> io::Result<usize> {
        match buffers.receive(self.0.as_fd()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
            received => received,
        }
    }

    /// Sends datagrams that are one behind the other in `bytes`: whom each is for, as a number, and where
    /// it ends. `peer` gives the address of a number; `None` where the socket is connected. Does not wait:
    /// what finds no room fails.
    pub fn send<'p>(
        &self,
        bytes: &[u8],
        ends: &[(u32, usize)],
        peer: impl Fn(u32) -> Option<&'p Peer>,
    ) -> Sent {
        let mut sent = Sent::default();
        let mut trains = trains(ends);
        let mut is_more = true;
        while is_more {
            let mut messages = [const { Outgoing::EMPTY }; MESSAGES];
            let mut count = 0;
            while count < MESSAGES
                && let Some(train) = trains.next()
            {
                messages[count] = Outgoing {
                    bytes: &bytes[train.begin..train.end],
                    segment: train.segment,
                    peer: peer(train.to),
                };
                count += 1;
            }
            is_more = count == MESSAGES;
            self.send_messages(&messages[..count], &mut sent);
        }
        sent
    }

    fn send_messages(&self, mut messages: &[Outgoing<'_, '_>], sent: &mut Sent) {
        while let Some(first) = messages.first() {
            match messages::send(self.0.as_fd(), messages) {
                Ok(count) => {
                    for message in &messages[..count] {
                        sent.datagrams += message.datagrams();
                        sent.bytes += message.bytes.len() as u64;
                    }
                    messages = &messages[count..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.send_singly(first, sent);
                    messages = &messages[1..];
                }
            }
        }
    }

    /// Sends a train that the system has refused as datagrams: segmentation offload is not there, or they are
    /// longer than a frame.
    fn send_singly(&self, train: &Outgoing<'_, '_>, sent: &mut Sent) {
        if train.datagrams() == 1 {
            sent.failed += 1;
            return;
        }
        for bytes in train.bytes.chunks(train.segment) {
            let one = Outgoing {
                bytes,
                segment: bytes.len(),
                ..*train
            };
            match messages::send(self.0.as_fd(), &[one]) {
                Ok(_) => {
                    sent.datagrams += 1;
                    sent.bytes += bytes.len() as u64;
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

/// Datagrams of equal length to one receiver; the last may be shorter.
#[derive(Debug, PartialEq, Eq)]
struct Train {
    to: u32,
    begin: usize,
    end: usize,
    segment: usize,
}

fn trains(ends: &[(u32, usize)]) -> impl Iterator<Item = Train> + use<'_> {
    let mut begin = 0;
    let mut rest = ends;
    std::iter::from_fn(move || {
        let (&(to, first_end), mut after) = rest.split_first()?;
        let segment = first_end - begin;
        let mut train = Train {
            to,
            begin,
            end: first_end,
            segment,
        };
        let mut count = 1;
        while let Some((&(other, end), next)) = after.split_first() {
            let len = end - train.end;
            let fits = count < SEGMENTS_MAX && end - begin <= TRAIN_MAX_BYTES;
            if other != to || len > segment || !fits {
                break;
            }
            train.end = end;
            after = next;
            count += 1;
            if len < segment {
                break;
            }
        }
        begin = train.end;
        rest = after;
        Some(train)
    })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
    use std::time::{Duration, Instant};

    use super::{DatagramSocket, RX_QUEUE_DEFAULT, ReceiveBuffers, Train, trains};

    #[test]
    fn trains_are_of_one_length_and_one_receiver() {
        let ends = [(7, 10), (7, 20), (7, 25), (7, 35), (8, 45), (8, 60)];
        let train = |to, begin, end, segment| Train {
            to,
            begin,
            end,
            segment,
        };
        let expected = [
            train(7, 0, 25, 10),
            train(7, 25, 35, 10),
            train(8, 35, 45, 10),
            train(8, 45, 60, 15),
        ];
        assert_eq!(trains(&ends).collect::<Vec<_>>(), expected);
        let many: Vec<_> = (1..=200).map(|number| (1, number * 1000)).collect();
        let lens: Vec<_> = trains(&many).map(|train| train.end - train.begin).collect();
        assert_eq!(lens, [64_000, 64_000, 64_000, 8_000]);
        let small: Vec<_> = (1..=100).map(|number| (1, number)).collect();
        let lens: Vec<_> = trains(&small)
            .map(|train| train.end - train.begin)
            .collect();
        assert_eq!(lens, [64, 36]);
    }

    /// Receives so many datagrams: the first byte of each, and its length.
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
            let lens = [700, 700, 700, 300, 1, 1400, 1400, 60_000];
            let (mut bytes, mut ends) = (Vec::new(), Vec::new());
            for (number, len) in lens.iter().enumerate() {
                bytes.resize(bytes.len() + len, number as u8);
                ends.push((0, bytes.len()));
            }
            let sent = client.send(&bytes, &ends, |_| None);
            assert_eq!((sent.datagrams, sent.failed), (8, 0));
            assert_eq!(sent.bytes, bytes.len() as u64);
            let expected: Vec<_> = (0..).zip(lens).collect();
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
