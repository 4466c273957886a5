//! The beginning of a connection, until it is known who is there, and its end.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_base::MemoryBudget;
use overside_link::agent::{Preamble, Reply, Stream, Violation, control, readable_or_writable};

use crate::server::{AgentState, ConnectionPermit};

/// Longest time that [`drain_and_close`] waits for the host to read the last replies and close the
/// connection.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Authenticates the host and reserves its memory. Returns no stream if there is no room; the host has then
/// received the reason.
pub(crate) fn handshake(
    shared: &AgentState,
    permit: &mut ConnectionPermit,
    socket: TcpStream,
) -> io::Result<Result<(Stream, Arc<MemoryBudget>), String>> {
    let deadline = Instant::now() + shared.settings.limits.handshake;
    let mut stream = match &shared.settings.keys {
        Some(keys) => Stream::agent(socket, Arc::clone(keys))?,
        None => Stream::plain(socket)?,
    };
    // Hosts speak first.
    stream.wait(true, false, deadline)?;
    permit.received();
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
        (true, _) => "it is about to end".into(),
        (false, Err(reason)) => reason,
        (false, Ok(memory)) => {
            stream.write_all(&shared.welcome, deadline)?;
            return Ok(Ok((stream, memory)));
        }
    };
    stream.write_all(&control(&Reply::Busy(refusal.clone())), deadline)?;
    drain_and_close(&mut stream);
    Ok(Err(refusal))
}

/// Closes a connection so that sent bytes arrive: unread input would make the system drop them.
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
