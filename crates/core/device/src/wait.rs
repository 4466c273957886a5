//! Waiting for completions.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::Context;

/// The pauses between two polls of a device that has no event.
const PAUSE_SHORTEST: Duration = Duration::from_micros(20);
const PAUSE_LONGEST: Duration = Duration::from_millis(2);

/// Returns how long to wait before the next poll of a device that has no event and has returned
/// nothing for `silence`. It is `silence / parts`, between 20 µs and 2 ms, so a completion is
/// noticed at most that much later. Callers that measure latencies poll more often ([`wait`]).
pub fn backoff(silence: Duration, parts: u32) -> Duration {
    (silence / parts.max(1)).clamp(PAUSE_SHORTEST, PAUSE_LONGEST)
}

/// Waits until there may be completions to poll for, at most `timeout`. Returns `true` if the caller should
/// poll, `false` if the time is over. Arms the context and sleeps on its descriptor. For a device that can
/// only be polled it makes the shortest pause instead, which suits measurements; other callers make longer
/// ones ([`backoff`]). It returns `true` for a lost device: polling returns the reason.
///
/// # Errors
/// The error of the system if it cannot wait.
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
    // The system's maximum is longer than any caller waits.
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
