//! How datagrams of requests go to a server, and those of answers come back.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};

use super::{Address, ProtocolKind, Settings};
use crate::client::datagram::Channel;
use crate::herd::{Place, RequestWriter};
use crate::protocol::datagram::{ETHERNET_BYTES, Header};
use crate::server::Password;
use crate::udp::{DatagramSocket, ReceiveBuffers};

/// Both ways.
#[derive(Debug)]
pub(super) enum Transport {
    /// By UDP.
    Socket(Box<Channel>),
    /// Requests by one-sided writes into the server's memory, answers by UDP.
    Region(Box<RequestWriter>),
}

impl Transport {
    pub fn connect(settings: &Settings) -> io::Result<Self> {
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
        }
    }

    /// Most datagrams in flight, if the transport knows.
    pub fn in_flight_max(&self) -> Option<usize> {
        match self {
            Self::Socket(_) => None,
            Self::Region(writer) => Some(writer.slots()),
        }
    }

    fn socket(&self) -> &DatagramSocket {
        match self {
            Self::Socket(channel) => channel.socket(),
            Self::Region(writer) => writer.socket(),
        }
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket().as_fd()
    }

    /// Sends datagrams, one behind the other in `bytes`. What finds no room is lost.
    pub fn send(&mut self, bytes: &[u8], ends: &[(u32, usize)]) -> io::Result<()> {
        match self {
            Self::Socket(channel) => channel.send(bytes, ends),
            Self::Region(writer) => writer.write(bytes, ends).map_err(io::Error::other),
        }
    }

    pub fn receive(&mut self, buffers: &mut ReceiveBuffers) -> io::Result<()> {
        if let Self::Region(writer) = self {
            writer.progress().map_err(io::Error::other)?;
        }
        self.socket().receive(buffers).map(drop)
    }

    /// What was received as the server wrote it; `None`: it is not of the server.
    pub fn open<'a>(&mut self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        match self {
            Self::Socket(channel) => channel.open(bytes),
            Self::Region(_) => Some(bytes),
        }
    }

    /// An answer has come: to be called for each.
    pub fn answered(&mut self, datagram: &[u8]) {
        if let Self::Region(writer) = self
            && let Ok((header, _)) = Header::read(datagram)
        {
            writer.answered(header.sequence);
        }
    }
}
