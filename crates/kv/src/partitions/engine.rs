//! The processing engine of a worker: its own partition, and the way to the others.

use std::sync::{Arc, mpsc};

use super::inside::Inside;
use super::mailbox::Mailbox;
use super::merge::Answers;
use crate::offload::RemoteEngine;
use crate::server::{Backing, Bell, PartitionWork};
use crate::{
    Answer, Metadata, ProcessingEngine, Refusal, Request, ScanPosition, Statistics, Transaction,
    partition_of,
};

/// Bits of a scan's position that are a partition's own.
const POSITION_BITS: u32 = 48;
/// Own requests that are executed together when a batch is divided, and how long their answers may be until
/// no more are executed in advance.
const PART: usize = 64;
const AHEAD_BYTES: usize = 256 << 10;
/// Turns of waiting after which others run, who may need this core.
const SPIN: u32 = 200;

/// The engine of one worker. See the [module](super).
pub struct Partitioned {
    pub(super) number: usize,
    pub(super) inside: Inside,
    /// By partition; `None`: this one.
    pub(super) peers: Vec<Option<Peer>>,
    pub(super) bell: Arc<Bell>,
    pub(super) work: PartitionWork,
    /// Of the others, as of the last refresh.
    pub(super) elsewhere: Elsewhere,
    pub(super) now_ms: u64,
    /// Turns since somebody asked for something, where there is a link to look at.
    pub(super) idle: Option<u32>,
    pause: Option<Pause>,
    /// Partitions of the requests of a batch.
    owners: Vec<u8>,
    answers: Vec<Answers>,
}

/// The way to another worker.
pub(super) struct Peer {
    pub remote: RemoteEngine,
    /// `None`: it is on the other side of a link.
    pub thread: Option<(Arc<Bell>, Arc<Mailbox>)>,
}

impl Peer {
    /// Wakes it, if it is one of this process.
    fn ring(&self) {
        if let Some((bell, _)) = &self.thread {
            bell.ring();
        }
    }
}

/// What other workers have told of their partitions.
#[derive(Default)]
pub(super) struct Elsewhere {
    pub statistics: Statistics,
    pub info: Vec<Vec<(String, String)>>,
    pub last_saves_s: Vec<u64>,
}

impl std::fmt::Debug for Partitioned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Partitioned")
            .field("number", &self.number)
            .field("work", &self.work)
            .finish_non_exhaustive()
    }
}

/// Lets others run once a wait is long.
#[derive(Default)]
struct Waiting(u32);

impl Waiting {
    fn turn(&mut self, any: bool, pause: Option<&Pause>) {
        self.0 = if any { 0 } else { self.0.saturating_add(1) };
        match pause {
            Some(pause) => pause(),
            None if self.0 > SPIN => std::thread::yield_now(),
            None => std::hint::spin_loop(),
        }
    }
}

/// What a worker does between two looks for answers.
type Pause = Box<dyn Fn() + Send>;

impl Partitioned {
    pub(super) fn new(
        number: usize,
        inside: Inside,
        peers: Vec<Option<Peer>>,
        bell: Arc<Bell>,
    ) -> Self {
        let is_over_link =
            |peer: &Option<Peer>| (peer.as_ref()).is_some_and(|p| p.thread.is_none());
        Self {
            number,
            inside,
            idle: peers.iter().any(is_over_link).then_some(0),
            answers: peers.iter().map(|_| Answers::default()).collect(),
            peers,
            bell,
            work: PartitionWork::default(),
            elsewhere: Elsewhere::default(),
            now_ms: 0,
            pause: None,
            owners: Vec::new(),
        }
    }

    /// Has the worker do this between two looks for answers, instead of letting any other thread run: so that
    /// a simulation decides who is next.
    pub fn pause_by(&mut self, pause: impl Fn() + Send + 'static) {
        self.pause = Some(Box::new(pause));
    }

    /// Whether a partition is on the other side of a link.
    pub(super) fn is_over_link(&self, partition: usize) -> bool {
        let peer = self.peers[partition].as_ref();
        peer.is_some_and(|peer| peer.thread.is_none())
    }

    fn owner(&self, key: &[u8]) -> usize {
        partition_of(key, self.peers.len())
    }

    /// Begins something on another partition, and polls for its end.
    fn ask<T>(
        &mut self,
        owner: usize,
        now_ms: u64,
        begin: impl FnOnce(&mut RemoteEngine),
        mut poll: impl FnMut(&mut RemoteEngine) -> Option<T>,
    ) -> Option<T> {
        let peer = self.peers[owner].as_mut()?;
        begin(&mut peer.remote);
        peer.ring();
        let mut waiting = Waiting::default();
        loop {
            if let Some(answer) = poll(&mut peer.remote) {
                return Some(answer);
            }
            waiting.turn(self.inside.serve(now_ms), self.pause.as_ref());
            // Polling may have sent more.
            peer.ring();
        }
    }

    /// Has another partition execute all of a batch.
    fn execute_elsewhere(
        &mut self,
        owner: usize,
        batch: &[Request<'_>],
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) {
        self.work.forwarded += batch.len() as u64;
        self.ask(
            owner,
            now_ms,
            |remote| remote.begin(batch, now_ms),
            |remote| remote.poll(batch, answers).then_some(()),
        );
    }

    /// Executes a batch whose keys are in several partitions, those of `self.owners`.
    fn execute_divided(
        &mut self,
        batch: &[Request<'_>],
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) {
        let mut parts: Vec<Vec<Request<'_>>> = vec![Vec::new(); self.peers.len()];
        for (request, owner) in batch.iter().zip(&self.owners) {
            parts[usize::from(*owner)].push(request.clone());
        }
        for (part, peer) in parts.iter().zip(&mut self.peers) {
            if let Some(peer) = peer.as_mut().filter(|_| !part.is_empty()) {
                self.work.forwarded += part.len() as u64;
                peer.remote.begin(part, now_ms);
                peer.ring();
            }
        }
        let own = std::mem::take(&mut parts[self.number]);
        self.work.own += own.len() as u64;
        let mut executed = 0;
        // While the others are at work.
        self.execute_own(&own, &mut executed, now_ms);
        let owners = std::mem::take(&mut self.owners);
        for (index, owner) in owners.iter().enumerate() {
            let owner = usize::from(*owner);
            if self.answers[owner].is_empty() {
                match owner == self.number {
                    true => self.execute_own(&own, &mut executed, now_ms),
                    false => self.wait_for(owner, &parts[owner], now_ms),
                }
            }
            self.answers[owner].take(&mut |answer| answers(index, answer));
        }
        self.owners = owners;
    }

    /// Executes more of this worker's part.
    fn execute_own(&mut self, part: &[Request<'_>], executed: &mut usize, now_ms: u64) {
        let answers = &mut self.answers[self.number];
        while *executed < part.len() && answers.len() <= AHEAD_BYTES {
            let left = &part[*executed..];
            let left = &left[..left.len().min(PART)];
            let mut put = |_, answer: Answer<'_>| answers.put(&answer);
            self.inside.own.execute(left, now_ms, &mut put);
            *executed += left.len();
        }
    }

    /// Waits until another partition has sent some of the answers that it owes.
    fn wait_for(&mut self, owner: usize, part: &[Request<'_>], now_ms: u64) {
        let Some(peer) = self.peers[owner].as_mut() else {
            return;
        };
        let answers = &mut self.answers[owner];
        let mut waiting = Waiting::default();
        while answers.is_empty() {
            (peer.remote).poll(part, &mut |_, answer| answers.put(&answer));
            waiting.turn(self.inside.serve(now_ms), self.pause.as_ref());
            // Polling may have sent more.
            peer.ring();
        }
    }

    /// Asks every other worker of this process something, and answers it for this one's partition as well: answers with the
    /// numbers of the partitions, in order, without those who have ended.
    pub(super) fn ask_all<T: Send + 'static>(
        &mut self,
        question: impl Fn(&mut dyn Backing) -> T + Clone + Send + 'static,
    ) -> Vec<(usize, T)> {
        let (sender, receiver) = mpsc::channel();
        for (number, peer) in self.peers.iter().enumerate() {
            if let Some((bell, mailbox)) = peer.as_ref().and_then(|peer| peer.thread.as_ref()) {
                let (question, sender) = (question.clone(), sender.clone());
                let letter = move |backing: &mut dyn Backing| {
                    // Who asked may have ended.
                    let _ = sender.send((number, question(backing)));
                };
                mailbox.post(Box::new(letter));
                bell.ring();
            }
        }
        drop(sender);
        let mut all = vec![(self.number, question(&mut *self.inside.own))];
        let mut waiting = Waiting::default();
        loop {
            match receiver.try_recv() {
                Ok(answer) => all.push(answer),
                Err(mpsc::TryRecvError::Disconnected) => break,
                Err(mpsc::TryRecvError::Empty) => {
                    waiting.turn(self.inside.serve(self.now_ms), self.pause.as_ref());
                }
            }
        }
        all.sort_by_key(|(number, _)| *number);
        all
    }

    /// The partition that has all keys of a transaction.
    fn owner_of(&self, transaction: &Transaction<'_>) -> Option<usize> {
        let watched = transaction.watched.iter().map(|(key, ..)| *key);
        let requested = transaction.requests.iter().map(|request| request.key);
        let mut owners = watched.chain(requested).map(|key| self.owner(key));
        let first = owners.next().unwrap_or(self.number);
        owners.all(|owner| owner == first).then_some(first)
    }
}

impl ProcessingEngine for Partitioned {
    /// Each partition executes its requests in order. Nothing is said of the order of requests on
    /// different partitions.
    fn execute(
        &mut self,
        batch: &[Request<'_>],
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) {
        self.now_ms = now_ms;
        let Some(first) = batch.first() else {
            return;
        };
        let count = self.peers.len();
        // At most PARTITIONS_MAX.
        let owner = |request: &Request<'_>| partition_of(request.key, count) as u8;
        self.owners.clear();
        self.owners.extend(batch.iter().map(owner));
        let first = owner(first);
        match self.owners.iter().all(|owner| *owner == first) {
            true if usize::from(first) == self.number => {
                self.work.own += batch.len() as u64;
                self.inside.own.execute(batch, now_ms, answers);
            }
            true => self.execute_elsewhere(usize::from(first), batch, now_ms, answers),
            false => self.execute_divided(batch, now_ms, answers),
        }
    }

    /// All keys must be in one partition: otherwise every request is refused.
    fn execute_transaction(
        &mut self,
        transaction: &Transaction<'_>,
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) -> bool {
        self.now_ms = now_ms;
        let count = transaction.requests.len();
        let Some(owner) = self.owner_of(transaction) else {
            let refused = Answer::Refused(Refusal::Unreachable);
            (0..count).for_each(|index| answers(index, refused));
            return true;
        };
        if owner == self.number {
            self.work.own += count as u64;
            return (self.inside.own).execute_transaction(transaction, now_ms, answers);
        }
        self.work.forwarded += count as u64;
        let executed = self.ask(
            owner,
            now_ms,
            |remote| remote.begin_transaction(transaction, now_ms),
            |remote| remote.poll_transaction(transaction, answers),
        );
        executed.unwrap_or(true)
    }

    /// One partition after the other. The upper bits of a position say which.
    fn scan(
        &mut self,
        position: ScanPosition,
        count: usize,
        now_ms: u64,
        keys: &mut dyn FnMut(&[u8], Metadata),
    ) -> Result<ScanPosition, Refusal> {
        self.now_ms = now_ms;
        let partition = (position.0 >> POSITION_BITS) as usize;
        if partition >= self.peers.len() {
            return Ok(ScanPosition(0));
        }
        let inner = ScanPosition(position.0 & ((1 << POSITION_BITS) - 1));
        let next = match partition == self.number {
            true => self.inside.own.scan(inner, count, now_ms, keys)?,
            false => {
                let next = self.ask(
                    partition,
                    now_ms,
                    |remote| remote.begin_scan(inner, count, now_ms),
                    |remote| remote.poll_scan(keys),
                );
                next.unwrap_or(Err(Refusal::Unreachable))?
            }
        };
        let begin = |partition: usize| (partition as u64) << POSITION_BITS;
        match next.0 {
            0 if partition + 1 == self.peers.len() => Ok(ScanPosition(0)),
            0 => Ok(ScanPosition(begin(partition + 1))),
            inner => Ok(ScanPosition(begin(partition) | inner)),
        }
    }

    fn expire_some(&mut self, now_ms: u64, buckets: usize) -> usize {
        self.inside.own.expire_some(now_ms, buckets)
    }

    /// One partition after the other: who reads meanwhile may find some empty and others not. If one
    /// refuses, those before it are empty.
    fn flush(&mut self) -> Result<(), Refusal> {
        let now_ms = self.now_ms;
        for partition in 0..self.peers.len() {
            if partition == self.number {
                self.inside.own.flush()?;
                continue;
            }
            let flushed = self.ask(
                partition,
                now_ms,
                RemoteEngine::begin_flush,
                RemoteEngine::poll_flush,
            );
            flushed.unwrap_or(Err(Refusal::Unreachable))?;
        }
        Ok(())
    }

    fn statistics(&self) -> Statistics {
        let mut all = self.inside.own.statistics();
        all.add(&self.elsewhere.statistics);
        all
    }

    fn refresh(&mut self) {
        let own = self.number;
        let told =
            self.ask_all(|backing| (backing.statistics(), backing.info(), backing.last_save_s()));
        self.elsewhere = Elsewhere::default();
        for (number, (statistics, info, last_save_s)) in told {
            if number != own {
                self.elsewhere.statistics.add(&statistics);
                self.elsewhere.info.push(info);
                self.elsewhere.last_saves_s.push(last_save_s);
            }
        }
        for number in 0..self.peers.len() {
            if self.is_over_link(number) {
                let statistics = self.ask(
                    number,
                    self.now_ms,
                    RemoteEngine::begin_statistics,
                    |remote| remote.poll_statistics().then(|| remote.statistics()),
                );
                (self.elsewhere.statistics).add(&statistics.unwrap_or_default());
            }
        }
    }

    fn partitions(&self) -> usize {
        self.peers.len()
    }
}
