//! Transports that carry datagrams of requests to a server, and datagrams of answers back.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

use super::port::PortChannel;
use super::{Address, ProtocolKind, Settings};
use overside_kv_datagram::herd::{RegionAddress, RequestWriter};
use overside_kv_datagram::udp::{DatagramSocket, RX_QUEUE_DEFAULT, ReceiveBuffers};
use overside_kv_protocol::datagram::{ETHERNET_BYTES, Header};
use overside_link::Password;

/// Both ways.
#[derive(Debug)]
pub(super) enum Transport {
    /// UDP socket.
    Socket(DatagramSocket),
    /// One-sided writes of requests into the server's memory, and answers by UDP.
    Region(Box<RequestWriter>),
    /// UDP at a port that DPDK drives.
    Port(PortChannel),
}

impl Transport {
    pub(crate) fn connect(settings: &Settings, port: Option<PortChannel>) -> io::Result<Self> {
        if let Some(channel) = port {
            return Ok(Self::Port(channel));
        }
        match (settings.protocol, &settings.address) {
            (ProtocolKind::Herd, address) => {
                let place = match address {
                    Address::Tcp(address) => RegionAddress::Address(*address),
                    Address::Unix(path) => RegionAddress::Path(path.clone()),
                };
                let password = settings.password.as_deref();
                let secret = password.map(|password| Password::new(password).secret());
                let writer = RequestWriter::connect(&place, secret).map_err(io::Error::other)?;
                Ok(Self::Region(Box::new(writer)))
            }
            (_, Address::Tcp(address)) => {
                DatagramSocket::connect(*address, RX_QUEUE_DEFAULT).map(Self::Socket)
            }
            (_, Address::Unix(_)) => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// Longest datagram of requests.
    pub(crate) fn datagram_bytes(&self) -> usize {
        match self {
            Self::Socket(_) => ETHERNET_BYTES,
            Self::Region(writer) => writer.datagram_max_bytes(),
            Self::Port(channel) => channel.datagram_max_bytes().min(ETHERNET_BYTES),
        }
    }

    /// Maximum number of datagrams in flight, if the transport knows.
    pub(crate) fn in_flight_max(&self) -> Option<usize> {
        match self {
            Self::Socket(_) | Self::Port(_) => None,
            Self::Region(writer) => Some(writer.slots()),
        }
    }

    /// Returns the descriptor that becomes readable when something has arrived; `None` if it must
    /// be polled.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Socket(socket) => Some(socket.as_fd()),
            Self::Region(writer) => Some(writer.socket().as_fd()),
            Self::Port(_) => None,
        }
    }

    /// Sends datagrams, which are concatenated in `bytes`. Datagrams without room in the queue are lost.
    pub(crate) fn send(&mut self, bytes: &[u8], ends: &[(u32, usize)]) -> io::Result<()> {
        match self {
            Self::Socket(socket) => {
                socket.send(bytes, ends, |_| None);
                Ok(())
            }
            Self::Region(writer) => writer.write(bytes, ends).map_err(io::Error::other),
            Self::Port(channel) => {
                channel.send(bytes, ends);
                Ok(())
            }
        }
    }

    /// Passes on the received datagrams.
    pub(crate) fn receive(
        &mut self,
        buffers: &mut ReceiveBuffers,
        take: &mut dyn FnMut(&[u8]),
    ) -> io::Result<()> {
        match self {
            Self::Socket(socket) => {
                socket.receive(buffers)?;
                let datagrams = buffers.received().flat_map(|one| one.datagrams());
                datagrams.for_each(take);
            }
            Self::Region(writer) => {
                writer.progress().map_err(io::Error::other)?;
                writer.socket().receive(buffers)?;
                for bytes in buffers.received().flat_map(|one| one.datagrams()) {
                    if let Ok((header, _)) = Header::read(bytes) {
                        writer.answered(header.sequence);
                    }
                    take(bytes);
                }
            }
            Self::Port(channel) => channel.receive(take),
        }
        Ok(())
    }
}
