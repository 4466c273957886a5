//! Operations that UCX has finished, and their effect on the work that they were part of.

#![deny(unsafe_code)]

use overside_device::{Region, Slice};

use super::{BATCH, UcxEngine, Use, Written};
use crate::ucx::credit::cost;
use crate::ucx::shim::FinishedOperation;
use crate::verbs::{Completion, LinkErrorKind, WorkError};

impl UcxEngine {
    /// Fetches UCX's completions.
    pub(super) fn reap(&mut self) {
        let mut batch = [FinishedOperation::default(); BATCH];
        loop {
            let Some(worker) = &mut self.worker else {
                return;
            };
            let count = worker.done(&mut batch);
            for done in &batch[..count] {
                self.ended(done);
            }
            if count < BATCH {
                break;
            }
        }
        self.writes_over();
    }

    fn ended(&mut self, done: &FinishedOperation) {
        // Writes stay in their slots until a flush has covered them.
        if let Some(Some(Use::Write { .. })) = self.slots.get(done.slot as usize) {
            let slot = done.slot;
            let write = self.writes.iter_mut().find(|write| write.slot == slot);
            if let Some(write) = write {
                write.read = Some(done.status);
            }
            return;
        }
        let Some(held) = self.slots.get_mut(done.slot as usize).and_then(Option::take) else {
            return;
        };
        self.free.push(done.slot);
        if self.lost.is_some() {
            // Its tag has been reported; UCX lets go of its memory only now.
            return;
        }
        match held {
            Use::Read { tag, into: region, .. } => {
                let result = self.result(done.status, region.len() as u64);
                self.over(tag, result, None, Some(region));
            }
            Use::ReadShared { tag, into, .. } => {
                let result = self.result(done.status, into.len() as u64);
                self.over(tag, result, None, None);
            }
            Use::Send { tag, from: slice, .. } => {
                let result = self.result(done.status, slice.len() as u64);
                self.over(tag, result, Some(slice), None);
            }
            Use::Receive(tag, region, buffer, len) => {
                self.received += cost(len);
                let result = self.result(done.status, len as u64);
                let capacity = region.len() as u64;
                let result = match buffer {
                    Some(_) => Err(WorkError::Truncated { len: len as u64, capacity }),
                    None => result,
                };
                self.over(tag, result, None, Some(region));
            }
            Use::Fetch(bytes) => {
                if done.status < 0 {
                    let reason = self.context.shim.status(done.status);
                    return self.mark_lost(&LinkErrorKind::Gone(reason));
                }
                self.fetched.push((done.slot, bytes));
                self.in_order();
            }
            Use::Flush(number) => {
                self.flushes -= 1;
                if done.status < 0 {
                    let reason = self.context.shim.status(done.status);
                    return self.mark_lost(&LinkErrorKind::Gone(reason));
                }
                self.flushed = self.flushed.max(number);
                self.flush();
            }
            Use::Copy { .. } | Use::Write { .. } => {}
        }
    }

    /// Messages to the batch, in the order in which they were sent.
    fn in_order(&mut self) {
        while let Some(first) = self.fetching.front() {
            let Some(at) = self.fetched.iter().position(|(slot, _)| slot == first) else {
                break;
            };
            let (_, bytes) = self.fetched.swap_remove(at);
            self.fetching.pop_front();
            self.arrived.push(bytes.len(), &bytes);
        }
    }

    fn writes_over(&mut self) {
        let flushed = self.flushed;
        let is_over = |write: &mut Written| write.number <= flushed && write.read.is_some();
        while let Some(write) = self.writes.pop_front_if(is_over) {
            let held = self.slots[write.slot as usize].take();
            self.free.push(write.slot);
            if let Some(Use::Write { tag, from: slice, .. }) = held
                && self.lost.is_none()
            {
                let result = self.result(write.read.unwrap_or(0), slice.len() as u64);
                self.over(tag, result, Some(slice), None);
            }
        }
    }

    fn result(&self, status: i32, len: u64) -> Result<u64, WorkError> {
        match status {
            0 => Ok(len),
            status => Err(WorkError::Failed(self.context.shim.status(status))),
        }
    }

    pub(super) fn over(
        &mut self,
        tag: u64,
        result: Result<u64, WorkError>,
        source: Option<Slice>,
        destination: Option<Region>,
    ) {
        self.pending -= 1;
        self.complete(tag, result, source, destination);
    }

    pub(super) fn complete(
        &mut self,
        tag: u64,
        result: Result<u64, WorkError>,
        source: Option<Slice>,
        destination: Option<Region>,
    ) {
        self.done.push_back(Completion { tag, result, source, destination, late: false });
    }
}
