//! Messages in both directions over one queue pair.

mod open;
mod sleeping;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::Region;
use overside_link::verbs::{
    Access, Completion, Endpoint, Exported, QueuePair, RecvBatch, RemoteMemory, RemoteSlice, Token,
    Verb, Work,
};

use super::OffloadError;
use overside_kv_datagram::link::{BODY_MAX_BYTES, PollDeadline, TRAILER_BYTES, Trailer};

/// Longest time from the arrival of a message's last word until all its parts must be there.
const ARRIVAL_MAX: Duration = Duration::from_secs(5);
/// Memory of a long body that is kept for the next one.
pub(super) const KEPT_BYTES: usize = 2 << 20;
/// Completions that are looked at together.
const COMPLETIONS: usize = 64;
/// Longest time that a transfer may take.
const TRANSFER_MAX: Duration = Duration::from_secs(10);

/// Size and number of the slots that hold messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelOptions {
    /// Bytes of a slot: a multiple of 64, from 256 to 16 MiB. Longer messages are fetched by the
    /// receiver.
    pub slot_bytes: usize,
    /// Slots of a direction, from 2 to 4096.
    pub slots: usize,
}

impl Default for ChannelOptions {
    fn default() -> Self {
        Self { slot_bytes: 64 << 10, slots: 4 }
    }
}

overside_kv_store::counts! {
    /// Counts of the traffic of one end of a channel.
    pub struct Traffic {
        writes: "writes" = "Messages sent, each by one write.",
        written_bytes: "written_bytes" = "Bytes of these messages.",
        rendezvous: "rendezvous" = "Messages whose body the receiver had to fetch.",
        read_bytes: "read_bytes" = "Bytes fetched here.",
        sent_bytes: "sent_bytes" = "Bytes that went to the other side: messages with their headers, bodies that it \
            fetched, and what makes it sleep and wake.",
        received_bytes: "received_bytes" = "Bytes that came from the other side, counted likewise.",
    }
}

impl Traffic {
    /// Returns the traffic since `before`.
    pub(super) fn since(mut self, before: &Self) -> Self {
        for (count, (_, _, before)) in self.counts_mut().zip(before.fields()) {
            *count -= before;
        }
        self
    }
}

/// The body of a message.
#[derive(Debug)]
pub(super) enum Body {
    /// The body was in the message.
    Inline(Vec<u8>),
    /// The body was fetched.
    Fetched(Region),
}

impl Default for Body {
    fn default() -> Self {
        Self::Inline(Vec::new())
    }
}

impl Body {
    /// Returns the bytes of the body.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Inline(bytes) => bytes,
            Self::Fetched(region) => region,
        }
    }
}

/// One end of a connection between two engines.
pub struct Channel {
    // Dropped first: memory that the other side imported lives as long as the endpoint.
    queue_pair: Box<dyn QueuePair>,
    inbox: Exported,
    inbox_options: ChannelOptions,
    outbox: RemoteMemory,
    outbox_options: ChannelOptions,
    /// Memory for assembling messages, without the regions that are being written.
    staging: Vec<Region>,
    sent: u64,
    received: u64,
    /// Number of the message for which this side last requested a wake-up, and of the message for which it
    /// was woken.
    asked_for: u64,
    woken: u64,
    /// Number of the message for which the other side was last seen to request a wake-up.
    seen: u64,
    wakes: RecvBatch,
    /// Memory that contains the long body of the message in each slot of the other side.
    offered: Vec<Option<Exported>>,
    /// Memory of the other side that contained the last long body of each slot of this side.
    fetched: Vec<Option<(Token, RemoteMemory)>>,
    /// Time since when a message's last word, but not all of it, has arrived.
    incomplete_since: Option<Instant>,
    work: VecDeque<Work>,
    completions: Vec<Completion>,
    /// Body of the message that was received last.
    body: Body,
    /// Longest body that is fetched.
    body_max_bytes: usize,
    traffic: Traffic,
    endpoint: Arc<dyn Endpoint>,
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel")
            .field("sent", &self.sent)
            .field("received", &self.received)
            .field("traffic", &self.traffic)
            .finish_non_exhaustive()
    }
}

impl Channel {
    /// Returns the counts of the traffic so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Maximum number of messages that may be on the way in each direction without an answer.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.inbox_options.slots.min(self.outbox_options.slots)
    }

    /// Returns the length of the longest body that is sent inline instead of being fetched.
    #[must_use]
    pub fn inline_max_bytes(&self) -> usize {
        self.outbox_options.slot_bytes - TRAILER_BYTES
    }

    /// Sends a message with `count` requests or answers. There must be room: no more messages are on
    /// the way to the other side than it has slots, which who waits for answers knows. The write may
    /// be under way when this returns.
    ///
    /// # Errors
    /// [`OffloadError`]; also if an earlier write has failed.
    pub fn send(&mut self, count: u16, body: &[u8]) -> Result<(), OffloadError> {
        // The message that was in the slot before has been taken, and what it told of fetched.
        let slot = (self.sent + 1) as usize % self.outbox_options.slots;
        self.offered[slot].take_if(|memory| memory.len() > KEPT_BYTES || memory.len() < body.len());
        if body.len() <= self.inline_max_bytes() {
            return self.write(count, body, false);
        }
        if body.len() > BODY_MAX_BYTES {
            return Err(OffloadError::Violation("a longer body than possible"));
        }
        let place = self.offer(slot, body)?;
        self.traffic.rendezvous += 1;
        self.traffic.sent_bytes += body.len() as u64;
        self.write(count, &place, true)
    }

    /// Puts a body where the other side can fetch it; returns its place.
    fn offer(&mut self, slot: usize, body: &[u8]) -> Result<Vec<u8>, OffloadError> {
        let memory = match self.offered[slot].take() {
            Some(memory) => memory,
            None => {
                let len = body.len().next_power_of_two();
                self.endpoint.export(len, Access::Read)?
            }
        };
        let wrote = memory.write(0, body);
        wrote.map_err(|_| OffloadError::Violation("a body of another size"))?;
        let mut place = (body.len() as u32).to_le_bytes().to_vec();
        place.extend_from_slice(&crc32fast::hash(body).to_le_bytes());
        place.extend_from_slice(memory.token().as_bytes());
        self.offered[slot] = Some(memory);
        Ok(place)
    }

    fn write(&mut self, count: u16, body: &[u8], is_rendezvous: bool) -> Result<(), OffloadError> {
        let slot_bytes = self.outbox_options.slot_bytes;
        let sequence = self.sent + 1;
        let trailer = Trailer { sequence, count, len: body.len(), is_rendezvous };
        let mut staging = self.staging()?;
        let begin = slot_bytes - TRAILER_BYTES - body.len();
        let message = &mut staging.bytes_mut()?[begin..];
        let (there, end) = message.split_at_mut(body.len());
        there.copy_from_slice(body);
        end.copy_from_slice(&trailer.encode(body));
        let slot = (sequence as usize % self.outbox_options.slots) * slot_bytes;
        let to = (self.outbox).slice((slot + begin) as u64..(slot + slot_bytes) as u64);
        let to = to.map_err(|_| OffloadError::Violation("smaller memory than it said"))?;
        let from = staging.share().slice(begin..slot_bytes);
        self.post(Verb::Write { from, to })?;
        self.complete()?;
        self.sent = sequence;
        self.traffic.writes += 1;
        self.traffic.written_bytes += (slot_bytes - begin) as u64;
        self.traffic.sent_bytes += (slot_bytes - begin) as u64;
        Ok(())
    }

    /// Memory in which a message for the other side can be made.
    fn staging(&mut self) -> Result<Region, OffloadError> {
        match self.staging.pop() {
            Some(staging) => Ok(staging),
            None => Ok(self.endpoint.alloc(self.outbox_options.slot_bytes, 64)?),
        }
    }

    /// Posts work; waits while the link takes none.
    fn post(&mut self, verb: Verb) -> Result<(), OffloadError> {
        self.work.push_back(Work::new(self.sent, verb));
        let mut patience = PollDeadline::new(TRANSFER_MAX);
        while self.queue_pair.post(&mut self.work)? == 0 {
            self.complete()?;
            patience.spend()?;
        }
        Ok(())
    }

    /// Takes completions of writes and fetches. Returns the fetched region, if any.
    fn complete(&mut self) -> Result<Option<Region>, OffloadError> {
        let mut fetched = None;
        self.queue_pair.poll(&mut self.completions, COMPLETIONS)?;
        for completion in self.completions.drain(..) {
            completion.result?;
            // The link may keep it for a reader; then new memory is used next time.
            let source = completion.source.and_then(|source| source.reclaim().ok());
            self.staging.extend(source);
            fetched = fetched.or(completion.destination);
        }
        Ok(fetched)
    }

    /// Waits until everything that was sent has been written.
    ///
    /// # Errors
    /// [`OffloadError`].
    pub fn flush(&mut self) -> Result<(), OffloadError> {
        let mut patience = PollDeadline::new(TRANSFER_MAX);
        while self.queue_pair.in_flight() > 0 {
            self.complete()?;
            patience.spend()?;
        }
        self.complete().map(drop)
    }

    /// Looks whether the next message is there: its count and its body.
    ///
    /// # Errors
    /// [`OffloadError`] if it breaks the rules. Does not find out that the link is lost: see
    /// [`Channel::check`].
    #[inline]
    pub fn receive(&mut self) -> Result<Option<(u16, &[u8])>, OffloadError> {
        match self.has_next() {
            true => self.take(),
            false => Ok(None),
        }
    }

    /// Returns the offset in the inbox at which the slot of the next message ends.
    #[inline]
    fn next_end(&self) -> usize {
        let slot = (self.received + 1) as usize % self.inbox_options.slots;
        (slot + 1) * self.inbox_options.slot_bytes
    }

    /// Returns `true` if the last word of the next message has arrived.
    #[inline]
    fn has_next(&self) -> bool {
        let word = self.inbox.load(self.next_end() - 8).map(u64::from_le);
        word.is_ok_and(|word| Trailer::sequence_in(word) == self.received + 1)
    }

    fn take(&mut self) -> Result<Option<(u16, &[u8])>, OffloadError> {
        let end = self.next_end();
        let slot_bytes = self.inbox_options.slot_bytes;
        let outside = |_| OffloadError::Violation("a message outside of its slot");
        let mut bytes = [0; TRAILER_BYTES];
        (self.inbox.read(end - TRAILER_BYTES, &mut bytes)).map_err(outside)?;
        let trailer = Trailer::decode(&bytes);
        // The length may be on the way as well.
        if trailer.len + TRAILER_BYTES <= slot_bytes {
            let mut body = match std::mem::take(&mut self.body) {
                Body::Inline(body) => body,
                Body::Fetched(_) => Vec::new(),
            };
            body.resize(trailer.len, 0);
            let begin = end - TRAILER_BYTES - trailer.len;
            (self.inbox.read(begin, &mut body)).map_err(outside)?;
            let is_whole = Trailer::is_whole(&bytes, &body);
            self.body = Body::Inline(body);
            if is_whole && trailer.sequence == self.received + 1 {
                self.incomplete_since = None;
                self.received += 1;
                self.traffic.received_bytes += (end - begin) as u64;
                if trailer.is_rendezvous {
                    self.fetch()?;
                }
                return Ok(Some((trailer.count, self.body.bytes())));
            }
        }
        let since = *self.incomplete_since.get_or_insert_with(Instant::now);
        match since.elapsed() > ARRIVAL_MAX {
            true => Err(OffloadError::Violation("a message that did not arrive whole")),
            false => Ok(None),
        }
    }

    /// Fetches the body that the message in `body` refers to.
    fn fetch(&mut self) -> Result<(), OffloadError> {
        const SHORT: OffloadError = OffloadError::Violation("no place of a body");
        let place = std::mem::take(&mut self.body);
        let (len, rest) = place.bytes().split_first_chunk().ok_or(SHORT)?;
        let (checksum, token) = rest.split_first_chunk().ok_or(SHORT)?;
        let len = u32::from_le_bytes(*len) as usize;
        if len > self.body_max_bytes {
            return Err(OffloadError::Violation("a longer body than possible"));
        }
        let from = self.import(token, len)?;
        let into = self.endpoint.alloc(len, 64)?;
        self.post(Verb::Read { from, into })?;
        let mut patience = PollDeadline::new(TRANSFER_MAX);
        let body = loop {
            if let Some(body) = self.complete()? {
                break body;
            }
            patience.spend()?;
        };
        if body.len() != len || crc32fast::hash(body.bytes()?) != u32::from_le_bytes(*checksum) {
            return Err(OffloadError::Violation("a body with a wrong checksum"));
        }
        self.traffic.read_bytes += len as u64;
        self.traffic.received_bytes += len as u64;
        self.body = Body::Fetched(body);
        Ok(())
    }

    fn import(&mut self, token: &[u8], len: usize) -> Result<RemoteSlice, OffloadError> {
        let token = Token::from_bytes(token)?;
        let slot = self.received as usize % self.inbox_options.slots;
        let known = self.fetched[slot].take_if(|(known, _)| *known == token);
        // What was offered before is let go first.
        self.fetched[slot] = None;
        let memory = match known {
            Some((_, memory)) => memory,
            None => self.endpoint.import(&token)?,
        };
        let slice = memory.slice(0..len as u64);
        self.fetched[slot] = Some((token, memory));
        slice.map_err(|_| OffloadError::Violation("a body outside of its memory"))
    }

    /// Takes the body of the message that was received last.
    pub(super) fn take_body(&mut self) -> Body {
        std::mem::take(&mut self.body)
    }

    /// Returns memory that [`Channel::take_body`] took, for reuse.
    pub(super) fn reuse(&mut self, body: Body) {
        if let Body::Inline(bytes) = body {
            self.body = Body::Inline(bytes);
        }
    }

    /// Limits the length of bodies that are fetched.
    pub(super) fn limit_bodies(&mut self, max_bytes: usize) {
        self.body_max_bytes = max_bytes.min(BODY_MAX_BYTES);
    }

    /// Finds out whether the link is lost.
    ///
    /// # Errors
    /// [`OffloadError`]; also if a write has failed.
    pub fn check(&mut self) -> Result<(), OffloadError> {
        // A link whose other end is gone is not lost before its messages are taken, which the other side may have
        // sent without a reason.
        self.take_wakes()?;
        self.complete().map(drop)
    }

    /// Waits for the next message by polling: its count and its body.
    ///
    /// # Errors
    /// As [`Channel::receive`]; [`OffloadError::Timeout`].
    pub fn wait(&mut self, most: Duration) -> Result<(u16, &[u8]), OffloadError> {
        let mut patience = PollDeadline::new(most);
        let count = loop {
            if let Some((count, _)) = self.receive()? {
                break count;
            }
            self.wake()?;
            if patience.spend()? {
                self.check()?;
            }
        };
        Ok((count, self.body.bytes()))
    }
}
