//! A processing engine on the other side of a link.

mod questions;
mod waiting;

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::channel::{Body, Channel, KEPT_BYTES, Traffic};
use super::counts::Answered;
use super::statistics::RemoteStatistics;
use super::{LinkCounts, OffloadError, OnLoss, Optimizations};
use crate::codec::{decode_answer, encode, put_varint};
use crate::topic::Topic;
use crate::{Answer, Answers, Refusal, Request};
use overside_kv_datagram::link::{PollDeadline, TRAILER_BYTES};

/// Longest time that the other side may take to answer.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Maximum number of requests of a message: as many as the processing engine executes together.
const MESSAGE_REQUESTS: usize = 64;
/// Maximum number of requests of a message whose length is variable.
const SIZED_MESSAGE_REQUESTS: usize = 4096;

/// Rule by which requests are grouped into messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Batching {
    /// A batch of requests is one message.
    #[default]
    Batch,
    /// Each request is a message of its own, as in a naive port; to compare with.
    Request,
}

/// The engine that a communication engine sees. Once the other side is lost, everything is answered with
/// [`Refusal::Unreachable`].
///
/// The methods of [`ProcessingEngine`] wait for the answer. A caller that has something else to do
/// meanwhile calls `begin...` and then `poll...` until it returns that all is answered; in between
/// nothing else can be begun.
pub struct RemoteEngine {
    /// Channel to the other side. It is dropped once that is lost, so that it notices and connects again.
    channel: Option<Channel>,
    batching: Batching,
    /// Longest message.
    message_bytes: Option<u32>,
    overlaps: bool,
    body: Vec<u8>,
    requests: u64,
    /// The time of the batch that was begun, and how much of it has been sent and answered.
    now_ms: u64,
    sent: usize,
    answered: usize,
    /// Messages that are under way.
    in_flight: VecDeque<InFlight>,
    answered_messages: Answered,
    /// `true` while a message must be fetched: no other may use its memory.
    is_alone: bool,
    patience: PollDeadline,
    answer_max: Duration,
    /// Counts of the channel, once it is lost.
    traffic: Traffic,
    /// Part of all traffic for messages without requests: scans, counts and sizes; and the traffic before the one
    /// that is under way.
    questions: Traffic,
    before_question: Option<Traffic>,
    failure: Option<OffloadError>,
    pub(super) told: RemoteStatistics,
    /// Counts of the link, published to other threads.
    pub(super) counts: LinkCounts,
    /// Function to call when the other side is lost.
    on_loss: Option<OnLoss>,
}

/// A message that is under way.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    /// Requests without an answer.
    left: usize,
    sent_ticks: u64,
}

impl std::fmt::Debug for RemoteEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteEngine")
            .field("channel", &self.channel)
            .field("requests", &self.requests)
            .field("failure", &self.failure)
            .finish_non_exhaustive()
    }
}

impl RemoteEngine {
    /// The engine behind `channel`, where a [`Responder`](super::Responder) answers.
    #[must_use]
    pub fn new(channel: Channel, batching: Batching) -> Self {
        Self {
            channel: Some(channel),
            traffic: Traffic::default(),
            questions: Traffic::default(),
            before_question: None,
            batching,
            message_bytes: None,
            overlaps: true,
            body: Vec::new(),
            requests: 0,
            now_ms: 0,
            sent: 0,
            answered: 0,
            in_flight: VecDeque::new(),
            answered_messages: Answered::default(),
            is_alone: false,
            patience: PollDeadline::new(ANSWER_MAX),
            answer_max: ANSWER_MAX,
            failure: None,
            told: RemoteStatistics::default(),
            counts: LinkCounts::default(),
            on_loss: None,
        }
    }

    /// Creates an engine like [`RemoteEngine::new`], with these optimizations.
    #[must_use]
    pub fn with(channel: Channel, optimizations: Optimizations) -> Self {
        Self {
            overlaps: optimizations.overlap,
            message_bytes: optimizations.message_bytes,
            ..Self::new(channel, optimizations.batching)
        }
    }

    /// Waits for answers as long as the link is there: the other side may take its time.
    #[must_use]
    pub(crate) fn without_timeout(mut self) -> Self {
        self.answer_max = Duration::MAX;
        self
    }

    /// Waits for each message's write and for its answers before it makes the next one, as a naive port
    /// does; to compare with.
    #[must_use]
    pub fn without_overlap(mut self) -> Self {
        self.overlaps = false;
        self
    }

    /// Returns the reason why the other side cannot be reached; `None` while it can.
    #[must_use]
    pub fn failure(&self) -> Option<&OffloadError> {
        self.failure.as_ref()
    }

    /// Returns the counts of sent and fetched bytes.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.channel.as_ref().map_or(self.traffic, Channel::traffic)
    }

    /// Requests that were sent.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Shows its traffic to the other threads of its side, and calls `on_loss` when the other side is lost.
    #[must_use]
    pub fn over_link(mut self, counts: LinkCounts, on_loss: OnLoss) -> Self {
        self.counts = counts;
        self.on_loss = Some(on_loss);
        self
    }

    /// Returns the counts of the links of this engine's side.
    pub(crate) fn counts(&self) -> &LinkCounts {
        &self.counts
    }

    /// Finds out whether the other side is lost, while nothing is under way.
    pub(crate) fn check(&mut self) {
        if let Some(Err(error)) = self.channel.as_mut().map(Channel::check) {
            self.fail(error);
        }
    }

    fn show_counts(&self) {
        let of_requests = self.traffic().since(&self.questions);
        self.counts.show(self.requests, &of_requests, self.answered_messages);
    }

    fn fail(&mut self, error: OffloadError) {
        if self.failure.is_none() {
            tracing::error!("the processing engine cannot be reached: {error}");
            self.traffic = self.traffic();
            self.channel = None;
            self.in_flight.clear();
            self.show_counts();
            if let Some(on_loss) = &self.on_loss {
                on_loss(&error);
            }
            self.failure = Some(error);
        }
    }

    /// Begins to execute a batch as of `now_ms`: sends as much of it as there is room for.
    pub fn begin(&mut self, batch: &[Request<'_>], now_ms: u64) {
        self.expect_idle();
        (self.now_ms, self.sent, self.answered) = (now_ms, 0, 0);
        if let Err(error) = self.send_requests(batch) {
            self.fail(error);
        }
    }

    /// Passes on the answers that have arrived, and sends more of `batch`, the one that was begun. Returns
    /// `true` if all of it is answered. Does not wait.
    pub fn poll(&mut self, batch: &[Request<'_>], answers: Answers<'_>) -> bool {
        if let Err(error) = self.receive_answers(batch, answers) {
            self.fail(error);
        }
        while self.failure.is_some() && self.answered < batch.len() {
            answers(self.answered, Answer::Refused(Refusal::Unreachable));
            self.answered += 1;
        }
        let is_answered = self.answered >= batch.len();
        if is_answered {
            self.show_counts();
        }
        is_answered
    }

    fn receive_answers(
        &mut self,
        batch: &[Request<'_>],
        answers: Answers<'_>,
    ) -> Result<(), OffloadError> {
        let Some((received, body)) = self.receive()? else {
            return Ok(());
        };
        if received == 0 && body.bytes().is_empty() {
            return self.lose_answers(batch, answers);
        }
        let received = usize::from(received);
        let (first, left) = (self.in_flight.front_mut())
            .filter(|message| (1..=message.left).contains(&received))
            .map(|message| {
                let left = message.left;
                message.left -= received;
                (self.answered, left)
            })
            .ok_or(OffloadError::Violation("another number of answers"))?;
        // The other side goes on while the answers are looked at.
        if left == received {
            if let Some(message) = self.in_flight.pop_front() {
                let ticks = self.counts.clock.now().wrapping_sub(message.sent_ticks);
                self.answered_messages.messages += 1;
                self.answered_messages.ticks += ticks;
            }
            if self.overlaps {
                self.send_requests(batch)?;
            }
        } else if let Some(channel) = &mut self.channel {
            channel.send(0, &[Topic::Continue as u8])?;
        }
        let mut bytes = body.bytes();
        for index in first..first + received {
            answers(index, decode_answer(&mut bytes)?);
            self.answered += 1;
        }
        if !bytes.is_empty() {
            return Err(OffloadError::Violation("more than answers"));
        }
        if let Some(channel) = &mut self.channel {
            channel.reuse(body);
        }
        match self.overlaps {
            true => Ok(()),
            false => self.send_requests(batch),
        }
    }

    /// Answers the requests of a message with `Unreachable`, because the other side could not persist their
    /// changes. The changes may or may not be there.
    fn lose_answers(
        &mut self,
        batch: &[Request<'_>],
        answers: Answers<'_>,
    ) -> Result<(), OffloadError> {
        let nothing = OffloadError::Violation("an answer to nothing");
        let lost = self.in_flight.pop_front().ok_or(nothing)?;
        for _ in 0..lost.left {
            answers(self.answered, Answer::Refused(Refusal::Unreachable));
            self.answered += 1;
        }
        self.send_requests(batch)
    }

    /// Sends more of the batch as long as there is room.
    fn send_requests(&mut self, batch: &[Request<'_>]) -> Result<(), OffloadError> {
        let most = match (self.batching, self.message_bytes) {
            (Batching::Batch, None) => MESSAGE_REQUESTS,
            (Batching::Batch, Some(_)) => SIZED_MESSAGE_REQUESTS,
            (Batching::Request, _) => 1,
        };
        let most_bytes = (self.message_bytes)
            .map_or(usize::MAX, |bytes| (bytes as usize).saturating_sub(TRAILER_BYTES));
        while let Some(channel) = &mut self.channel {
            let is_full = (self.is_alone || !self.overlaps) && !self.in_flight.is_empty()
                || self.in_flight.len() == channel.slots();
            if self.sent == batch.len() || is_full {
                break;
            }
            let left = &batch[self.sent..][..most.min(batch.len() - self.sent)];
            let inline_max = channel.inline_max_bytes();
            let body_max = inline_max.min(most_bytes);
            let count = encode_front(left, self.now_ms, body_max, &mut self.body);
            let is_alone = self.body.len() > inline_max;
            if is_alone && !self.in_flight.is_empty() {
                break;
            }
            channel.send(count as u16, &self.body)?;
            if !self.overlaps {
                channel.flush()?;
            }
            self.is_alone = is_alone;
            self.in_flight.push_back(InFlight { left: count, sent_ticks: self.counts.clock.now() });
            self.sent += count;
            self.requests += count as u64;
        }
        Ok(())
    }

    /// Receives the next message, if it has come.
    fn receive(&mut self) -> Result<Option<(u16, Body)>, OffloadError> {
        let Some(channel) = &mut self.channel else {
            return Ok(None);
        };
        if let Some((count, _)) = channel.receive()? {
            self.patience = PollDeadline::new(self.answer_max);
            return Ok(Some((count, channel.take_body())));
        }
        channel.wake()?;
        if self.patience.spend()? {
            channel.check()?;
        }
        Ok(None)
    }

    /// Panics if a message is under way: its answer would be taken for another's.
    fn expect_idle(&mut self) {
        assert!(self.in_flight.is_empty(), "one thing at a time");
        self.patience = PollDeadline::new(self.answer_max);
    }
}

/// Makes a message of the front of `requests`, one at least; of how many. More than one only as far as the
/// body has at most `body_max` bytes.
fn encode_front(
    requests: &[Request<'_>],
    now_ms: u64,
    body_max: usize,
    body: &mut Vec<u8>,
) -> usize {
    body.clear();
    body.shrink_to(KEPT_BYTES);
    body.push(Topic::Requests as u8);
    put_varint(now_ms, body);
    for (count, request) in requests.iter().enumerate() {
        let before = body.len();
        encode(request, body);
        if body.len() > body_max && count > 0 {
            body.truncate(before);
            return count;
        }
    }
    requests.len()
}
