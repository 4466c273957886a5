//! A primary as its replica reaches it.

use std::io;
use std::time::Duration;

use super::group::GroupMember;
use crate::client::{ServerStream, ServerTls};

const CONNECT_MAX: Duration = Duration::from_secs(5);
/// A primary that says nothing for so long is lost.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(20);

/// What a replica says to primaries, and what it wants of them.
#[derive(Clone, Debug, Default)]
pub struct Introduction {
    /// What they want to hear.
    pub password: Option<Vec<u8>>,
    /// Where clients of this replica connect.
    pub own_port: u16,
    /// Whom to trust; `None`: in the clear.
    pub tls: Option<ServerTls>,
}

/// Where a primary is.
#[derive(Clone, Debug)]
pub(super) struct Primary {
    /// Its name or address.
    pub host: String,
    pub port: u16,
    pub introduction: Introduction,
    /// Who follows it.
    pub own: GroupMember,
}

impl Primary {
    pub fn connect(&self) -> io::Result<ServerStream> {
        let (at, tls) = ((&*self.host, self.port), self.introduction.tls.as_ref());
        let stream = ServerStream::connect(at, tls, CONNECT_MAX)?;
        stream.set_timeout(SILENCE_MAX)?;
        Ok(stream)
    }
}
