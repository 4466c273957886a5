//! The beginning of a connection, until it is known who is there, and its end.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_link::agent::{Preamble, Reply, Stream, Violation, control, readable_or_writable};

use crate::server::{ConnectionPermit, Shared};

/// How long a host may take to read the last answers.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Finds out who it is. `None`: it has been told that there is no room for it.
pub(crate) fn handshake(
    shared: &Shared,
    permit: &mut ConnectionPermit,
    socket: TcpStream,
) -> io::Result<Option<Stream>> {
    let deadline = Instant::now() + shared.settings.limits.handshake;
    let mut stream = match &shared.settings.keys {
        Some(keys) => Stream::agent(socket, Arc::clone(keys))?,
        None => Stream::plain(socket)?,
    };
    stream.handshake(deadline)?;
    let mut preamble = [0; Preamble::BYTES];
    stream.read_all(&mut preamble, deadline)?;
    let agreed = Preamble::agree(&preamble);
    if !matches!(agreed, Err(Violation::Magic(_))) {
        stream.write_all(&Preamble::ours(), deadline)?;
    }
    if let Err(violation) = agreed {
        drain_and_close(&mut stream);
        return Err(io::Error::new(io::ErrorKind::InvalidData, violation));
    }
    let refusal = match (shared.is_draining(), permit.authenticate()) {
        (true, _) => "it is about to end",
        (false, false) => "it has all the connections that it takes",
        (false, true) => {
            stream.write_all(&shared.welcome, deadline)?;
            return Ok(Some(stream));
        }
    };
    stream.write_all(&control(&Reply::Busy(refusal.into())), deadline)?;
    drain_and_close(&mut stream);
    Ok(None)
}

/// Closes a connection so that what was sent arrives: bytes that come in and are not read would
/// make the system throw it away.
pub(crate) fn drain_and_close(stream: &mut Stream) {
    stream.end();
    let deadline = Instant::now() + DRAIN_TIMEOUT;
    let mut rest = [0; 4096];
    loop {
        match stream.read(&mut rest) {
            Ok(0) => return,
            Ok(_) if Instant::now() < deadline => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let waited = readable_or_writable(stream.socket(), true, false, deadline);
                if !matches!(waited, Ok(true)) {
                    return;
                }
            }
            Ok(_) | Err(_) => return,
        }
    }
}
