//! Sockets at which a server listens for clients.

use std::fs::Permissions;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::datagrams::DatagramListener;
use super::ethernet::PortQueue;
use crate::herd::RegionInbox;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, acceptfrom_with, bind, listen,
    socket_with, sockopt,
};

/// Maximum number of connections that wait to be accepted; the system may allow fewer.
const BACKLOG: i32 = 4096;

/// Service that a listener offers, by the kind of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Service {
    /// Clients, in the clear.
    Plain,
    /// Clients, over TLS.
    Tls,
    /// Clients of memcached, in the clear.
    Memcached,
    /// Collectors of metrics.
    Metrics,
}

/// Address from which a client connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// Another socket of this machine's file system.
    Unix,
    /// This address.
    Tcp(SocketAddr),
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix => f.write_str("unix:0"),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

/// The sockets of a worker.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    pub listeners: Vec<Listener>,
    pub datagrams: Vec<DatagramListener>,
    /// Queue of the port that DPDK drives; `None` if there is no such port.
    pub port: Option<PortQueue>,
    /// Clients that write into request regions.
    pub regions: Option<RegionInbox>,
}

/// A listening socket.
#[derive(Debug)]
pub(super) struct Listener {
    socket: OwnedFd,
    pub service: Service,
    /// Address at which it listens; `None` for a socket in the file system.
    pub address: Option<SocketAddr>,
    /// Address as text; of a socket in the file system, its path and port 0, as Redis has it.
    pub name: Arc<str>,
    path: Option<PathBuf>,
}

impl Listener {
    /// Listens at an address, by as many sockets, among which the system divides connections. Port 0
    /// takes any.
    pub(super) fn tcp(
        address: SocketAddr,
        service: Service,
        count: usize,
    ) -> io::Result<Vec<Self>> {
        let mut address = address;
        let mut listeners = Vec::with_capacity(count);
        for number in 0..count {
            let socket = bound(address, number > 0)?;
            // So that others can join, but only from here on: a second server finds the address in use.
            sockopt::set_socket_reuseport(&socket, count > 1)?;
            listen(&socket, BACKLOG)?;
            let bound = TcpListener::from(socket);
            address = bound.local_addr()?;
            listeners.push(Self {
                address: Some(address),
                name: address.to_string().into(),
                socket: bound.into(),
                service,
                path: None,
            });
        }
        Ok(listeners)
    }

    /// Listens at a path that only this user can connect to. A socket that a dead server left there
    /// is replaced.
    pub(super) fn unix(path: &Path) -> io::Result<Self> {
        remove_stale(path)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        // No client can connect before it listens.
        std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
        listen(&socket, BACKLOG)?;
        Ok(Self {
            socket,
            service: Service::Plain,
            address: None,
            name: format!("{}:0", path.display()).into(),
            path: Some(path.into()),
        })
    }

    /// The next connection, if one waits.
    pub(super) fn accept(&self) -> io::Result<Option<(OwnedFd, Peer)>> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, peer) = match acceptfrom_with(&self.socket, flags) {
            Ok(accepted) => accepted,
            Err(Errno::AGAIN | Errno::CONNABORTED | Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if self.address.is_none() {
            return Ok(Some((socket, Peer::Unix)));
        }
        let Some(Ok(peer)) = peer.map(SocketAddr::try_from) else {
            return Ok(None);
        };
        sockopt::set_tcp_nodelay(&socket, true)?;
        // A client that is lost without a message is detected some time.
        sockopt::set_socket_keepalive(&socket, true)?;
        Ok(Some((socket, Peer::Tcp(peer))))
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // It may have been removed already.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A socket with an address; `joins`: another one may have it already, if it lets others join.
fn bound(address: SocketAddr, joins: bool) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    // Connections of a server that has ended do not keep the address.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, joins)?;
    bind(&socket, &address)?;
    Ok(socket)
}

/// Removes a socket that a dead server left.
pub(super) fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}
