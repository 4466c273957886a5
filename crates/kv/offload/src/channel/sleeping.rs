//! Sleep of the answering side while no message arrives, and its wake-up by the requesting side.
//!
//! 1. The sleeper arms the event of its queue pair, and writes the number of the message that it waits for
//!    behind the slots of the other side's inbox. Then it checks for the message once more.
//! 2. The sender of that message checks the number while it waits for answers, and sends a message of the link
//!    if it is there, which raises the event. So no message is missed, however late the number arrives. Several
//!    messages that are sent together wake once, and while both sides are awake a message only costs a check.

use std::os::fd::BorrowedFd;

use overside_link::verbs::{Messages, Verb};

use super::{Channel, OffloadError};

/// Number of bytes behind the slots of an inbox: a cache line whose first eight bytes are the number of the
/// message that the other side sleeps for, or has slept for.
pub(super) const AWAITED_BYTES: usize = 64;
/// Content of a message that wakes the other side.
const WAKE: &[u8] = &[0];
/// Maximum number of these messages that are taken at a time.
const WAKES: usize = 64;

impl Channel {
    /// Readable once something has come, after [`Channel::arm`]; `None`: this end can only poll.
    pub(crate) fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.queue_pair.event_fd()
    }

    /// Requests a wake-up with the next message. Returns `true` if a message is here already.
    pub(crate) fn arm(&mut self) -> Result<bool, OffloadError> {
        self.take_wakes()?;
        let due = self.received + 1;
        if self.asked_for != due {
            self.ask_for(due)?;
        }
        self.complete()?;
        // Its fence is between what was written and what is looked at.
        let is_pending = self.queue_pair.arm()?;
        Ok(is_pending || self.incomplete_since.is_some() || self.has_next())
    }

    /// Takes the messages that have woken this side.
    pub(super) fn take_wakes(&mut self) -> Result<(), OffloadError> {
        self.wakes.clear();
        self.queue_pair.receive(&mut self.wakes, WAKES)?;
        self.traffic.received_bytes += self.wakes.as_bytes().len() as u64;
        Ok(())
    }

    /// Writes which message is waited for.
    fn ask_for(&mut self, due: u64) -> Result<(), OffloadError> {
        let slot_bytes = self.outbox_options.slot_bytes;
        let mut staging = self.staging()?;
        let begin = slot_bytes - size_of::<u64>();
        staging.bytes_mut()?[begin..].copy_from_slice(&due.to_le_bytes());
        let at = (slot_bytes * self.outbox_options.slots) as u64;
        let to = self.outbox.slice(at..at + size_of::<u64>() as u64);
        let to = to.map_err(|_| OffloadError::Violation("smaller memory than it said"))?;
        let from = staging.share().slice(begin..slot_bytes);
        self.post(Verb::Write { from, to })?;
        self.traffic.sent_bytes += size_of::<u64>() as u64;
        self.asked_for = due;
        Ok(())
    }

    /// Wakes the other side if it sleeps though a message is there.
    #[inline]
    pub(crate) fn wake(&mut self) -> Result<(), OffloadError> {
        let at = self.inbox_options.slot_bytes * self.inbox_options.slots;
        let awaited = (self.inbox.load(at)).map_or(0, u64::from_le);
        if awaited != self.seen {
            self.seen = awaited;
            self.traffic.received_bytes += size_of::<u64>() as u64;
        }
        // Each message wakes once, whatever is written there.
        match awaited > self.woken && awaited <= self.sent {
            true => self.send_wake(awaited),
            false => Ok(()),
        }
    }

    #[cold]
    fn send_wake(&mut self, awaited: u64) -> Result<(), OffloadError> {
        let wake = Messages::packed(WAKE, WAKE.len());
        let wake = wake.ok_or(OffloadError::Violation("nothing"))?;
        // Where it finds no room, others before it wake as well.
        self.queue_pair.send(wake)?;
        self.traffic.sent_bytes += WAKE.len() as u64;
        self.woken = awaited;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::super::{Channel, ChannelOptions};

    fn pair() -> [Channel; 2] {
        let options = ChannelOptions { slot_bytes: 256, slots: 2 };
        Channel::pairs(1, options).unwrap().remove(0)
    }

    fn is_woken(channel: &Channel, seconds: i64) -> bool {
        let most = Timespec { tv_sec: seconds, tv_nsec: 0 };
        let event = channel.event_fd().expect("who is asked has events");
        let mut fds = [PollFd::new(&event, PollFlags::IN)];
        poll(&mut fds, Some(&most)).unwrap() == 1
    }

    fn sleeps(channel: &mut Channel) -> bool {
        // What is left of an earlier sleep may be found first.
        (0..10).any(|_| !channel.arm().unwrap())
    }

    #[test]
    fn who_sleeps_is_woken_by_each_next_message() {
        let [mut asking, mut answering] = pair();
        for number in 1..=5u16 {
            assert!(sleeps(&mut answering));
            assert!(!is_woken(&answering, 0), "nothing has come");
            asking.send(number, b"question").unwrap();
            assert!(asking.receive().unwrap().is_none());
            asking.wake().unwrap();
            assert!(is_woken(&answering, 10));
            assert_eq!(answering.receive().unwrap(), Some((number, &b"question"[..])));
            answering.send(number, b"answer").unwrap();
            assert_eq!(asking.receive().unwrap(), Some((number, &b"answer"[..])));
        }
    }

    #[test]
    fn who_has_a_message_does_not_sleep() {
        let [mut asking, mut answering] = pair();
        asking.send(1, b"question").unwrap();
        assert!(answering.arm().unwrap());
        assert!(answering.receive().unwrap().is_some());
        assert!(sleeps(&mut answering));
    }

    #[test]
    fn who_is_awake_is_not_woken() {
        let [mut asking, mut answering] = pair();
        for _ in 0..5 {
            asking.send(1, b"question").unwrap();
            assert!(answering.receive().unwrap().is_some());
            answering.send(1, b"answer").unwrap();
            assert!(asking.receive().unwrap().is_some());
            asking.wake().unwrap();
        }
        assert!(!answering.arm().unwrap(), "no wake-up is left");
        assert!(!is_woken(&answering, 0));
    }

    #[test]
    fn who_is_lost_wakes() {
        let [asking, mut answering] = pair();
        assert!(sleeps(&mut answering));
        drop(asking);
        assert!(is_woken(&answering, 10));
    }
}
