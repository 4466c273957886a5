//! The Unix socket at which two processes find each other.

use std::io::{Error, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
    sockopt::socket_peercred,
};

use super::socket::wait_readable;
use super::{ShmEndpoint, ShmOptions, join, serve};
use crate::verbs::{ConnectError, LinkConfig};

/// A socket of this user's at which peers call. Its file goes when it is dropped.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
}

impl Listener {
    /// Listens at `path`, which must not exist.
    ///
    /// # Errors
    /// [`ConnectError::System`].
    pub fn bind(path: impl Into<PathBuf>) -> Result<Self, ConnectError> {
        let path = path.into();
        let failed = |error: Errno| ConnectError::System {
            doing: match error {
                Errno::ADDRINUSE => format!(
                    "listening at {}: the file exists; remove it if nobody listens there",
                    path.display()
                ),
                _ => format!("listening at {}", path.display()),
            },
            source: error.into(),
        };
        let socket = packets().map_err(failed)?;
        let address = SocketAddrUnix::new(&path).map_err(failed)?;
        bind(&socket, &address).map_err(failed)?;
        // From here on the file is removed again.
        let listener = Self { socket, path };
        let failed = |error: Errno| ConnectError::System {
            doing: format!("listening at {}", listener.path.display()),
            source: error.into(),
        };
        rustix::fs::chmod(&listener.path, Mode::RUSR | Mode::WUSR).map_err(failed)?;
        listen(&listener.socket, 16).map_err(failed)?;
        Ok(listener)
    }

    /// Waits for a peer and sets up the link. A caller that is no peer is an error; accept again.
    ///
    /// # Errors
    /// As [`serve`]; [`ConnectError::Timeout`] if no peer connects.
    pub fn accept(
        &self,
        config: &LinkConfig,
        options: &ShmOptions,
        deadline: Instant,
    ) -> Result<ShmEndpoint, ConnectError> {
        let failed = |source: Error| match source.kind() {
            ErrorKind::TimedOut => {
                ConnectError::Timeout { peer: format!("a peer at {}", self.path.display()) }
            }
            _ => ConnectError::System {
                doing: format!("accepting a peer at {}", self.path.display()),
                source,
            },
        };
        loop {
            wait_readable(&self.socket, deadline).map_err(failed)?;
            match accept_with(&self.socket, SocketFlags::CLOEXEC) {
                Ok(socket) => {
                    check_user(&socket)?;
                    return serve(socket, config, options, deadline);
                }
                // A caller that has hung up again.
                Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
                Err(error) => return Err(failed(error.into())),
            }
        }
    }
}

/// Readable when a peer calls.
impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Calls the peer that listens at `path`.
///
/// # Errors
/// As [`join`]; [`ConnectError::System`] if no peer listens.
pub fn connect(
    path: impl AsRef<Path>,
    config: &LinkConfig,
    options: &ShmOptions,
    deadline: Instant,
) -> Result<ShmEndpoint, ConnectError> {
    let path = path.as_ref();
    let failed = |error: Errno| ConnectError::System {
        doing: format!("calling the peer at {}", path.display()),
        source: error.into(),
    };
    let socket = packets().map_err(failed)?;
    let address = SocketAddrUnix::new(path).map_err(failed)?;
    rustix::net::connect(&socket, &address).map_err(failed)?;
    check_user(&socket)?;
    join(socket, config, options, deadline)
}

/// Does not wait in `accept` and `connect`: a full backlog is an error.
fn packets() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Memory is shared with this user's processes and the system's only.
fn check_user(socket: &OwnedFd) -> Result<(), ConnectError> {
    let peer = socket_peercred(socket).map_err(|error| ConnectError::System {
        doing: "asking who the peer is".into(),
        source: error.into(),
    })?;
    let ours = rustix::process::geteuid();
    if peer.uid == ours || peer.uid.is_root() || ours.is_root() {
        return Ok(());
    }
    Err(ConnectError::Protocol {
        peer: name_of_peer(socket),
        reason: format!("it is user {}'s, not {}'s", peer.uid.as_raw(), ours.as_raw()),
    })
}

/// Describes the process at the other end.
pub(super) fn name_of_peer(socket: impl AsFd) -> String {
    match socket_peercred(socket) {
        Ok(peer) if peer.pid == rustix::process::getpid() => "this process".to_owned(),
        Ok(peer) => format!("process {}", peer.pid.as_raw_nonzero()),
        Err(_) => "an unknown process".to_owned(),
    }
}
