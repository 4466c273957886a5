//! Waiting for completions.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::Context;

/// The pauses between two polls of a device that has no event.
const PAUSE_SHORTEST: Duration = Duration::from_micros(20);
const PAUSE_LONGEST: Duration = Duration::from_millis(2);

/// How long to leave a device alone that has no event and has given nothing back for `silence`: one
/// part of that, of so many, so that a job is found done at most so much later than it is; within
/// 20 µs and 2 ms. Who measures latencies polls more often ([`wait`]).
pub fn backoff(silence: Duration, parts: u32) -> Duration {
    (silence / parts.max(1)).clamp(PAUSE_SHORTEST, PAUSE_LONGEST)
}

/// Waits until there may be completions to poll for, but not longer than `timeout`. `true`: poll;
/// `false`: the time is over. Arms the context and sleeps on its descriptor; a device that can
/// only be polled is given the shortest pause instead, as who measures it needs. Who runs jobs lets it
/// rest for longer ([`backoff`]). A lost device counts as something to poll for:
/// polling says what was lost.
///
/// # Errors
/// What the system says if it cannot wait.
pub fn wait(context: &mut dyn Context, timeout: Duration) -> io::Result<bool> {
    if context.event_fd().is_none() {
        std::thread::sleep(PAUSE_SHORTEST.min(timeout));
        return Ok(!timeout.is_zero());
    }
    if context.arm().unwrap_or(true) {
        return Ok(true);
    }
    let Some(descriptor) = context.event_fd() else {
        return Ok(true);
    };
    // Longer than the system can say is longer than anybody waits.
    let timeout = timeout.min(Duration::from_secs(u32::MAX.into()));
    let timeout = timeout.try_into().map_err(io::Error::other)?;
    Ok(readable(descriptor, &timeout)?)
}

/// Waits until a descriptor is readable. A signal to the process counts as well.
pub(crate) fn readable(descriptor: BorrowedFd<'_>, timeout: &Timespec) -> rustix::io::Result<bool> {
    let mut set = [PollFd::new(&descriptor, PollFlags::IN)];
    match rustix::event::poll(&mut set, Some(timeout)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error),
    }
}
