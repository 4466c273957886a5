//! Messages over a link: slots of memory that the other side writes, each announced by its trailer; and the messages of
//! the link itself, which come before.

mod error;
mod message;
mod poll_deadline;

use std::time::{Duration, Instant};

use overside_link::verbs::{Messages, QueuePair, RecvBatch};

pub use error::OffloadError;
pub use message::{BODY_MAX_BYTES, TRAILER_BYTES, Trailer};
pub use poll_deadline::PollDeadline;

/// Sends a message of the link, one of those before the first of these.
pub fn send_message(
    queue_pair: &mut dyn QueuePair,
    bytes: &[u8],
    deadline: Instant,
) -> Result<(), OffloadError> {
    let message = Messages::packed(bytes, bytes.len());
    let message = message.ok_or(OffloadError::Violation("nothing"))?;
    while queue_pair.send(message)? == 0 {
        pause(deadline)?;
    }
    Ok(())
}

/// The next message of the link.
pub fn receive_message(
    queue_pair: &mut dyn QueuePair,
    deadline: Instant,
) -> Result<Vec<u8>, OffloadError> {
    let mut batch = RecvBatch::default();
    while queue_pair.receive(&mut batch, 1)? == 0 {
        pause(deadline)?;
    }
    Ok(batch.as_bytes().to_vec())
}

fn pause(deadline: Instant) -> Result<(), OffloadError> {
    std::thread::sleep(Duration::from_micros(100));
    match Instant::now() < deadline {
        true => Ok(()),
        false => Err(OffloadError::Timeout),
    }
}
