//! Round trips: a fixed number of messages outstanding on each connection, each timed.

use std::collections::VecDeque;
use std::time::Duration;

use rustix::event::epoll::EventFlags;

use super::group::{Group, Link, PassContext, PassWork};
use super::pass::Slice;
use super::schedule::{LATE_NS, Schedule};
use super::{Error, SLICES_MAX, nanoseconds};
use crate::closed_loop::CompletionMode;

/// Longest time that a thread sleeps before it checks the clock.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// Runs the connections of one thread.
pub(super) fn run(group: &mut Group, task: &PassContext<'_>) -> Result<PassWork, Error> {
    let links = std::mem::take(&mut group.links);
    let mut all: Vec<RoundTripClient> =
        links.into_iter().map(|link| RoundTripClient::new(link, task)).collect();
    let mut sender = Sender { task, schedule: Schedule::new(task), done: PassWork::default() };
    let result = sender.run(group, &mut all);
    group.links = all.into_iter().map(|trips| trips.link).collect();
    result.map(|()| sender.done)
}

/// State of one connection in a pass.
struct RoundTripClient {
    link: Link,
    /// Messages that the connection had sent before.
    before: u64,
    /// Start of each round trip in flight, in nanoseconds of the pass.
    begun: VecDeque<u64>,
}

impl RoundTripClient {
    fn new(link: Link, task: &PassContext<'_>) -> Self {
        Self { before: link.sent, begun: VecDeque::with_capacity(task.plan.depth), link }
    }

    /// Messages of this pass that were sent.
    fn sent(&self) -> u64 {
        self.link.sent - self.before
    }
}

struct Sender<'a> {
    task: &'a PassContext<'a>,
    schedule: Schedule,
    done: PassWork,
}

impl Sender<'_> {
    fn run(&mut self, group: &mut Group, all: &mut [RoundTripClient]) -> Result<(), Error> {
        for (number, trips) in all.iter_mut().enumerate() {
            self.send(group, trips, number)?;
        }
        loop {
            let now = self.now_ns();
            let Some(wait) = self.wait(all, now) else {
                return Ok(());
            };
            group.events.look(wait)?;
            for place in 0..group.events.ready.len() {
                let number = group.events.ready[place];
                let trips = &mut all[number];
                if self.receive(trips)? || !trips.link.write_buffer.is_empty() {
                    self.send(group, trips, number)?;
                }
            }
            if self.schedule.has_rate() {
                for (number, trips) in all.iter_mut().enumerate() {
                    self.send(group, trips, number)?;
                }
            }
            if self.task.cancelled.is_cancelled() {
                return Err(Error::Closed);
            }
            if self.task.start + Duration::from_nanos(now) >= self.task.deadline {
                let missing: usize = all.iter().map(|trips| trips.begun.len()).sum();
                let what = format!("{missing} messages had not come back");
                return Err(Error::Timeout(what));
            }
        }
    }

    fn now_ns(&self) -> u64 {
        nanoseconds(self.task.start.elapsed())
    }

    /// Returns the time that the thread may sleep unless a message arrives; `None` when everything
    /// is done.
    fn wait(&self, all: &[RoundTripClient], now: u64) -> Option<Duration> {
        if !self.schedule.has_rate() {
            // Nothing under way means that nothing was left to be sent.
            let busy = all.iter().any(|trips| !trips.begun.is_empty());
            return busy.then_some(SLEEP_MAX);
        }
        let (mut busy, mut next) = (false, None::<u64>);
        for trips in all {
            let (index, sent) = (trips.link.index, trips.sent());
            busy |= !trips.begun.is_empty();
            if self.schedule.goes_on(index, sent, now) {
                busy = true;
                if trips.begun.len() < self.task.plan.depth && trips.link.write_buffer.is_empty() {
                    let at = self.schedule.intended_ns(index, sent);
                    next = Some(next.map_or(at, |next| next.min(at)));
                }
            }
        }
        let left = next.map(|at| Schedule::sleep(at, now));
        busy.then(|| left.unwrap_or(SLEEP_MAX).min(SLEEP_MAX))
    }

    /// Puts messages under way that are due, as far as depth and connection allow.
    fn send(
        &mut self,
        group: &Group,
        trips: &mut RoundTripClient,
        number: usize,
    ) -> Result<(), Error> {
        loop {
            if trips.link.write_buffer.is_empty() {
                let count = self.admit(trips);
                if count == 0 {
                    break;
                }
                let first = trips.link.sent - count as u64;
                trips.link.write_buffer.fill(self.task.pattern, first, count);
            }
            if !trips.link.write_buffer.write(&trips.link.stream)? {
                break;
            }
            self.done.writes += 1;
        }
        let interest = match trips.link.write_buffer.is_empty() {
            true => EventFlags::IN,
            false => EventFlags::IN | EventFlags::OUT,
        };
        if interest != trips.link.interest && self.task.plan.load.waiting == CompletionMode::Event {
            (group.events).change(number, &trips.link.stream, interest)?;
            trips.link.interest = interest;
        }
        Ok(())
    }

    /// Counts the messages of the next write as under way, and returns how many they are.
    fn admit(&mut self, trips: &mut RoundTripClient) -> usize {
        let now = self.now_ns();
        let room = trips.link.write_buffer.room();
        let room = room.min(self.task.plan.depth - trips.begun.len());
        let index = trips.link.index;
        let mut count = 0;
        while count < room && self.schedule.is_due(index, trips.sent(), now) {
            let begun = match self.schedule.has_rate() {
                true => self.schedule.intended_ns(index, trips.sent()),
                false => now,
            };
            self.done.late += u64::from(now - begun > LATE_NS);
            trips.begun.push_back(begun);
            trips.link.sent += 1;
            count += 1;
        }
        count
    }

    /// Reads once and takes the messages that are whole. `false`: there were none.
    fn receive(&mut self, trips: &mut RoundTripClient) -> Result<bool, Error> {
        let link = &mut trips.link;
        if link.read_buffer.read(&link.stream)?.is_none() {
            return Ok(false);
        }
        let now = self.now_ns();
        let whole = link.read_buffer.whole();
        let (bytes, message_bytes) = (whole.len(), self.task.pattern.message_bytes());
        for message in whole.chunks_exact(message_bytes) {
            if !self.task.pattern.is(message, link.returned) {
                return Err(Error::Wrong(format!(
                    "message {} of connection {} is not what was sent when it comes back",
                    link.returned, link.index
                )));
            }
            link.returned += 1;
            let Some(begun) = trips.begun.pop_front() else {
                let what = format!("connection {} brings more than was sent", link.index);
                return Err(Error::Wrong(what));
            };
            let latency = now.saturating_sub(begun);
            self.done.latencies.record(latency);
            self.done.note(self.task, now, latency, message_bytes);
        }
        link.read_buffer.consume();
        if bytes > 0 {
            self.done.end = Some(self.task.start + Duration::from_nanos(now));
        }
        Ok(bytes > 0)
    }
}

impl PassWork {
    /// Adds a round trip to the slice that it ended in.
    fn note(&mut self, task: &PassContext<'_>, now_ns: u64, latency_ns: u64, bytes: usize) {
        self.messages += 1;
        let Some(length) = task.plan.slice else {
            return;
        };
        let length_ns = length.as_nanos().max(1) as u64;
        let index = (now_ns / length_ns) as usize;
        if index >= SLICES_MAX {
            return;
        }
        while self.slices.len() <= index {
            self.slices.push(Slice::numbered(self.slices.len(), length_ns));
        }
        let slice = &mut self.slices[index];
        slice.bytes += bytes as u64;
        slice.messages += 1;
        slice.latency_sum_ns += latency_ns;
        slice.latency_max_ns = slice.latency_max_ns.max(latency_ns);
    }
}
