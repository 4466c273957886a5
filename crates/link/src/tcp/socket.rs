//! Reading and writing many pieces of memory with one system call each.

// Hands the system addresses of memory that no reference may point to.
#![allow(unsafe_code)]

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use super::incoming::Place;
use super::outgoing::Piece;

/// The most pieces of one call.
pub(crate) const MAX_PIECES: usize = 64;

const NOTHING: libc::iovec = libc::iovec {
    iov_base: std::ptr::null_mut(),
    iov_len: 0,
};

/// Writes what the connection takes at once; how many bytes. No signal if the peer is gone.
pub(crate) fn write<'a>(
    stream: &TcpStream,
    pieces: impl Iterator<Item = Piece<'a>>,
) -> io::Result<usize> {
    let mut vectors = [NOTHING; MAX_PIECES];
    let mut count = 0;
    for (vector, piece) in vectors.iter_mut().zip(pieces) {
        *vector = libc::iovec {
            iov_base: match piece {
                Piece::Bytes(bytes) => bytes.as_ptr().cast_mut().cast(),
                Piece::Shared(window) => window.as_ptr().cast(),
            },
            iov_len: piece.len(),
        };
        count += 1;
    }
    let message = header(&mut vectors[..count]);
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    // SAFETY: the vectors name memory that is readable for as long as `pieces` borrows it, and the
    // system only reads. What others write to shared memory meanwhile, it reads before or after.
    let written = unsafe { libc::sendmsg(stream.as_raw_fd(), &message, flags) };
    result(written)
}

/// Reads what is there, first to `place` and then to `buffer`; how many bytes. 0: the peer will
/// send no more.
pub(crate) fn read(stream: &TcpStream, place: Place<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    let mut vectors = [NOTHING; 2];
    vectors[0].iov_len = place.len();
    vectors[0].iov_base = match place {
        Place::Bytes(bytes) => bytes.as_mut_ptr().cast(),
        Place::Shared(window) => window.as_ptr().cast(),
        Place::Buffer => std::ptr::null_mut(),
    };
    vectors[1] = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    let first = usize::from(vectors[0].iov_len == 0);
    let mut message = header(&mut vectors[first..]);
    // SAFETY: the vectors name memory that is writable for as long as `place` and `buffer` are
    // borrowed. Shared memory is reached by nobody in this process but through opaque copies.
    let count = unsafe { libc::recvmsg(stream.as_raw_fd(), &mut message, libc::MSG_DONTWAIT) };
    result(count)
}

fn header(vectors: &mut [libc::iovec]) -> libc::msghdr {
    // SAFETY: all zeroes is an empty header; its padding is private on some systems.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = vectors.as_mut_ptr();
    message.msg_iovlen = vectors.len() as _;
    message
}

fn result(count: isize) -> io::Result<usize> {
    match usize::try_from(count) {
        Ok(count) => Ok(count),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Bytes that the system has taken and that the peer's has not confirmed yet.
pub(crate) fn unconfirmed(stream: &TcpStream) -> usize {
    let mut count: libc::c_int = 0;
    // SAFETY: the request writes one integer.
    let failed = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &mut count) } != 0;
    // Of a connection that is no more there is nothing to wait for.
    match failed {
        true => 0,
        false => usize::try_from(count).unwrap_or(0),
    }
}
