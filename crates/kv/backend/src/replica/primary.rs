//! A primary as its replica reaches it.

use std::io;
use std::time::Duration;

use super::group::GroupMember;
use overside_kv_client::{ServerStream, ServerTls};

const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Silence after which a primary is lost.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(20);

/// Data that a replica sends to a primary when it connects, and the certificates that it requires
/// of the primary.
#[derive(Clone, Debug, Default)]
pub struct ReplicaHandshake {
    /// Password for the primary; `None` if it needs none.
    pub password: Option<Vec<u8>>,
    /// Port where clients of this replica connect.
    pub own_port: u16,
    /// Certificates to trust and to use for TLS; `None` connects without TLS.
    pub tls: Option<ServerTls>,
}

/// Address of a primary, and the handshake that a replica sends it.
#[derive(Clone, Debug)]
pub(super) struct Primary {
    /// Host name or address.
    pub host: String,
    pub port: u16,
    pub introduction: ReplicaHandshake,
    /// Partition of this server that follows the primary.
    pub own: GroupMember,
}

impl Primary {
    pub(super) fn connect(&self) -> io::Result<ServerStream> {
        let (at, tls) = ((&*self.host, self.port), self.introduction.tls.as_ref());
        let stream = ServerStream::connect(at, tls, CONNECT_MAX)?;
        stream.set_timeout(SILENCE_MAX)?;
        Ok(stream)
    }
}
