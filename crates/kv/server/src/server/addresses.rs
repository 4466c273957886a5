//! Addresses where a server listens, and the check that no unauthorized client can use the store
//! there.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ethernet::PortSettings;
use crate::herd::RegionAddress;

/// Addresses where a server listens, by protocol. Port 0 takes any free port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Addresses {
    /// RESP in the clear.
    pub tcp: Vec<SocketAddr>,
    /// RESP by TLS.
    pub tls: Vec<SocketAddr>,
    /// memcached's protocol, which has no password.
    pub memcached: Vec<SocketAddr>,
    /// Datagrams of this store's protocol, which has no password.
    pub datagram: Vec<SocketAddr>,
    /// Address where clients connect that write their requests into a polled region (HERD's pairing).
    /// At an address only clients that know the password may.
    pub herd: Option<RegionAddress>,
    /// A port that DPDK drives: addresses of datagrams that are its own are served there.
    pub port: Option<PortSettings>,
    /// A socket in the file system, for this user only.
    pub unix: Option<PathBuf>,
    /// Address where metrics can be read, by every client that reaches it.
    pub metrics: Option<SocketAddr>,
}

/// Measures that keep unauthorized clients from using the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// Clients must know a password.
    pub has_password: bool,
    /// Clients by TLS must have a certificate.
    pub requires_certificates: bool,
    /// `true` if every sender that can reach the DPDK port may use the store.
    pub trusts_port: bool,
}

/// Address at which clients could use the store without authentication.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnauthenticatedAccess {
    /// memcached's protocol has no password.
    #[error("other machines can reach {0}, and memcached's protocol has no password")]
    Memcached(SocketAddr),
    /// A client that comes by UCX is trusted with this process.
    #[error("whoever comes to {0} by UCX is trusted with this process, so a password is required")]
    Herd(SocketAddr),
    /// Datagrams have no password, and those who can send frames to the port are not trusted.
    #[error("whoever can send frames to {0} can use the store: datagrams have no password")]
    Port(String),
    /// Datagrams have no password.
    #[error("other machines can reach {0}, and datagrams have no password")]
    Datagram(SocketAddr),
    /// RESP.
    #[error("other machines can reach {0}, so a password is required")]
    Stream(SocketAddr),
}

/// Returns `true` if only programs of this machine can reach an address.
pub(super) fn is_local(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

impl Addresses {
    /// Returns `true` if the server answers datagrams, which it also does for request regions.
    #[must_use]
    pub fn has_datagrams(&self) -> bool {
        !self.datagram.is_empty() || self.herd.is_some()
    }

    /// Returns `true` if there is any address for clients; metrics do not count.
    #[must_use]
    pub fn has_clients(&self) -> bool {
        let streams = [&self.tcp, &self.tls, &self.memcached];
        self.has_datagrams()
            || self.unix.is_some()
            || streams.iter().any(|addresses| !addresses.is_empty())
    }

    /// Returns `true` if `address` has the IP address of the port that DPDK drives.
    #[must_use]
    pub fn is_of_port(&self, address: &SocketAddr) -> bool {
        (self.port.as_ref()).is_some_and(|port| address.ip() == IpAddr::V4(port.address))
    }

    /// Returns the network addresses at which clients connect or send datagrams, without that of
    /// metrics.
    pub fn of_clients(&self) -> impl Iterator<Item = &SocketAddr> {
        let streams = self.tcp.iter().chain(&self.tls).chain(&self.memcached);
        streams.chain(&self.datagram)
    }

    /// Checks that all addresses are protected.
    ///
    /// # Errors
    /// [`UnauthenticatedAccess`]: the first address at which clients could use the store without
    /// authentication.
    pub fn check(&self, protection: Protection) -> Result<(), UnauthenticatedAccess> {
        let is_open = |address: &&SocketAddr| !is_local(address.ip());
        if let Some(address) = self.memcached.iter().find(is_open) {
            return Err(UnauthenticatedAccess::Memcached(*address));
        }
        if let Some(port) = self.port.as_ref().filter(|_| !protection.trusts_port) {
            return Err(UnauthenticatedAccess::Port(port.device.clone()));
        }
        let mut of_kernel = (self.datagram.iter()).filter(|address| !self.is_of_port(address));
        if let Some(address) = of_kernel.find(is_open) {
            return Err(UnauthenticatedAccess::Datagram(*address));
        }
        if protection.has_password {
            return Ok(());
        }
        if let Some(RegionAddress::Address(address)) = self.herd {
            return Err(UnauthenticatedAccess::Herd(address));
        }
        let tls = (self.tls.iter()).filter(|_| !protection.requires_certificates);
        match self.tcp.iter().chain(tls).find(is_open) {
            Some(address) => Err(UnauthenticatedAccess::Stream(*address)),
            None => Ok(()),
        }
    }
}
