//! Driving a queue pair as a program does.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{Region, Slice};
use rustix::event::{PollFd, PollFlags};

use crate::{Ends, Factory};
use overside_link::verbs::{
    Completion, Endpoint, Inbox, LinkConfig, Lost, Messages, PostError, QueuePair, Remote, Side,
    Verb, Work,
};

/// Nothing that works takes this long.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// A small link that polls.
pub(super) fn config(side: Side) -> LinkConfig {
    LinkConfig {
        depth: 8,
        max_message_bytes: 4096,
        ..LinkConfig::new(side)
    }
}

/// Both ends and the first queue pair of each.
pub(super) struct Link {
    pub(super) ends: Ends,
    pub(super) pairs: [Box<dyn QueuePair>; 2],
}

impl Link {
    pub(super) fn new(factory: Factory<'_>) -> Self {
        Self::with(factory, |_| {})
    }

    /// With something changed in the configurations of both ends.
    pub(super) fn with(factory: Factory<'_>, change: impl Fn(&mut LinkConfig)) -> Self {
        let configs = [Side::Host, Side::Dpu].map(|side| {
            let mut config = config(side);
            change(&mut config);
            config
        });
        let ends = factory([&configs[0], &configs[1]]);
        let pairs = [0, 1].map(|end| ends[end].open(0).expect("the first queue pair"));
        Self { ends, pairs }
    }
}

/// Both orders of the two ends: who initiates, and whose memory it is.
pub(super) const ROLES: [(usize, usize); 2] = [(0, 1), (1, 0)];

/// Bytes that differ from their neighbours.
pub(super) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|at| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed)
        .collect()
}

pub(super) fn slice(end: &Arc<dyn Endpoint>, bytes: &[u8]) -> Slice {
    region(end, bytes).share()
}

pub(super) fn region(end: &Arc<dyn Endpoint>, bytes: &[u8]) -> Region {
    let mut region = end.alloc(bytes.len(), 64).expect("memory");
    region.copy_from_slice(bytes);
    region
}

/// Posts everything, polling where the link is full, and returns all completions.
pub(super) fn run(
    pair: &mut dyn QueuePair,
    work: impl IntoIterator<Item = Work>,
) -> Vec<Completion> {
    let mut work: VecDeque<Work> = work.into_iter().collect();
    let count = work.len();
    let mut done = Vec::new();
    let begin = Instant::now();
    while done.len() < count {
        pair.post(&mut work).expect("the link takes it");
        pair.poll(&mut done, usize::MAX).expect("the link lives");
        patience(begin);
    }
    assert_eq!(pair.in_flight(), 0);
    done
}

/// Posts one piece and waits for it.
pub(super) fn run_one(pair: &mut dyn QueuePair, work: Work) -> Completion {
    run(pair, [work]).pop().expect("one completion")
}

pub(super) fn post_one(pair: &mut dyn QueuePair, work: Work) -> Result<usize, PostError> {
    pair.post(&mut VecDeque::from([work]))
}

pub(super) fn read(tag: u64, remote: &Remote, at: u64, into: Region) -> Work {
    let len = into.len() as u64;
    let from = remote.slice(at..at + len).expect("within the region");
    Work::new(tag, Verb::Read { from, into })
}

pub(super) fn write(tag: u64, from: Slice, remote: &Remote, at: u64) -> Work {
    let len = from.len() as u64;
    let to = remote.slice(at..at + len).expect("within the region");
    Work::new(tag, Verb::Write { from, to })
}

/// Sends everything, waiting for room; `meanwhile` is called when there is none.
pub(super) fn send_all(
    pair: &mut dyn QueuePair,
    mut messages: Messages<'_>,
    mut meanwhile: impl FnMut(),
) {
    let begin = Instant::now();
    while messages.count() > 0 {
        let sent = pair.send(messages).expect("the link takes it");
        messages = messages.after(sent);
        if sent == 0 {
            meanwhile();
        }
        patience(begin);
    }
}

/// Receives until the inbox holds `count` messages.
pub(super) fn receive_until(pair: &mut dyn QueuePair, inbox: &mut Inbox, count: usize) {
    let begin = Instant::now();
    while inbox.len() < count {
        let wanted = count - inbox.len();
        let received = pair.receive(inbox, wanted).expect("the link lives");
        assert!(received <= wanted, "{received} of {wanted}");
        patience(begin);
    }
}

/// Polls and receives until the link is lost.
pub(super) fn until_lost(pair: &mut dyn QueuePair) -> Lost {
    let begin = Instant::now();
    loop {
        if let Err(lost) = pair.poll(&mut Vec::new(), usize::MAX) {
            return lost;
        }
        patience(begin);
    }
}

/// Waits for the queue pair's descriptor as its documentation says. `false`: it stayed silent.
pub(super) fn wait(pair: &mut dyn QueuePair, timeout: Duration) -> bool {
    if pair.arm().expect("the link has events") {
        return true;
    }
    let descriptor = pair.event_fd().expect("a descriptor");
    let timeout = timeout.try_into().expect("a short time");
    let mut set = [PollFd::new(&descriptor, PollFlags::IN)];
    rustix::event::poll(&mut set, Some(&timeout)).expect("waiting works") > 0
}

pub(super) fn patience(begin: Instant) {
    assert!(begin.elapsed() < PATIENCE, "nothing happens any more");
    std::thread::yield_now();
}
