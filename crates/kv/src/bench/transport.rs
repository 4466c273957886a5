//! How datagrams of requests go to a server, and those of answers come back.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

use super::port::PortChannel;
use super::{Address, ProtocolKind, Settings};
use crate::client::datagram::Channel;
use crate::herd::{Place, RequestWriter};
use crate::protocol::datagram::{ETHERNET_BYTES, Header};
use crate::server::Password;
use crate::udp::ReceiveBuffers;

/// Both ways.
#[derive(Debug)]
pub(super) enum Transport {
    /// By UDP.
    Socket(Box<Channel>),
    /// Requests by one-sided writes into the server's memory, answers by UDP.
    Region(Box<RequestWriter>),
    /// By UDP at a port that DPDK drives.
    Port(PortChannel),
}

impl Transport {
    pub fn connect(settings: &Settings, port: Option<PortChannel>) -> io::Result<Self> {
        if let Some(channel) = port {
            return Ok(Self::Port(channel));
        }
        match (settings.protocol, &settings.address) {
            (ProtocolKind::Herd, address) => {
                let place = match address {
                    Address::Tcp(address) => Place::Address(*address),
                    Address::Unix(path) => Place::Path(path.clone()),
                };
                let password = settings.password.as_deref();
                let secret = password.map(|password| Password::new(password).secret());
                let writer = RequestWriter::connect(&place, secret).map_err(io::Error::other)?;
                Ok(Self::Region(Box::new(writer)))
            }
            (_, Address::Tcp(address)) => {
                let password = settings.password.as_deref().map(Password::new);
                let channel = Channel::connect(*address, password.as_ref())?;
                Ok(Self::Socket(Box::new(channel)))
            }
            (_, Address::Unix(_)) => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// Longest datagram of requests.
    pub fn datagram_bytes(&self) -> usize {
        match self {
            Self::Socket(channel) => ETHERNET_BYTES - channel.overhead_bytes(),
            Self::Region(writer) => writer.datagram_max_bytes(),
            Self::Port(channel) => channel.datagram_max_bytes().min(ETHERNET_BYTES),
        }
    }

    /// Most datagrams in flight, if the transport knows.
    pub fn in_flight_max(&self) -> Option<usize> {
        match self {
            Self::Socket(_) | Self::Port(_) => None,
            Self::Region(writer) => Some(writer.slots()),
        }
    }

    /// What is readable when something has come; `None`: that is to be polled.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Socket(channel) => Some(channel.socket().as_fd()),
            Self::Region(writer) => Some(writer.socket().as_fd()),
            Self::Port(_) => None,
        }
    }

    /// Sends datagrams, one behind the other in `bytes`. What finds no room is lost.
    pub fn send(&mut self, bytes: &[u8], ends: &[(u32, usize)]) -> io::Result<()> {
        match self {
            Self::Socket(channel) => channel.send(bytes, ends),
            Self::Region(writer) => writer.write(bytes, ends).map_err(io::Error::other),
            Self::Port(channel) => {
                channel.send(bytes, ends);
                Ok(())
            }
        }
    }

    /// Hands over the datagrams that have come, as the server wrote them. What is not the server's is dropped.
    pub fn receive(
        &mut self,
        buffers: &mut ReceiveBuffers,
        take: &mut dyn FnMut(&[u8]),
    ) -> io::Result<()> {
        match self {
            Self::Socket(channel) => {
                channel.receive(buffers)?;
                for bytes in buffers.received().flat_map(|one| one.datagrams()) {
                    channel.open(bytes).into_iter().for_each(&mut *take);
                }
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
