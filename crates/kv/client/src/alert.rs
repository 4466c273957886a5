//! Recovery of the reason that a server gave before it closed a TLS connection.

use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
use std::io::{self, Read};

use rustls::ClientConnection;

/// Returns the error, or the server's message before it closed the connection. In TLS 1.3 the server refuses a
/// certificate after the client's handshake: then writing fails before the alert is read (RFC 8446, 4.4.2.4).
pub(crate) fn explained(
    error: io::Error,
    connection: &mut ClientConnection,
    socket: &mut impl Read,
) -> io::Error {
    if matches!(error.kind(), BrokenPipe | ConnectionReset)
        && matches!(connection.read_tls(socket), Ok(amount) if amount > 0)
        && let Err(alert) = connection.process_new_packets()
    {
        return io::Error::other(alert);
    }
    error
}
