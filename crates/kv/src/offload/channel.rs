//! Messages in both directions over one queue pair.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::Region;
use overside_link::verbs::{
    Access, Completion, Endpoint, Exported, Messages, QueuePair, RecvBatch, RemoteMemory,
    RemoteSlice, Token, Verb, Work,
};

use super::OffloadError;
use super::message::{BODY_MAX_BYTES, TRAILER_BYTES, Trailer};

/// Version of the messages.
const VERSION: u16 = 1;
/// First bytes of the introduction.
const MAGIC: [u8; 4] = *b"OvKv";
/// How long parts of a message may be under way after its last word has arrived.
const ARRIVAL_MAX: Duration = Duration::from_secs(5);
/// How long a transfer may take.
const TRANSFER_MAX: Duration = Duration::from_secs(10);

/// How messages are held.
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
        Self {
            slot_bytes: 64 << 10,
            slots: 4,
        }
    }
}

/// What was moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages sent, each by one write.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Messages whose body the receiver had to fetch.
    pub rendezvous: u64,
    /// Bytes fetched here.
    pub read_bytes: u64,
}

/// One end of a connection between two engines.
pub struct Channel {
    // Dropped first: memory that the other side imported lives as long as the endpoint.
    queue_pair: Box<dyn QueuePair>,
    inbox: Exported,
    inbox_options: ChannelOptions,
    outbox: RemoteMemory,
    outbox_options: ChannelOptions,
    /// Where messages are made; `None` while one is written.
    staging: Option<Region>,
    sent: u64,
    received: u64,
    /// Memory that a long body is offered in, until the next one.
    offered: Option<Exported>,
    /// The other side's, as it was offered last.
    fetched: Option<(Token, RemoteMemory)>,
    /// Since when a message's last word is there, but not all of it.
    incomplete_since: Option<Instant>,
    work: VecDeque<Work>,
    completions: Vec<Completion>,
    /// Of the message that was received last: how many requests or answers, and its body.
    count: u16,
    body: Vec<u8>,
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
    /// Opens queue pair `index` and exchanges memory with the other side, which does the same.
    ///
    /// # Errors
    /// [`OffloadError`]; if the other side does not come before the deadline too.
    ///
    /// # Panics
    /// If the options are outside of their bounds.
    pub fn open(
        endpoint: Arc<dyn Endpoint>,
        index: usize,
        options: ChannelOptions,
        deadline: Instant,
    ) -> Result<Self, OffloadError> {
        assert!(is_possible(options), "{options:?}");
        let mut queue_pair = endpoint.open(index)?;
        let inbox = endpoint.export(options.slot_bytes * options.slots, Access::Write)?;
        let introduction = introduce(options, inbox.token());
        send_message(&mut *queue_pair, &introduction, deadline)?;
        let answer = receive_message(&mut *queue_pair, deadline)?;
        let (outbox_options, token) = parse_introduction(&answer)?;
        let outbox = endpoint.import(&token)?;
        if outbox.len() != (outbox_options.slot_bytes * outbox_options.slots) as u64 {
            return Err(OffloadError::Violation(
                "memory of another size than it said",
            ));
        }
        Ok(Self {
            staging: Some(endpoint.alloc(outbox_options.slot_bytes, 64)?),
            queue_pair,
            inbox,
            inbox_options: options,
            outbox,
            outbox_options,
            sent: 0,
            received: 0,
            offered: None,
            fetched: None,
            incomplete_since: None,
            work: VecDeque::new(),
            completions: Vec::new(),
            count: 0,
            body: Vec::new(),
            body_max_bytes: BODY_MAX_BYTES,
            traffic: Traffic::default(),
            endpoint,
        })
    }

    /// What was moved so far.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Sends a message with `count` requests or answers. There must be room: no more messages are on
    /// the way to the other side than it has slots, which who waits for answers knows.
    ///
    /// # Errors
    /// [`OffloadError`].
    pub fn send(&mut self, count: u16, body: &[u8]) -> Result<(), OffloadError> {
        if body.len() + TRAILER_BYTES <= self.outbox_options.slot_bytes {
            return self.write(count, body, false);
        }
        if body.len() > BODY_MAX_BYTES {
            return Err(OffloadError::Violation("a longer body than possible"));
        }
        let place = self.offer(body)?;
        self.traffic.rendezvous += 1;
        self.write(count, &place, true)
    }

    /// Puts a body where the other side can fetch it; says where.
    fn offer(&mut self, body: &[u8]) -> Result<Vec<u8>, OffloadError> {
        let has_room = |memory: &Exported| memory.len() >= body.len();
        let memory = match self.offered.take().filter(has_room) {
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
        self.offered = Some(memory);
        Ok(place)
    }

    fn write(&mut self, count: u16, body: &[u8], is_rendezvous: bool) -> Result<(), OffloadError> {
        let slot_bytes = self.outbox_options.slot_bytes;
        let sequence = self.sent + 1;
        let trailer = Trailer {
            sequence,
            count,
            len: body.len(),
            is_rendezvous,
        };
        let mut staging = match self.staging.take() {
            Some(staging) => staging,
            None => self.endpoint.alloc(slot_bytes, 64)?,
        };
        let begin = slot_bytes - TRAILER_BYTES - body.len();
        let message = &mut staging.bytes_mut()?[begin..];
        let (there, end) = message.split_at_mut(body.len());
        there.copy_from_slice(body);
        end.copy_from_slice(&trailer.encode(body));
        let slot = (sequence as usize % self.outbox_options.slots) * slot_bytes;
        let to = (self.outbox).slice((slot + begin) as u64..(slot + slot_bytes) as u64);
        let to = to.map_err(|_| OffloadError::Violation("smaller memory than it said"))?;
        let whole = staging.share();
        let from = whole.slice(begin..slot_bytes);
        self.transfer(Verb::Write { from, to })?;
        self.completions.clear();
        // Somebody may still read it if the link keeps it; then there is new memory next time.
        self.staging = whole.reclaim().ok();
        self.sent = sequence;
        self.traffic.writes += 1;
        self.traffic.written_bytes += (slot_bytes - begin) as u64;
        Ok(())
    }

    /// Does one piece of work; its completion is the only one in `completions` then.
    fn transfer(&mut self, verb: Verb) -> Result<(), OffloadError> {
        self.completions.clear();
        self.work.push_back(Work::new(self.sent, verb));
        let begin = Instant::now();
        let mut turns = 0u32;
        while self.completions.is_empty() {
            if !self.work.is_empty() {
                self.queue_pair.post(&mut self.work)?;
            }
            self.queue_pair.poll(&mut self.completions, 1)?;
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(1024) && begin.elapsed() > TRANSFER_MAX {
                return Err(OffloadError::Timeout);
            }
        }
        let result = self
            .completions
            .first()
            .map(|completion| &completion.result);
        match result {
            Some(Err(error)) => Err(OffloadError::Transfer(error.clone())),
            _ => Ok(()),
        }
    }

    /// Looks whether the next message is there: its count and its body.
    ///
    /// # Errors
    /// [`OffloadError`] if it breaks the rules. Does not find out that the link is lost: see
    /// [`Channel::check`].
    #[inline]
    pub fn receive(&mut self) -> Result<Option<(u16, &[u8])>, OffloadError> {
        let slot_bytes = self.inbox_options.slot_bytes;
        let due = self.received + 1;
        let end = (due as usize % self.inbox_options.slots + 1) * slot_bytes;
        let word = (self.inbox.load(end - 8)).map(u64::from_le);
        let word = word.map_err(|_| OffloadError::Violation("nothing"))?;
        if Trailer::sequence_in(word) != due {
            return Ok(None);
        }
        self.take(end)
    }

    fn take(&mut self, end: usize) -> Result<Option<(u16, &[u8])>, OffloadError> {
        let slot_bytes = self.inbox_options.slot_bytes;
        let outside = |_| OffloadError::Violation("a message outside of its slot");
        let mut bytes = [0; TRAILER_BYTES];
        (self.inbox.read(end - TRAILER_BYTES, &mut bytes)).map_err(outside)?;
        let trailer = Trailer::decode(&bytes);
        // The length may be on the way as well.
        if trailer.len + TRAILER_BYTES <= slot_bytes {
            self.body.resize(trailer.len, 0);
            let begin = end - TRAILER_BYTES - trailer.len;
            (self.inbox.read(begin, &mut self.body)).map_err(outside)?;
            if Trailer::is_whole(&bytes, &self.body) && trailer.sequence == self.received + 1 {
                self.incomplete_since = None;
                self.received += 1;
                self.count = trailer.count;
                if trailer.is_rendezvous {
                    self.fetch()?;
                }
                return Ok(Some((self.count, &self.body)));
            }
        }
        let since = *self.incomplete_since.get_or_insert_with(Instant::now);
        match since.elapsed() > ARRIVAL_MAX {
            true => Err(OffloadError::Violation(
                "a message that did not arrive whole",
            )),
            false => Ok(None),
        }
    }

    /// Fetches the body that the message in `body` tells of.
    fn fetch(&mut self) -> Result<(), OffloadError> {
        const SHORT: OffloadError = OffloadError::Violation("no place of a body");
        let place = std::mem::take(&mut self.body);
        let (len, rest) = place.split_first_chunk().ok_or(SHORT)?;
        let (checksum, token) = rest.split_first_chunk().ok_or(SHORT)?;
        let len = u32::from_le_bytes(*len) as usize;
        if len > self.body_max_bytes {
            return Err(OffloadError::Violation("a longer body than possible"));
        }
        let from = self.import(token, len)?;
        let into = self.endpoint.alloc(len, 64)?;
        self.transfer(Verb::Read { from, into })?;
        let destination = self.completions.pop().and_then(|done| done.destination);
        let destination = destination.ok_or(OffloadError::Violation("no body"))?;
        if crc32fast::hash(destination.bytes()?) != u32::from_le_bytes(*checksum) {
            return Err(OffloadError::Violation("a body with a wrong checksum"));
        }
        self.traffic.read_bytes += len as u64;
        self.body = destination.bytes()?.to_vec();
        Ok(())
    }

    fn import(&mut self, token: &[u8], len: usize) -> Result<RemoteSlice, OffloadError> {
        let token = Token::from_bytes(token)?;
        let known = self.fetched.take().filter(|(known, _)| *known == token);
        let memory = match known {
            Some((_, memory)) => memory,
            None => self.endpoint.import(&token)?,
        };
        let slice = memory.slice(0..len as u64);
        self.fetched = Some((token, memory));
        slice.map_err(|_| OffloadError::Violation("a body outside of its memory"))
    }

    /// Fetches no longer bodies than this.
    pub(super) fn limit_bodies(&mut self, max_bytes: usize) {
        self.body_max_bytes = max_bytes.min(BODY_MAX_BYTES);
    }

    /// Finds out whether the link is lost.
    ///
    /// # Errors
    /// [`OffloadError::Link`].
    pub fn check(&mut self) -> Result<(), OffloadError> {
        self.queue_pair.poll(&mut self.completions, 1)?;
        Ok(())
    }

    /// Waits for the next message by polling.
    ///
    /// # Errors
    /// As [`Channel::receive`]; [`OffloadError::Timeout`].
    pub fn wait(&mut self, most: Duration) -> Result<(u16, &[u8]), OffloadError> {
        let mut begin = None;
        let mut turns = 0u32;
        while self.receive()?.is_none() {
            std::hint::spin_loop();
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(4096) {
                self.check()?;
                if begin.get_or_insert_with(Instant::now).elapsed() > most {
                    return Err(OffloadError::Timeout);
                }
                // The other side may need this core.
                std::thread::yield_now();
            }
        }
        Ok((self.count, &self.body))
    }
}

fn is_possible(options: ChannelOptions) -> bool {
    (256..=16 << 20).contains(&options.slot_bytes)
        && options.slot_bytes.is_multiple_of(64)
        && (2..=4096).contains(&options.slots)
}

fn introduce(options: ChannelOptions, token: &Token) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&(options.slot_bytes as u32).to_le_bytes());
    bytes.extend_from_slice(&(options.slots as u32).to_le_bytes());
    bytes.extend_from_slice(token.as_bytes());
    bytes
}

fn parse_introduction(bytes: &[u8]) -> Result<(ChannelOptions, Token), OffloadError> {
    const NONE: OffloadError = OffloadError::Violation("no introduction");
    let rest = bytes.strip_prefix(&MAGIC).ok_or(NONE)?;
    let (version, rest) = rest.split_first_chunk().ok_or(NONE)?;
    let theirs = u16::from_le_bytes(*version);
    if theirs != VERSION {
        let ours = VERSION;
        return Err(OffloadError::Version { theirs, ours });
    }
    let (slot_bytes, rest) = rest.split_first_chunk().ok_or(NONE)?;
    let (slots, token) = rest.split_first_chunk().ok_or(NONE)?;
    let options = ChannelOptions {
        slot_bytes: u32::from_le_bytes(*slot_bytes) as usize,
        slots: u32::from_le_bytes(*slots) as usize,
    };
    match is_possible(options) {
        true => Ok((options, Token::from_bytes(token)?)),
        false => Err(OffloadError::Violation("impossible slots")),
    }
}

fn send_message(
    queue_pair: &mut dyn QueuePair,
    bytes: &[u8],
    deadline: Instant,
) -> Result<(), OffloadError> {
    let message = Messages::packed(bytes, bytes.len());
    let message = message.ok_or(OffloadError::Violation("nothing"))?;
    while queue_pair.send(message)? == 0 {
        pause(deadline)?;
    }
    Ok(())
}

fn receive_message(
    queue_pair: &mut dyn QueuePair,
    deadline: Instant,
) -> Result<Vec<u8>, OffloadError> {
    let mut batch = RecvBatch::default();
    while queue_pair.receive(&mut batch, 1)? == 0 {
        pause(deadline)?;
    }
    Ok(batch.as_bytes().to_vec())
}

fn pause(deadline: Instant) -> Result<(), OffloadError> {
    std::thread::sleep(Duration::from_micros(100));
    match Instant::now() < deadline {
        true => Ok(()),
        false => Err(OffloadError::Timeout),
    }
}
