//! Checks that either engine must pass for any behavior of the other side of its link. The fuzz target uses
//! them too.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_kv::codec::decode_answer;
use overside_kv::server::Memory;
use overside_kv::store::{MEMORY_MIN_BYTES, StoreOptions};
use overside_kv::{
    Answer, KEY_MAX_BYTES, KeyHasher, Operation, ProcessingEngine, Refusal, Request, ScanPosition,
    SetOptions, Store, Transaction,
};
use overside_kv_offload::{
    Batching, Channel, ChannelOptions, OffloadError, RemoteEngine, Responder,
};
use overside_link::shm::{self, ShmOptions};
use overside_link::verbs::{
    Access, Endpoint, Exported, LinkConfig, Messages, QueuePair, RecvBatch, RemoteMemory, Side,
    Token, Verb, Work,
};

const NOW_MS: u64 = 1_700_000_000_000;
const OPTIONS: ChannelOptions = ChannelOptions { slot_bytes: 1024, slots: 4 };
const INBOX_BYTES: usize = OPTIONS.slot_bytes * OPTIONS.slots + 64;
const TRAILER_BYTES: usize = 16;
/// Flag in the length of a body that has to be fetched.
const RENDEZVOUS: u32 = 1 << 31;
/// Far more turns than anything takes.
const TURNS_MAX: usize = 1 << 24;

/// Runs one of both engines, which the first byte chooses, with `data` as its peer. Returns the number of
/// valid answers. The engine must not panic, wait, or take more than it has requested.
pub(super) fn session(data: &[u8]) -> usize {
    let Some((&choice, data)) = data.split_first() else {
        return 0;
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    let configs = [Side::Dpu, Side::Host].map(LinkConfig::new);
    let options = ShmOptions::default();
    let ends = shm::pair([&configs[0], &configs[1]], [&options; 2], deadline).unwrap();
    let [ours, theirs] = ends.map(|end| Arc::new(end) as Arc<dyn Endpoint>);
    let mut peer = Peer::new(theirs);
    // An introduction that is the peer's own to make.
    if choice >= 0xc0 {
        peer.send_message(data);
        // A message that never arrives ends the wait.
        let deadline = Instant::now() + Duration::from_micros(200);
        return usize::from(Channel::open(ours, 0, OPTIONS, deadline).is_ok());
    }
    peer.send_message(&introduction(peer.inbox.token()));
    let channel = Channel::open(ours, 0, OPTIONS, deadline).unwrap();
    peer.meet();
    match choice & 1 {
        0 => answering(channel, peer, data),
        _ => asking(channel, peer, data),
    }
}

/// Returns the introduction that a peer sends first if it follows the protocol.
fn introduction(token: &Token) -> Vec<u8> {
    let mut bytes = b"OvKv\x06\0".to_vec();
    bytes.extend_from_slice(&(OPTIONS.slot_bytes as u32).to_le_bytes());
    bytes.extend_from_slice(&(OPTIONS.slots as u32).to_le_bytes());
    bytes.extend_from_slice(token.as_bytes());
    bytes
}

/// Other side of the link, whose messages the test input decides.
struct Peer {
    queue_pair: Box<dyn QueuePair>,
    inbox: Exported,
    /// The engine's inbox, once it is known.
    outbox: Option<RemoteMemory>,
    /// Exported bodies.
    offered: Vec<Exported>,
    sent: u64,
    heard: u64,
    endpoint: Arc<dyn Endpoint>,
}

impl Peer {
    fn new(endpoint: Arc<dyn Endpoint>) -> Self {
        Self {
            queue_pair: endpoint.open(0).unwrap(),
            inbox: endpoint.export(INBOX_BYTES, Access::Write).unwrap(),
            outbox: None,
            offered: Vec::new(),
            sent: 0,
            heard: 0,
            endpoint,
        }
    }

    fn send_message(&mut self, bytes: &[u8]) {
        if let Some(message) = Messages::one(bytes) {
            // One that is too long is refused here.
            let _ = self.queue_pair.send(message);
        }
    }

    /// Takes the engine's introduction.
    fn meet(&mut self) {
        let mut batch = RecvBatch::default();
        assert_eq!(self.queue_pair.receive(&mut batch, 1).unwrap(), 1);
        let token = Token::from_bytes(&batch.as_bytes()[14..]).unwrap();
        self.outbox = Some(self.endpoint.import(&token).unwrap());
    }

    /// Writes to the engine's memory, as far as the link lets it: the engine may have given up.
    fn write(&mut self, at: usize, bytes: &[u8]) {
        let place = at as u64..(at + bytes.len()) as u64;
        let outbox = self.outbox.as_ref().unwrap();
        let (false, Ok(to)) = (bytes.is_empty(), outbox.slice(place)) else {
            return;
        };
        let mut region = self.endpoint.alloc(bytes.len(), 64).unwrap();
        region.bytes_mut().unwrap().copy_from_slice(bytes);
        let from = region.share();
        let mut work = VecDeque::from([Work::new(0, Verb::Write { from, to })]);
        let mut done = Vec::new();
        while self.queue_pair.post(&mut work).is_ok_and(|taken| taken == 0) {
            let _ = self.queue_pair.poll(&mut done, 8);
        }
        let _ = self.queue_pair.poll(&mut done, 8);
    }

    /// Returns the offset in the receiver's inbox, in bytes, at which message `number` ends.
    fn end(number: u64) -> usize {
        (number as usize % OPTIONS.slots + 1) * OPTIONS.slot_bytes
    }

    /// The next message, with the right checksum.
    fn say(&mut self, count: u16, body: &[u8], flag: u32) {
        self.sent += 1;
        let mut trailer = [0; TRAILER_BYTES];
        trailer[..4].copy_from_slice(&(body.len() as u32 | flag).to_le_bytes());
        trailer[8..].copy_from_slice(&(self.sent << 16 | u64::from(count)).to_le_bytes());
        let mut checksum = crc32fast::Hasher::new();
        for part in [body, &trailer[..4], &trailer[8..]] {
            checksum.update(part);
        }
        trailer[4..8].copy_from_slice(&checksum.finalize().to_le_bytes());
        let message = [body, &trailer].concat();
        if message.len() <= OPTIONS.slot_bytes {
            self.write(Self::end(self.sent) - message.len(), &message);
        }
    }

    /// Sends a message whose body the engine has to fetch.
    fn offer(&mut self, count: u16, body: &[u8]) {
        let Ok(memory) = (self.endpoint).export(body.len().max(1), Access::Read) else {
            return;
        };
        memory.write(0, body).unwrap();
        let mut place = (body.len() as u32).to_le_bytes().to_vec();
        place.extend_from_slice(&crc32fast::hash(body).to_le_bytes());
        place.extend_from_slice(memory.token().as_bytes());
        self.offered.push(memory);
        self.say(count, &place, RENDEZVOUS);
    }

    /// Executes the next step of `data`: a kind of step, a count, a length of two bytes, and that
    /// many bytes. Returns `true` if there was a step.
    fn act(&mut self, data: &mut &[u8]) -> bool {
        let Some((&[step, count, low, high], rest)) = data.split_first_chunk() else {
            return false;
        };
        let len = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (bytes, rest) = rest.split_at(len);
        *data = rest;
        match step {
            0..0x80 if len + TRAILER_BYTES <= OPTIONS.slot_bytes => {
                self.say(count.into(), bytes, 0);
            }
            0..0xa0 => self.offer(count.into(), bytes),
            // It says that the body is elsewhere, wherever that is.
            0xa0..0xc0 => self.say(count.into(), bytes, RENDEZVOUS),
            // Anything, to the end of the slot that is due, or anywhere.
            0xc0..0xe0 => self.write(Self::end(self.sent + 1).saturating_sub(len), bytes),
            0xe0..0xf0 => {
                let at = usize::from(step & 15) << 9 | usize::from(count) << 1;
                self.write(at % INBOX_BYTES, bytes);
            }
            _ => self.send_message(bytes),
        }
        true
    }

    /// Reads the engine's next message, if one has come, and returns its number of answers.
    fn hear(&mut self) -> Option<usize> {
        let end = Self::end(self.heard + 1);
        let word = self.inbox.load(end - 8).map(u64::from_le).unwrap();
        if word >> 16 != self.heard + 1 {
            return None;
        }
        self.heard += 1;
        let count = word as u16;
        let len = self.inbox.load(end - TRAILER_BYTES).map(u64::from_le).unwrap() as u32;
        if count > 0 && len & RENDEZVOUS == 0 {
            let mut body = vec![0; len as usize];
            self.inbox.read(end - TRAILER_BYTES - body.len(), &mut body).unwrap();
            let mut rest = &body[..];
            (0..count).for_each(|_| read(&decode_answer(&mut rest).unwrap()));
            assert!(rest.is_empty(), "more than answers");
        }
        Some(count.into())
    }
}

/// Looks at all of an answer.
fn read(answer: &Answer<'_>) {
    match answer {
        Answer::List(list) => drop(list.iter().collect::<Vec<_>>()),
        answer => drop(format!("{answer:?}")),
    }
}

/// The engine answers.
fn answering(channel: Channel, mut peer: Peer, mut data: &[u8]) -> usize {
    let hasher = KeyHasher::with_seeds([1, 2, 3, 4]);
    let store = Store::new(StoreOptions::new(MEMORY_MIN_BYTES, &hasher));
    let mut engine = Memory::new(store.unwrap(), NOW_MS);
    let mut responder = Responder::new(channel, hasher);
    let mut answers = 0;
    while peer.act(&mut data) {
        let polled = loop {
            match responder.poll(&mut engine, NOW_MS) {
                Ok(true) => answers += peer.hear().unwrap_or(0),
                other => break other,
            }
        };
        let statistics = engine.statistics();
        assert!(statistics.memory_bytes <= statistics.memory_limit_bytes);
        if let Err(error) = polled {
            assert!(!matches!(error, OffloadError::Timeout), "{error}");
            break;
        }
    }
    assert!(answers as u64 <= responder.requests());
    answers
}

/// The engine sends every kind of request, in turn, until the peer has no more data or the engine
/// has given up.
fn asking(channel: Channel, peer: Peer, mut data: &[u8]) -> usize {
    let hasher = KeyHasher::with_seeds([1, 2, 3, 4]);
    let mut remote = RemoteEngine::new(channel, Batching::Batch);
    let (mut peer, mut right) = (Some(peer), 0);
    for turn in 0.. {
        let batch = batch(&hasher);
        let transaction =
            Transaction { watched: vec![(b"a", hasher.hash(b"a"), 3)], requests: batch.clone() };
        match turn % 6 {
            0 => remote.begin(&batch, NOW_MS),
            1 => remote.begin_statistics(),
            2 => remote.begin_scan(ScanPosition(7), 10, NOW_MS),
            3 => remote.begin_transaction(&transaction, NOW_MS),
            4 => remote.begin_flush(),
            _ => remote.begin_save(),
        }
        let mut answered = 0;
        let mut take = |index: usize, answer: Answer<'_>| {
            assert_eq!(index, answered, "answers come in order, and once");
            read(&answer);
            answered += 1;
            right += usize::from(answer != Answer::Refused(Refusal::Unreachable));
        };
        let (mut turns, mut is_answered) = (0, false);
        loop {
            let is_done = match turn % 6 {
                0 => {
                    is_answered = true;
                    remote.poll(&batch, &mut take)
                }
                1 => remote.poll_statistics(),
                2 => {
                    let found = remote.poll_scan(&mut |key, _| assert!(key.len() <= KEY_MAX_BYTES));
                    // No keys would read as an empty store.
                    assert!(remote.failure().is_none() || found != Some(Ok(ScanPosition(0))));
                    found.is_some()
                }
                3 => {
                    let executed = remote.poll_transaction(&transaction, &mut take);
                    is_answered = executed != Some(false);
                    executed.is_some()
                }
                4 => remote.poll_flush().is_some(),
                _ => remote.poll_save().is_some(),
            };
            if is_done {
                break;
            }
            let goes_on = peer.as_mut().is_some_and(|peer| peer.act(&mut data));
            if !goes_on {
                peer = None;
            }
            turns += 1;
            assert!(turns < TURNS_MAX, "it waits for ever");
        }
        assert_eq!(answered, if is_answered { batch.len() } else { 0 });
        if let Some(failure) = remote.failure() {
            let is_found = !matches!(failure, OffloadError::Timeout);
            assert!(is_found, "a peer that is gone is not found out");
            break;
        }
        for (name, value) in remote.told_info() {
            let plain = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
            assert!(plain(&name) && plain(&value), "{name}: {value}");
        }
    }
    right
}

/// Some of each kind of answer.
fn batch(hasher: &KeyHasher) -> Vec<Request<'static>> {
    let set = Operation::Set {
        value: b"value",
        options: SetOptions { flags: 3, ..SetOptions::default() },
    };
    let operations = [
        Operation::Get,
        set,
        Operation::Length,
        Operation::Delete { version: None },
        Operation::Inspect,
        Operation::HashGet { fields: [&b"field"[..], b"other"].into() },
    ];
    let with_key = |operation| Request::new(b"a", hasher, operation);
    operations.into_iter().map(with_key).collect()
}
