//! Small messages with descriptors over a Unix socket, between ends that do not trust each other.

use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Result};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::verbs::LinkConfig;

/// Maximum number of words of a message.
const MAX_WORDS: usize = 12;
/// Maximum number of descriptors of a message: the queues' memory and a notifier for each queue pair.
const MAX_DESCRIPTORS: usize = LinkConfig::MAX_QUEUE_PAIRS + 1;
const SPACE: usize = rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS));

/// Words and descriptors of one message.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) words: Vec<u64>,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Sends words and descriptors as one message. Does not wait: a peer that takes nothing is
/// [`ErrorKind::WouldBlock`].
pub(super) fn send(socket: impl AsFd, words: &[u64], with: &[BorrowedFd<'_>]) -> Result<()> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !with.is_empty() && !control.push(SendAncillaryMessage::ScmRights(with)) {
        return Err(Error::new(ErrorKind::InvalidInput, "too many descriptors"));
    }
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    loop {
        match sendmsg(&socket, &[IoSlice::new(&bytes)], &mut control, flags) {
            Err(Errno::INTR) => {}
            sent => return Ok(sent.map(|_| ())?),
        }
    }
}

/// Receives the next message. Errors: [`ErrorKind::WouldBlock`] if there is none,
/// [`ErrorKind::UnexpectedEof`] if the peer is gone, [`ErrorKind::InvalidData`] if it is invalid.
pub(super) fn receive(socket: impl AsFd) -> Result<Received> {
    let mut bytes = [0; MAX_WORDS * size_of::<u64>()];
    let mut space = [MaybeUninit::uninit(); SPACE];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = loop {
        let mut into = [IoSliceMut::new(&mut bytes)];
        match recvmsg(&socket, &mut into, &mut control, flags) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) => return Err(ErrorKind::UnexpectedEof.into()),
            received => break received?,
        }
    };
    // Owned at once, so that they are closed whatever the message is.
    let descriptors: Vec<OwnedFd> = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        })
        .flatten()
        .collect();
    if received.bytes == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let truncated = ReturnFlags::TRUNC | ReturnFlags::CTRUNC;
    if received.flags.intersects(truncated) || !received.bytes.is_multiple_of(size_of::<u64>()) {
        return Err(Error::new(ErrorKind::InvalidData, "a message that is no message of a link"));
    }
    let words = bytes[..received.bytes]
        .chunks_exact(size_of::<u64>())
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
        .collect();
    Ok(Received { words, descriptors })
}

/// The next message, waited for until `deadline`; [`ErrorKind::TimedOut`] then.
pub(super) fn receive_before(socket: impl AsFd, deadline: Instant) -> Result<Received> {
    loop {
        match receive(&socket) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                wait_readable(&socket, deadline)?;
            }
            received => return received,
        }
    }
}

/// Waits until there is something to read; [`ErrorKind::TimedOut`] after `deadline`.
pub(super) fn wait_readable(socket: impl AsFd, deadline: Instant) -> Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        let timeout = left.try_into().map_err(Error::other)?;
        match rustix::event::poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
