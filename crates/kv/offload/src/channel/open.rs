//! Opening of a channel, in which both ends introduce themselves and exchange memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_link::shm::{self, ShmOptions};
use overside_link::verbs::{
    Access, Endpoint, Exported, LinkConfig, QueuePair, RecvBatch, Side, Token,
};

use overside_kv_datagram::link::{receive_message, send_message};

use super::sleeping::AWAITED_BYTES;
use super::{BODY_MAX_BYTES, Body, Channel, ChannelOptions, OffloadError, Traffic};

/// Version of the messages.
const VERSION: u16 = 6;
/// First bytes of the introduction.
const MAGIC: [u8; 4] = *b"OvKv";
/// Length of an introduction in bytes, without the token.
const INTRODUCTION_BYTES: usize = 14;
/// Channels of a link within a process: so that it need not export more memory than a link does.
const LOCAL_MAX: usize = 32;
/// Longest time that both ends of a channel in one process may take to open it.
const LOCAL_SETUP_MAX: Duration = Duration::from_secs(10);

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
        HalfOpen::begin(endpoint, index, options, deadline)?.finish(deadline)
    }

    /// Makes both ends of `count` channels within this process, for engines on different cores: the requesting
    /// one, and the answering one, which can sleep.
    ///
    /// # Errors
    /// [`OffloadError`].
    ///
    /// # Panics
    /// If the options are outside of their bounds.
    pub fn pairs(count: usize, options: ChannelOptions) -> Result<Vec<[Self; 2]>, OffloadError> {
        let deadline = Instant::now() + LOCAL_SETUP_MAX;
        let mut channels = Vec::with_capacity(count);
        while channels.len() < count {
            let queue_pairs = (count - channels.len()).min(LOCAL_MAX);
            let config = |side| LinkConfig {
                queue_pairs,
                depth: options.slots.max(2),
                max_message_bytes: Token::MAX_BYTES + INTRODUCTION_BYTES,
                event: side == Side::Dpu,
                ..LinkConfig::new(side)
            };
            let configs = [Side::Host, Side::Dpu].map(config);
            let options_of_link = ShmOptions::default();
            let configs = [&configs[0], &configs[1]];
            let ends = shm::pair(configs, [&options_of_link; 2], deadline)?;
            let ends = ends.map(|end| Arc::new(end) as Arc<dyn Endpoint>);
            for index in 0..queue_pairs {
                let [first, second] = &ends;
                let first = HalfOpen::begin(Arc::clone(first), index, options, deadline)?;
                let second = HalfOpen::begin(Arc::clone(second), index, options, deadline)?;
                channels.push([first.finish(deadline)?, second.finish(deadline)?]);
            }
        }
        Ok(channels)
    }
}

/// A channel whose other side has not introduced itself yet.
struct HalfOpen {
    queue_pair: Box<dyn QueuePair>,
    inbox: Exported,
    options: ChannelOptions,
    endpoint: Arc<dyn Endpoint>,
}

impl HalfOpen {
    /// Exports memory, and introduces itself to the other side.
    fn begin(
        endpoint: Arc<dyn Endpoint>,
        index: usize,
        options: ChannelOptions,
        deadline: Instant,
    ) -> Result<Self, OffloadError> {
        assert!(is_possible(options), "{options:?}");
        let mut queue_pair = endpoint.open(index)?;
        let inbox = endpoint.export(inbox_bytes(options), Access::Write)?;
        let introduction = introduce(options, inbox.token());
        send_message(&mut *queue_pair, &introduction, deadline)?;
        Ok(Self { queue_pair, inbox, options, endpoint })
    }

    /// Waits for the other side.
    fn finish(mut self, deadline: Instant) -> Result<Channel, OffloadError> {
        let answer = receive_message(&mut *self.queue_pair, deadline)?;
        let (outbox_options, token) = parse_introduction(&answer)?;
        let outbox = self.endpoint.import(&token)?;
        if outbox.len() != inbox_bytes(outbox_options) as u64 {
            return Err(OffloadError::Violation("memory of another size than it said"));
        }
        Ok(Channel {
            queue_pair: self.queue_pair,
            inbox: self.inbox,
            inbox_options: self.options,
            outbox,
            outbox_options,
            staging: Vec::new(),
            sent: 0,
            received: 0,
            asked_for: 0,
            woken: 0,
            seen: 0,
            wakes: RecvBatch::default(),
            offered: (0..outbox_options.slots).map(|_| None).collect(),
            fetched: (0..self.options.slots).map(|_| None).collect(),
            incomplete_since: None,
            work: VecDeque::new(),
            completions: Vec::new(),
            body: Body::default(),
            body_max_bytes: BODY_MAX_BYTES,
            traffic: Traffic::default(),
            endpoint: self.endpoint,
        })
    }
}

fn inbox_bytes(options: ChannelOptions) -> usize {
    options.slot_bytes * options.slots + AWAITED_BYTES
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
