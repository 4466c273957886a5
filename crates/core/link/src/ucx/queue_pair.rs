//! The verbs of a queue pair.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{Applied, CpuTime};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::endpoint::EndpointState;
use super::engine::{UcxEngine, Wait};
use super::pair::Pair;
use crate::verbs::{
    Closed, Completion, LinkError, LinkErrorKind, Messages, PostError, QueuePair, RecvBatch,
    Refusal, Work,
};

/// The pause between two looks while closing.
const PAUSE: Duration = Duration::from_micros(100);

/// A queue pair's owner.
pub(super) struct UcxQueuePair {
    endpoint: Arc<EndpointState>,
    index: usize,
    /// The worker's descriptor and the service thread's signal, for being waited on.
    event: Option<OwnedFd>,
}

impl UcxQueuePair {
    pub(super) fn new(
        endpoint: Arc<EndpointState>,
        index: usize,
        event: bool,
    ) -> std::io::Result<Self> {
        let mut queue_pair = Self { endpoint, index, event: None };
        if event {
            let set = epoll::create(CreateFlags::CLOEXEC)?;
            let pair = queue_pair.pair();
            epoll::add(&set, pair.descriptor(), EventData::new_u64(0), EventFlags::IN)?;
            epoll::add(&set, pair.signal(), EventData::new_u64(1), EventFlags::IN)?;
            queue_pair.event = Some(set);
        }
        Ok(queue_pair)
    }

    fn pair(&self) -> &Pair {
        &self.endpoint.pairs[self.index]
    }

    fn lost(&self, cause: LinkErrorKind, tags: Vec<u64>) -> LinkError {
        LinkError { link: self.endpoint.info.name.clone(), cause, tags }
    }

    /// Returns the reason if nothing can be posted any more.
    fn closed(&self, engine: &UcxEngine) -> Option<LinkError> {
        let end = engine.end().or_else(|| {
            let closed = engine.is_closed();
            closed.then(|| (LinkErrorKind::Closed, engine.tags()))
        });
        end.map(|(cause, tags)| self.lost(cause, tags))
    }

    fn finish(&mut self, deadline: Instant) {
        loop {
            let mut engine = self.pair().lock_as_owner();
            engine.progress();
            if engine.end().is_some() || engine.active() == 0 || Instant::now() >= deadline {
                engine.say_bye();
                break;
            }
            drop(engine);
            std::thread::sleep(PAUSE);
        }
        loop {
            let mut engine = self.pair().lock_as_owner();
            engine.progress();
            if engine.is_delivered() || Instant::now() >= deadline {
                return;
            }
            drop(engine);
            std::thread::sleep(PAUSE);
        }
    }
}

impl QueuePair for UcxQueuePair {
    fn post(&mut self, work: &mut VecDeque<Work>) -> Result<usize, PostError> {
        let mut engine = self.pair().lock_as_owner();
        if let Some(lost) = self.closed(&engine) {
            return Err(lost.into());
        }
        let mut taken = 0;
        while let Some(next) = work.pop_front() {
            let checked = self.endpoint.capabilities.check(
                &next,
                self.endpoint.id,
                self.endpoint.context.device,
            );
            if let Err(refusal) = checked {
                let tag = next.tag;
                work.push_front(next);
                if taken == 0 {
                    return Err(PostError::Refused { tag, refusal });
                }
                break;
            }
            if let Err(next) = engine.post(next) {
                work.push_front(next);
                break;
            }
            taken += 1;
        }
        engine.ring();
        Ok(taken)
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, LinkError> {
        self.pair().arm(false);
        let mut engine = self.pair().lock_as_owner();
        if engine.completed() < max {
            engine.progress();
        }
        let count = engine.poll(out, max);
        if count == 0
            && max > 0
            && let Some((cause, tags)) = engine.end()
        {
            return Err(self.lost(cause, tags));
        }
        Ok(count)
    }

    fn send(&mut self, messages: Messages<'_>) -> Result<usize, PostError> {
        let (len, max) = (messages.each() as u64, self.endpoint.max_message_bytes());
        if len > max {
            let verb = "send";
            let refusal = Refusal::TooLong { verb, len, max };
            return Err(PostError::Refused { tag: 0, refusal });
        }
        let mut engine = self.pair().lock_as_owner();
        if let Some(lost) = self.closed(&engine) {
            return Err(lost.into());
        }
        let mut count = engine.send(&messages);
        if count == 0 {
            // Credit may have come.
            engine.progress();
            count = engine.send(&messages);
        }
        engine.ring();
        Ok(count)
    }

    fn receive(&mut self, batch: &mut RecvBatch, max: usize) -> Result<usize, LinkError> {
        self.pair().arm(false);
        let mut engine = self.pair().lock_as_owner();
        if max == 0 || engine.waits_for_messages() {
            return Ok(0);
        }
        let mut count = engine.receive(batch, max);
        if count == 0 {
            engine.progress();
            count = engine.receive(batch, max);
        }
        if count == 0
            && let Some((cause, tags)) = engine.end()
        {
            return Err(self.lost(cause, tags));
        }
        if count > 0 {
            engine.ring();
        }
        Ok(count)
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        self.event.as_ref().map(AsFd::as_fd)
    }

    fn arm(&mut self) -> Result<bool, LinkError> {
        if self.event.is_none() {
            return Err(self.lost(LinkErrorKind::NoEvents, Vec::new()));
        }
        let pair = self.pair();
        pair.arm(false);
        let mut engine = pair.lock_as_owner();
        engine.progress();
        if engine.has_news() {
            engine.noticed();
            return Ok(true);
        }
        if engine.wait() != Wait::Readable {
            return Ok(true);
        }
        // Under the lock: a thread that finds something after this sees it and signals.
        pair.arm(true);
        Ok(false)
    }

    fn in_flight(&self) -> usize {
        self.pair().lock_as_observer().in_flight()
    }

    fn quarantined(&self) -> usize {
        self.pair().lock_as_observer().quarantined()
    }

    fn applied(&self) -> &Applied {
        &self.endpoint.applied
    }

    fn close(mut self: Box<Self>, deadline: Instant) -> Closed {
        self.finish(deadline);
        let mut engine = self.pair().lock_as_owner();
        let mut completions = Vec::new();
        engine.poll(&mut completions, usize::MAX);
        let abandoned = match engine.end() {
            Some((_, tags)) => tags,
            None => engine.tags(),
        };
        drop(engine);
        Closed { completions, abandoned, cpu_time: CpuTime::default() }
    }
}

impl Drop for UcxQueuePair {
    fn drop(&mut self) {
        self.pair().arm(false);
        let mut engine = self.pair().lock_as_owner();
        engine.say_bye();
        engine.ring();
    }
}
