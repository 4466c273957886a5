//! The beginning of a connection, until it is known who is there, and its end.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_link::agent::{Preamble, Reply, Stream, Violation, readable_or_writable};

use crate::server::{Place, Shared};

/// How long a host may take to read the last answers.
const LINGER: Duration = Duration::from_secs(1);

/// Finds out who it is. `None`: it has been told that there is no place.
pub(crate) fn introduce(
    shared: &Shared,
    place: &mut Place,
    socket: TcpStream,
) -> io::Result<Option<Stream>> {
    let deadline = Instant::now() + shared.settings.limits.introduction;
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
        linger(&mut stream);
        return Err(io::Error::new(io::ErrorKind::InvalidData, violation));
    }
    let refusal = match (shared.is_draining(), place.introduced()) {
        (true, _) => "it is about to end",
        (false, false) => "it has all the connections that it takes",
        (false, true) => {
            stream.write_all(&shared.welcome, deadline)?;
            return Ok(Some(stream));
        }
    };
    stream.write_all(&Reply::Busy(refusal.into()).encode(), deadline)?;
    linger(&mut stream);
    Ok(None)
}

/// Closes a connection so that what was sent arrives: bytes that come in and are not read would
/// make the system throw it away.
pub(crate) fn linger(stream: &mut Stream) {
    stream.end();
    let deadline = Instant::now() + LINGER;
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
