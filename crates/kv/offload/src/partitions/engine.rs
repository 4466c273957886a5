//! The processing engine of a worker: its own partition, and the way to the others.

mod contract;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};

use super::local_partition::LocalPartition;
use super::merge::WaitingAnswers;
use super::task_queue::TaskQueue;
use crate::RemoteEngine;
use crate::{Answer, Answers, Request, Statistics, Transaction, partition_of};
use overside_kv_backend::Waker;
use overside_kv_backend::replica::ReplicationReport;
use overside_kv_backend::{PartitionWork, StorageBackend};

/// Own requests that are executed together when a batch is divided, and how long their answers may be until
/// no more are executed in advance.
const PART: usize = 64;
const AHEAD_BYTES: usize = 256 << 10;
/// Turns of waiting after which others run, who may need this core.
const SPIN: u32 = 200;

/// The engine of one worker. See the [module](super).
pub struct Partitioned {
    pub(super) number: usize,
    pub(super) inside: LocalPartition,
    /// Peers by partition; `None` for this one.
    pub(super) peers: Vec<Option<Peer>>,
    pub(super) waker: Arc<Waker>,
    /// A worker has all partitions become replicas, or primaries.
    pub(super) is_changing_role: Arc<AtomicBool>,
    pub(super) work: PartitionWork,
    /// Reports of the other partitions, as of the last refresh.
    pub(super) elsewhere: OtherPartitions,
    pub(super) now_ms: u64,
    /// Number of turns since the last request, where there is a link to look at.
    pub(super) idle: Option<u32>,
    pause: Option<Pause>,
    /// Partitions of the requests of a batch.
    owners: Vec<u8>,
    answers: Vec<WaitingAnswers>,
}

/// The way to another worker.
pub(super) struct Peer {
    pub remote: RemoteEngine,
    /// `None`: it is on the other side of a link.
    pub thread: Option<(Arc<Waker>, Arc<TaskQueue>)>,
}

impl Peer {
    /// Wakes it, if it is one of this process.
    fn wake(&self) {
        if let Some((waker, _)) = &self.thread {
            waker.wake();
        }
    }
}

/// Reports that other workers have sent on their partitions.
#[derive(Default)]
pub(super) struct OtherPartitions {
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

/// Yields to other threads once a wait is long.
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

/// Function that a worker calls between two polls for answers.
type Pause = Box<dyn Fn() + Send>;

impl Partitioned {
    pub(super) fn new(
        number: usize,
        inside: LocalPartition,
        peers: Vec<Option<Peer>>,
        waker: Arc<Waker>,
        is_changing_role: Arc<AtomicBool>,
    ) -> Self {
        let is_over_link =
            |peer: &Option<Peer>| (peer.as_ref()).is_some_and(|p| p.thread.is_none());
        Self {
            number,
            inside,
            idle: peers.iter().any(is_over_link).then_some(0),
            answers: peers.iter().map(|_| WaitingAnswers::default()).collect(),
            peers,
            waker,
            is_changing_role,
            work: PartitionWork::default(),
            elsewhere: OtherPartitions::default(),
            now_ms: 0,
            pause: None,
            owners: Vec::new(),
        }
    }

    /// Makes the worker call `pause` between two checks for answers instead of yielding to any other thread,
    /// so that a simulation decides which worker is next.
    pub fn pause_by(&mut self, pause: impl Fn() + Send + 'static) {
        self.pause = Some(Box::new(pause));
    }

    /// Returns `true` if a partition is on the other side of a link.
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
        peer.wake();
        let mut waiting = Waiting::default();
        loop {
            if let Some(answer) = poll(&mut peer.remote) {
                return Some(answer);
            }
            waiting.turn(self.inside.serve(now_ms), self.pause.as_ref());
            // Polling may have sent more.
            peer.wake();
        }
    }

    /// Makes another partition execute all of a batch.
    fn execute_elsewhere(
        &mut self,
        owner: usize,
        batch: &[Request<'_>],
        now_ms: u64,
        answers: Answers<'_>,
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
    fn execute_divided(&mut self, batch: &[Request<'_>], now_ms: u64, answers: Answers<'_>) {
        let mut parts: Vec<Vec<Request<'_>>> = vec![Vec::new(); self.peers.len()];
        for (request, owner) in batch.iter().zip(&self.owners) {
            parts[usize::from(*owner)].push(request.clone());
        }
        for (part, peer) in parts.iter().zip(&mut self.peers) {
            if let Some(peer) = peer.as_mut().filter(|_| !part.is_empty()) {
                self.work.forwarded += part.len() as u64;
                peer.remote.begin(part, now_ms);
                peer.wake();
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
            peer.wake();
        }
    }

    /// Runs a function on every worker of this process, including this one. Returns the results with the
    /// numbers of the partitions, in order, without workers that have ended.
    pub(super) fn ask_all<T: Send + 'static>(
        &mut self,
        question: impl Fn(&mut dyn StorageBackend) -> T + Clone + Send + 'static,
    ) -> Vec<(usize, T)> {
        let (sender, receiver) = mpsc::channel();
        for (number, peer) in self.peers.iter().enumerate() {
            if let Some((waker, task_queue)) = peer.as_ref().and_then(|peer| peer.thread.as_ref()) {
                let (question, sender) = (question.clone(), sender.clone());
                let letter = move |backing: &mut dyn StorageBackend| {
                    // The caller may have ended.
                    let _ = sender.send((number, question(backing)));
                };
                task_queue.post(Box::new(letter));
                waker.wake();
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
