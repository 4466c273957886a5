//! The processing engine of a worker: its own partition, and the way to the others.

mod contract;
mod way;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};

use super::local_partition::LocalPartition;
use super::merge::WaitingAnswers;
use super::task_queue::{RemoteTask, TaskQueue};
use crate::{Answer, Request, Statistics, Transaction, partition_of};
use crate::{ProcessingEngine, RemoteEngine, Responder};
use overside_kv_backend::Waker;
use overside_kv_backend::replica::ReplicationReport;
use overside_kv_backend::{PartitionWork, StorageBackend};
use way::Way;

/// Own requests that are executed together when a batch is divided, and how long their answers may be until
/// no more are executed in advance. Over a link several messages are under way at a time.
const PART: usize = 64;
const LINK_PART: usize = 256;
const AHEAD_BYTES: usize = 256 << 10;
/// Turns of waiting after which others run, who may need this core.
const SPIN: u32 = 200;

/// The engine of one worker. See the [module](super).
pub struct Partitioned {
    /// `None`: it only serves clients.
    pub(super) inside: Option<LocalPartition>,
    /// Other workers, whose requests it passes on over its links.
    relays: Vec<Relay>,
    /// Peers by partition; `None` for this one.
    pub(super) peers: Vec<Option<Peer>>,
    pub(super) waker: Arc<Waker>,
    /// A worker has all partitions become replicas, or primaries.
    pub(super) is_changing_role: Arc<AtomicBool>,
    pub(super) work: PartitionWork,
    /// Reports of the other partitions, as of the last refresh.
    pub(super) elsewhere: OtherPartitions,
    pub(super) now_ms: u64,
    pub(super) next_refresh_ms: u64,
    /// Number of turns since the last request, where there is a link to look at.
    pub(super) idle: Option<u32>,
    pause: Option<Pause>,
    /// Partitions of the requests of a batch.
    owners: Vec<u8>,
    answers: Vec<WaitingAnswers>,
}

/// The way to another thread.
pub(super) struct Peer {
    pub remote: RemoteEngine,
    /// Waker of a worker of this process.
    pub waker: Option<Arc<Waker>>,
    /// Tasks for its partition, if the worker has that itself.
    pub tasks: Option<Arc<TaskQueue>>,
    /// `true` if it is on the other side of a link of this worker.
    pub is_link: bool,
}

impl Peer {
    /// The way to a thread that is woken by messages.
    pub(super) fn new(remote: RemoteEngine) -> Self {
        Self { remote, waker: None, tasks: None, is_link: false }
    }

    /// Wakes it, if it is a worker of this process.
    fn wake(&self) {
        if let Some(waker) = &self.waker {
            waker.wake();
        }
    }

    /// Makes it run a task on its partition. Drops the task if it has none in this process.
    pub(super) fn run(&self, task: RemoteTask) {
        if let Some(tasks) = &self.tasks {
            tasks.post(task);
            self.wake();
        }
    }
}

/// Another worker that sends requests for a partition to which this worker has a link.
pub(super) struct Relay {
    pub partition: usize,
    pub responder: Responder,
}

/// Reports that other workers have sent on their partitions.
#[derive(Default)]
pub(super) struct OtherPartitions {
    pub statistics: Statistics,
    pub info: Vec<Vec<(String, String)>>,
    pub last_saves_s: Vec<u64>,
    pub replication: Vec<(usize, ReplicationReport)>,
}

impl OtherPartitions {
    pub(super) fn add(
        &mut self,
        statistics: &Statistics,
        info: Vec<(String, String)>,
        last_save_s: u64,
    ) {
        self.statistics.add(statistics);
        self.info.push(info);
        self.last_saves_s.push(last_save_s);
    }
}

impl std::fmt::Debug for Partitioned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Partitioned")
            .field("number", &self.inside.as_ref().map(|inside| inside.number))
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
        inside: Option<LocalPartition>,
        relays: Vec<Relay>,
        peers: Vec<Option<Peer>>,
        waker: Arc<Waker>,
        is_changing_role: Arc<AtomicBool>,
    ) -> Self {
        let is_asked = inside.as_ref().is_some_and(LocalPartition::is_asked_over_links);
        Self {
            inside,
            relays,
            idle: is_asked.then_some(0),
            answers: peers.iter().map(|_| WaitingAnswers::default()).collect(),
            peers,
            waker,
            is_changing_role,
            work: PartitionWork::default(),
            elsewhere: OtherPartitions::default(),
            now_ms: 0,
            next_refresh_ms: 0,
            pause: None,
            owners: Vec::new(),
        }
    }

    /// Makes the worker call `pause` between two checks for answers instead of yielding to any other thread,
    /// so that a simulation decides which worker is next.
    pub fn pause_by(&mut self, pause: impl Fn() + Send + 'static) {
        self.pause = Some(Box::new(pause));
    }

    /// Returns `true` if this worker has the partition.
    pub(super) fn is_own(&self, partition: usize) -> bool {
        self.peers[partition].is_none()
    }

    /// Returns `true` if this worker has the partition or a link to it.
    fn is_held(&self, partition: usize) -> bool {
        self.peers[partition].as_ref().is_none_or(|peer| peer.is_link)
    }

    /// Partitions of other threads that run no tasks.
    pub(super) fn asked_by_messages(&self) -> Vec<usize> {
        let peers = self.peers.iter().enumerate();
        let peers =
            peers.filter(|(_, peer)| peer.as_ref().is_some_and(|peer| peer.tasks.is_none()));
        peers.map(|(number, _)| number).collect()
    }

    /// The way to a partition.
    pub(super) fn way(&mut self, partition: usize) -> Way<'_> {
        Way { worker: self, partition }
    }

    fn owner(&self, key: &[u8]) -> usize {
        partition_of(key, self.peers.len())
    }

    /// Counts requests of this worker's clients. Those for a link are its own if it has no partition.
    pub(super) fn count(&mut self, partition: usize, requests: usize) {
        let is_home = match self.inside {
            Some(_) => self.is_own(partition),
            None => self.is_held(partition),
        };
        match is_home {
            true => self.work.own += requests as u64,
            false => self.work.forwarded += requests as u64,
        }
    }

    /// Begins something on the partition of another thread, and polls for its end.
    pub(super) fn ask<T>(
        &mut self,
        partition: usize,
        begin: impl FnOnce(&mut RemoteEngine),
        mut poll: impl FnMut(&mut RemoteEngine) -> Option<T>,
    ) -> Option<T> {
        begin(&mut self.peers[partition].as_mut()?.remote);
        let mut waiting = Waiting::default();
        loop {
            let peer = self.peers[partition].as_mut()?;
            // Beginning or polling may have sent something.
            peer.wake();
            if let Some(answer) = poll(&mut peer.remote) {
                return Some(answer);
            }
            let is_link = peer.is_link;
            let any = self.serve_meanwhile(is_link);
            waiting.turn(any, self.pause.as_ref());
        }
    }

    /// Serves others while this worker waits; not with its links, if it waits for one of them.
    fn serve_meanwhile(&mut self, waits_for_link: bool) -> bool {
        let now_ms = self.now_ms;
        let any = self.inside.as_mut().is_some_and(|inside| inside.serve(now_ms));
        any | (!waits_for_link && self.serve_relays())
    }

    /// Passes on requests of other workers over this worker's links. Returns `true` if there were any.
    fn serve_relays(&mut self) -> bool {
        let mut any = false;
        // While they are served, they are not served again.
        let mut relays = std::mem::take(&mut self.relays);
        relays.retain_mut(|relay| {
            let now_ms = self.now_ms;
            let polled = relay.responder.poll(&mut self.way(relay.partition), now_ms);
            any |= matches!(polled, Ok(true));
            polled.is_ok()
        });
        self.relays = relays;
        any
    }

    /// Serves other threads. Returns `true` if they had requests.
    pub(super) fn serve(&mut self, now_ms: u64) -> bool {
        self.now_ms = now_ms;
        self.serve_meanwhile(false)
    }

    /// Finds out which other threads have ended, and which links are lost.
    pub(super) fn check(&mut self) {
        if let Some(inside) = &mut self.inside {
            inside.check();
        }
        self.relays.retain_mut(|relay| relay.responder.check().is_ok());
        for peer in self.peers.iter_mut().flatten().filter(|peer| peer.is_link) {
            peer.remote.check();
        }
    }

    /// Executes a batch whose keys are in several partitions, those of `self.owners`.
    pub(super) fn execute_divided(
        &mut self,
        batch: &[Request<'_>],
        now_ms: u64,
        answers: &mut dyn FnMut(usize, Answer<'_>),
    ) {
        let mut parts: Vec<Vec<Request<'_>>> = vec![Vec::new(); self.peers.len()];
        for (request, owner) in batch.iter().zip(&self.owners) {
            parts[usize::from(*owner)].push(request.clone());
        }
        for (number, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
            self.count(number, part.len());
            if let Some(peer) = self.peers[number].as_mut().filter(|peer| !peer.is_link) {
                peer.remote.begin(part, now_ms);
                peer.wake();
            }
        }
        let mut executed = vec![0; parts.len()];
        // While the others are at work.
        for (number, part) in parts.iter().enumerate() {
            if self.is_held(number) {
                self.execute_held(number, part, &mut executed[number], now_ms);
            }
        }
        let owners = std::mem::take(&mut self.owners);
        for (index, owner) in owners.iter().enumerate() {
            let owner = usize::from(*owner);
            if self.answers[owner].is_empty() {
                match self.is_held(owner) {
                    true => self.execute_held(owner, &parts[owner], &mut executed[owner], now_ms),
                    false => self.wait_for(owner, &parts[owner]),
                }
            }
            self.answers[owner].take(&mut |answer| answers(index, answer));
        }
        self.owners = owners;
    }

    /// Executes more of the part of a partition that this worker has, or has a link to.
    fn execute_held(
        &mut self,
        number: usize,
        part: &[Request<'_>],
        executed: &mut usize,
        now_ms: u64,
    ) {
        let most = if self.is_own(number) { PART } else { LINK_PART };
        let mut answers = std::mem::take(&mut self.answers[number]);
        while *executed < part.len() && answers.len() <= AHEAD_BYTES {
            let left = &part[*executed..];
            let left = &left[..left.len().min(most)];
            self.way(number).execute(left, now_ms, &mut |_, answer| answers.put(&answer));
            *executed += left.len();
        }
        self.answers[number] = answers;
    }

    /// Waits until another thread has sent some of the answers that it owes.
    fn wait_for(&mut self, owner: usize, part: &[Request<'_>]) {
        let mut waiting = Waiting::default();
        while self.answers[owner].is_empty() {
            let Some(peer) = self.peers[owner].as_mut() else {
                return;
            };
            let answers = &mut self.answers[owner];
            (peer.remote).poll(part, &mut |_, answer| answers.put(&answer));
            // Polling may have sent more.
            peer.wake();
            let any = self.serve_meanwhile(false);
            waiting.turn(any, self.pause.as_ref());
        }
    }

    /// Runs a function on every worker of this process that has a partition, including this one. Returns the
    /// results with the numbers of the partitions, in order, without workers that have ended.
    pub(super) fn ask_all<T: Send + 'static>(
        &mut self,
        question: impl Fn(&mut dyn StorageBackend) -> T + Clone + Send + 'static,
    ) -> Vec<(usize, T)> {
        let (sender, receiver) = mpsc::channel();
        for (number, peer) in self.peers.iter().enumerate() {
            if let Some(peer) = peer {
                let (question, sender) = (question.clone(), sender.clone());
                peer.run(Box::new(move |backing: &mut dyn StorageBackend| {
                    // The caller may have ended.
                    let _ = sender.send((number, question(backing)));
                }));
            }
        }
        drop(sender);
        let own = self.inside.as_mut().map(|inside| (inside.number, question(&mut *inside.own)));
        let mut all: Vec<_> = own.into_iter().collect();
        let mut waiting = Waiting::default();
        loop {
            match receiver.try_recv() {
                Ok(answer) => all.push(answer),
                Err(mpsc::TryRecvError::Disconnected) => break,
                Err(mpsc::TryRecvError::Empty) => {
                    let any = self.serve_meanwhile(false);
                    waiting.turn(any, self.pause.as_ref());
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
        let own = self.inside.as_ref().map_or(0, |inside| inside.number);
        let first = owners.next().unwrap_or(own);
        owners.all(|owner| owner == first).then_some(first)
    }
}
