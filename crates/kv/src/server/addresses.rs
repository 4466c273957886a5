//! Where a server listens, and who could use it there.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ethernet::PortSettings;
use crate::herd::Place;

/// Where a server listens, by what clients speak. Port 0 takes any.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Addresses {
    /// RESP in the clear.
    pub tcp: Vec<SocketAddr>,
    /// RESP by TLS.
    pub tls: Vec<SocketAddr>,
    /// memcached's protocol, which has no password.
    pub memcached: Vec<SocketAddr>,
    /// The same by datagrams.
    pub memcached_udp: Vec<SocketAddr>,
    /// Datagrams of this store's protocol.
    pub datagram: Vec<SocketAddr>,
    /// Where clients come that write their requests into a polled region (HERD's pairing); by an address
    /// those alone that know the password.
    pub herd: Option<Place>,
    /// A port that DPDK drives: addresses of datagrams that are its own are served there.
    pub port: Option<PortSettings>,
    /// A socket in the file system, for this user only.
    pub unix: Option<PathBuf>,
    /// Where metrics are read, by anybody.
    pub metrics: Option<SocketAddr>,
}

/// What keeps others out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Clients must know a password.
    pub has_password: bool,
    /// Clients by TLS must have a certificate.
    pub requires_certificates: bool,
    /// Whoever can send frames to the port may use the store.
    pub trusts_port: bool,
}

/// An address at which anybody could use the store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Exposed {
    /// memcached's protocol has no password.
    #[error("other machines can reach {0}, and memcached's protocol has no password")]
    Memcached(SocketAddr),
    /// The same by datagrams.
    #[error("other machines can reach {0}, and memcached's protocol has no password")]
    MemcachedUdp(SocketAddr),
    /// A client that comes by UCX is trusted with this process.
    #[error("whoever comes to {0} by UCX is trusted with this process, so a password is required")]
    Herd(SocketAddr),
    /// Frames are no connections.
    #[error("whoever can send frames to {0} can reach the store, so a password is required")]
    Port(String),
    /// Datagrams are sealed with the password.
    #[error(
        "other machines can reach {0}, so a password is required: datagrams are sealed with it"
    )]
    Datagram(SocketAddr),
    /// RESP.
    #[error("other machines can reach {0}, so a password is required")]
    Stream(SocketAddr),
}

/// Whether nobody but programs of this machine can reach an address.
pub fn is_local(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

impl Addresses {
    /// Whether there are datagrams.
    #[must_use]
    pub fn has_datagrams(&self) -> bool {
        !(self.datagram.is_empty() && self.memcached_udp.is_empty()) || self.herd.is_some()
    }

    /// Whether clients can come at all.
    #[must_use]
    pub fn has_clients(&self) -> bool {
        let streams = [&self.tcp, &self.tls, &self.memcached];
        self.has_datagrams()
            || self.unix.is_some()
            || streams.iter().any(|addresses| !addresses.is_empty())
    }

    /// Whether an address is that of the port which DPDK drives.
    #[must_use]
    pub fn is_of_port(&self, address: &SocketAddr) -> bool {
        (self.port.as_ref()).is_some_and(|port| address.ip() == IpAddr::V4(port.address))
    }

    /// Those of the network at which clients connect or send datagrams, metrics left out.
    pub fn of_clients(&self) -> impl Iterator<Item = &SocketAddr> {
        let streams = self.tcp.iter().chain(&self.tls).chain(&self.memcached);
        streams.chain(&self.memcached_udp).chain(&self.datagram)
    }

    /// Finds where anybody could use the store.
    ///
    /// # Errors
    /// [`Exposed`]: the first such address.
    pub fn check(&self, protection: Protection) -> Result<(), Exposed> {
        let is_open = |address: &&SocketAddr| !is_local(address.ip());
        let is_open_to_datagrams = |address: &&SocketAddr| {
            is_open(address) && !(protection.trusts_port && self.is_of_port(address))
        };
        if let Some(address) = self.memcached.iter().find(is_open) {
            return Err(Exposed::Memcached(*address));
        }
        if let Some(address) = self.memcached_udp.iter().find(is_open_to_datagrams) {
            return Err(Exposed::MemcachedUdp(*address));
        }
        if protection.has_password {
            return Ok(());
        }
        if let Some(port) = self.port.as_ref().filter(|_| !protection.trusts_port) {
            return Err(Exposed::Port(port.device.clone()));
        }
        if let Some(Place::Address(address)) = self.herd {
            return Err(Exposed::Herd(address));
        }
        if let Some(address) = self.datagram.iter().find(is_open_to_datagrams) {
            return Err(Exposed::Datagram(*address));
        }
        let tls = (self.tls.iter()).filter(|_| !protection.requires_certificates);
        match self.tcp.iter().chain(tls).find(is_open) {
            Some(address) => Err(Exposed::Stream(*address)),
            None => Ok(()),
        }
    }
}
