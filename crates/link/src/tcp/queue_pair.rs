//! The verbs of a queue pair over TCP.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{Applied, CpuTime};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::endpoint::Shared;
use super::pair::{Pair, State};
use crate::service::Member;
use crate::verbs::{
    Cause, Closed, Completion, Inbox, Lost, Messages, PostError, QueuePair, Refusal, Work,
};

/// The pause between two looks while closing.
const PAUSE: Duration = Duration::from_micros(100);

/// A queue pair's owner.
pub(crate) struct TcpQueuePair {
    endpoint: Arc<Shared>,
    index: usize,
    /// The connection and the service thread's signal, for being waited on.
    event: Option<OwnedFd>,
}

impl TcpQueuePair {
    pub(crate) fn new(endpoint: Arc<Shared>, index: usize, event: bool) -> std::io::Result<Self> {
        let mut queue_pair = Self {
            endpoint,
            index,
            event: None,
        };
        if event {
            let set = epoll::create(CreateFlags::CLOEXEC)?;
            let pair = queue_pair.pair();
            let flags = EventFlags::empty();
            epoll::add(&set, pair.descriptor(), EventData::new_u64(0), flags)?;
            epoll::add(&set, pair.signal(), EventData::new_u64(1), EventFlags::IN)?;
            queue_pair.event = Some(set);
        }
        Ok(queue_pair)
    }

    fn pair(&self) -> &Pair {
        &self.endpoint.pairs[self.index]
    }

    fn lost(&self, cause: Cause, tags: Vec<u64>) -> Lost {
        Lost {
            link: super::NAME.to_owned(),
            cause,
            tags,
        }
    }

    /// Nothing can be posted any more.
    fn closed(&self, state: &State) -> Option<Lost> {
        let end = state.core.end();
        let end = end.or_else(|| {
            let closed = state.core.is_closed();
            closed.then(|| (Cause::Closed, state.core.tags()))
        });
        end.map(|(cause, tags)| self.lost(cause, tags))
    }

    /// What the connection did not take is the service thread's if the owner does not come back.
    fn leave(&self, mut state: std::sync::MutexGuard<'_, State>) {
        if state.needs_service() {
            drop(state);
            self.endpoint.service.wake();
        }
    }

    fn finish(&mut self, deadline: Instant) {
        loop {
            let mut state = self.pair().visit();
            state.progress();
            if state.core.is_lost() || state.core.active() == 0 || Instant::now() >= deadline {
                state.core.say_bye();
                break;
            }
            drop(state);
            std::thread::sleep(PAUSE);
        }
        loop {
            let mut state = self.pair().visit();
            state.progress();
            if state.is_delivered() || Instant::now() >= deadline {
                if state.core.outgoing.is_empty() {
                    state.shut();
                }
                return self.leave(state);
            }
            drop(state);
            std::thread::sleep(PAUSE);
        }
    }
}

impl QueuePair for TcpQueuePair {
    fn post(&mut self, work: &mut VecDeque<Work>) -> Result<usize, PostError> {
        let mut state = self.pair().visit();
        if let Some(lost) = self.closed(&state) {
            return Err(lost.into());
        }
        let mut taken = 0;
        while let Some(next) = work.pop_front() {
            let checked =
                self.endpoint
                    .capabilities
                    .check(&next, self.endpoint.id, self.endpoint.device);
            if let Err(refusal) = checked {
                let tag = next.tag;
                work.push_front(next);
                if taken == 0 {
                    return Err(PostError::Refused { tag, refusal });
                }
                break;
            }
            if let Err(next) = state.core.post(next) {
                work.push_front(next);
                break;
            }
            taken += 1;
        }
        state.flush();
        self.leave(state);
        Ok(taken)
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, Lost> {
        self.pair().arm(false);
        let mut state = self.pair().visit();
        if state.core.completed() < max {
            state.progress();
        }
        let count = state.core.poll(out, max);
        if count == 0
            && max > 0
            && let Some((cause, tags)) = state.core.end()
        {
            return Err(self.lost(cause, tags));
        }
        self.leave(state);
        Ok(count)
    }

    fn send(&mut self, messages: Messages<'_>) -> Result<usize, PostError> {
        let (len, max) = (messages.each() as u64, self.endpoint.max_message_bytes());
        if len > max {
            let verb = "send";
            let refusal = Refusal::TooLong { verb, len, max };
            return Err(PostError::Refused { tag: 0, refusal });
        }
        let mut state = self.pair().visit();
        if let Some(lost) = self.closed(&state) {
            return Err(lost.into());
        }
        let mut count = state.core.send(&messages);
        if count == 0 {
            // Credit may have come.
            state.progress();
            count = state.core.send(&messages);
        }
        state.flush();
        self.leave(state);
        Ok(count)
    }

    fn receive(&mut self, inbox: &mut Inbox, max: usize) -> Result<usize, Lost> {
        self.pair().arm(false);
        let mut state = self.pair().visit();
        if max == 0 || !state.core.receives.is_empty() {
            return Ok(0);
        }
        if state.core.arrived.is_empty() {
            state.progress();
        }
        let count = state.core.receive(inbox, max);
        if count == 0
            && let Some((cause, tags)) = state.core.end()
        {
            return Err(self.lost(cause, tags));
        }
        if count > 0 {
            state.flush();
        }
        self.leave(state);
        Ok(count)
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.event.as_ref().map(AsFd::as_fd)
    }

    fn arm(&mut self) -> Result<bool, Lost> {
        let Some(set) = &self.event else {
            return Err(self.lost(Cause::NoEvents, Vec::new()));
        };
        let pair = self.pair();
        pair.arm(false);
        let mut state = pair.visit();
        state.progress();
        if state.core.has_news() {
            return Ok(true);
        }
        let blocked = state.is_blocked();
        let flags = match blocked {
            true => EventFlags::IN | EventFlags::OUT,
            false => EventFlags::IN,
        };
        if let Err(error) = epoll::modify(set, pair.descriptor(), EventData::new_u64(0), flags) {
            return Err(self.lost(Cause::Local(format!("waiting: {error}")), Vec::new()));
        }
        // Under the lock: whoever finds something after this sees it and signals.
        pair.arm(true);
        Ok(false)
    }

    fn in_flight(&self) -> usize {
        self.pair().visit().core.in_flight()
    }

    fn quarantined(&self) -> usize {
        // Only this end writes to destinations, and it stops when the link is lost.
        0
    }

    fn applied(&self) -> &Applied {
        &self.endpoint.applied
    }

    fn close(mut self: Box<Self>, deadline: Instant) -> Closed {
        self.finish(deadline);
        let mut state = self.pair().visit();
        let mut completions = Vec::new();
        state.core.poll(&mut completions, usize::MAX);
        let abandoned = match state.core.end() {
            Some((_, tags)) => tags,
            None => state.core.tags(),
        };
        drop(state);
        Closed {
            completions,
            abandoned,
            cpu_time: CpuTime::default(),
        }
    }
}

impl Drop for TcpQueuePair {
    fn drop(&mut self) {
        self.pair().arm(false);
        let mut state = self.pair().visit();
        state.core.say_bye();
        state.flush();
        self.leave(state);
    }
}
