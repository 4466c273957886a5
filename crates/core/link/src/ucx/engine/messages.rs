//! Messages that come, the credit for them, and the peer's last word.

#![deny(unsafe_code)]

use overside_device::Region;

use super::posting::to;
use super::{FLUSHES, UcxEngine, Use};
use crate::ucx::credit::cost;
use crate::ucx::shim::{BYE, CREDIT, RawWorker, What};
use crate::verbs::{LinkErrorKind, WorkError};

impl UcxEngine {
    /// Passes arrived messages to waiting memory, and then fetches more from UCX while memory waits or
    /// `batch` more are wanted.
    pub(super) fn take(&mut self, mut batch: usize) {
        while !self.waiting.is_empty() && !self.arrived.is_empty() {
            let Some((tag, mut region)) = self.waiting.pop_front() else {
                break;
            };
            let len = self.arrived.pop(|message| {
                if let Some(into) = region.get_mut(..message.len()) {
                    into.copy_from_slice(message);
                }
                message.len()
            });
            let (len, capacity) = (len.unwrap_or(0), region.len());
            self.received += cost(len);
            let (len, capacity) = (len as u64, capacity as u64);
            let result = match len <= capacity {
                true => Ok(len),
                false => Err(WorkError::Truncated { len, capacity }),
            };
            self.over(tag, result, None, Some(region));
        }
        // What is on its way to the batch comes first.
        while self.lost.is_none()
            && (self.fetching.is_empty() && !self.waiting.is_empty() || batch > 0)
            && self.free.len() > FLUSHES
        {
            let Some(len) = self.worker.as_mut().and_then(RawWorker::probe) else {
                break;
            };
            let Some(left) = self.may_come.checked_sub(cost_of(len)) else {
                return self
                    .mark_lost(&LinkErrorKind::Protocol("more messages than credit".into()));
            };
            if len == 0 || len > self.limits.max_message_bytes as u64 {
                return self
                    .mark_lost(&LinkErrorKind::Protocol(format!("a message of {len} bytes")));
            }
            self.may_come = left;
            self.came_messages = self.came_messages.wrapping_add(1);
            let len = len as usize;
            match self.waiting.pop_front() {
                Some((tag, region)) => self.receive_into(tag, region, len),
                None => {
                    batch = batch.saturating_sub(1);
                    let mut bytes = vec![0; len];
                    let operation = to(bytes.as_mut_ptr(), len);
                    let slot = self.begin(What::Receive, Use::Fetch(bytes), operation);
                    self.fetching.push_back(slot);
                }
            }
        }
    }

    fn receive_into(&mut self, tag: u64, mut region: Region, len: usize) {
        let (mut operation, buffer) = if region.len() >= len {
            (to(region.as_mut_ptr(), len), None)
        } else {
            let mut buffer = vec![0; len];
            (to(buffer.as_mut_ptr(), len), Some(buffer))
        };
        if buffer.is_none() {
            operation.memory = self.context.mapped(region.registration());
        }
        let held = Use::Receive(tag, region, buffer, len);
        self.begin(What::Receive, held, operation);
    }

    /// Returns how many messages are fetched although the owner does not receive: all once the peer
    /// has sent its good-bye, none before that.
    pub(super) fn wanted(&self) -> usize {
        match self.heard_bye {
            Some(_) => self.slots.len(),
            None => 0,
        }
    }

    /// Handles the peer's news, and sends this end's.
    pub(super) fn news(&mut self) {
        let Some(worker) = &mut self.worker else {
            return;
        };
        let news = worker.news();
        if news.credits > 0 {
            let credit = self.may_send.checked_add(news.credits.into());
            match credit.filter(|credit| *credit <= self.room) {
                Some(credit) => {
                    self.may_send = credit;
                    self.has_room = true;
                }
                None => {
                    return self
                        .mark_lost(&LinkErrorKind::Protocol("more credit than there is".into()));
                }
            }
        }
        if news.bye > 0 {
            self.heard_bye = Some(news.bye_count);
        }
        if news.lost < 0 {
            self.failed = true;
            let reason = self.context.shim.status(news.lost);
            self.mark_lost(&LinkErrorKind::Gone(reason));
        }
        self.tell();
    }

    pub(super) fn tell(&mut self) {
        if self.lost.is_some() {
            return;
        }
        let Some(worker) = &mut self.worker else {
            return;
        };
        if self.received * 4 >= self.room && worker.tell(CREDIT, self.received as u32) == Ok(true) {
            self.may_come += self.received;
            self.received = 0;
        }
        // Last of all.
        if self.bye == Some(false) && worker.tell(BYE, self.sent_messages) == Ok(true) {
            self.bye = Some(true);
        }
    }

    /// Returns `true` if all messages that were sent before the peer's good-bye are here.
    pub(super) fn heard_all(&self) -> bool {
        self.heard_bye == Some(self.came_messages) && self.fetching.is_empty()
    }
}

/// Returns the credit that a message of `len` bytes costs; saturates.
fn cost_of(len: u64) -> u64 {
    len.saturating_add(cost(0))
}
