//! The processing engine of a worker: its own partition, and the way to the others.

mod contract;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};

use super::inside::Inside;
use super::mailbox::Mailbox;
use super::merge::Answers;
use crate::offload::RemoteEngine;
use crate::replica::ReplicationReport;
use crate::server::{Backing, Bell, PartitionWork};
use crate::{Answer, Request, Statistics, Transaction, partition_of};

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
    /// A worker has all partitions become replicas, or primaries.
    pub(super) is_changing_role: Arc<AtomicBool>,
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
    pub replication: Vec<(usize, ReplicationReport)>,
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
        is_changing_role: Arc<AtomicBool>,
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
            is_changing_role,
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
    pub(super) fn ask<T>(
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
