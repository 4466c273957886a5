//! Datagrams of one worker that come to a port which DPDK drives: its queue of the port, and frames
//! that others have received for it.
//!
//! Each turn:
//!
//! 1. takes the frames that other workers have handed over, and receives some,
//! 2. answers ARP and ICMP echo,
//! 3. hands datagrams over to the worker that has their keys, if the device has not brought them there, and
//! 4. has its own executed, and sends the answers by its queue.

mod binding;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use overside_backend_dpdk::ethernet::ReceivedFrame;
use overside_base::lock;

use super::packets::{Endpoint, PacketServer};
use super::replies::{ReceivedPackets, Serving};
use super::state::WorkerContext;
use crate::ethernet::port::HostQueue;
use crate::ethernet::{Datagram, FrameKind, Path};
use crate::stages::Stage;
use crate::udp::DESCRIPTOR_BYTES;
use overside_kv_backend::idle::Idle;

pub use binding::PortError;
pub(super) use binding::bind;

/// Offset of the partition in a datagram: that of its lower byte. There are fewer than 256
/// partitions.
const PARTITION_AT: usize = 4;
/// Times that the port is read a turn.
const READS_MAX: usize = 4;
/// Frames that wait for a worker at most; more are dropped, and counted.
const HANDED_OVER_MAX: usize = 1024;

/// A UDP port at the host's address.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortListener {
    pub port: u16,
    pub endpoint: Endpoint,
    pub owner: Owner,
}

/// The worker that executes a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The worker of the partition in the datagram's header.
    OfPartition,
    /// Always this one.
    Worker(usize),
}

/// Frames on the way from the worker that has received them to the one that has their keys.
#[derive(Debug)]
pub(super) struct Handover(Box<[Mutex<Vec<ReceivedFrame>>]>);

impl Handover {
    pub(super) fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Mutex::default()).collect())
    }

    /// Passes frames to a worker. Returns the number that was dropped because too many were waiting.
    fn give(&self, worker: usize, frames: &mut Vec<ReceivedFrame>) -> usize {
        let mut inbox = lock(&self.0[worker]);
        let room = HANDED_OVER_MAX.saturating_sub(inbox.len());
        inbox.extend(frames.drain(..room.min(frames.len())));
        drop(inbox);
        let dropped = frames.len();
        frames.clear();
        dropped
    }

    fn take(&self, worker: usize, frames: &mut Vec<ReceivedFrame>) {
        let mut inbox = lock(&self.0[worker]);
        match frames.is_empty() {
            true => std::mem::swap(&mut *inbox, frames),
            false => frames.append(&mut inbox),
        }
    }
}

/// A worker's part of the port.
#[derive(Debug)]
pub(super) struct PortQueue {
    queue: HostQueue,
    listeners: Arc<[PortListener]>,
    handover: Arc<Handover>,
    worker: usize,
    frames: Vec<ReceivedFrame>,
    /// Frames to hand over next, by worker.
    foreign: Vec<Vec<ReceivedFrame>>,
    idle: Idle,
    /// Maximum number of frames that were found at once since the last sample.
    found_max: usize,
    rx_queue: usize,
    is_up: bool,
}

impl PortQueue {
    /// Returns the part of the port for each worker, in order.
    pub(super) fn all(
        queues: Vec<HostQueue>,
        listeners: Vec<PortListener>,
        rx_queue: usize,
    ) -> impl Iterator<Item = Self> {
        let workers = queues.len();
        let handover = Arc::new(Handover::new(workers));
        let listeners: Arc<[PortListener]> = listeners.into();
        (queues.into_iter().enumerate()).map(move |(worker, queue)| Self {
            queue,
            listeners: Arc::clone(&listeners),
            handover: Arc::clone(&handover),
            worker,
            frames: Vec::new(),
            foreign: (0..workers).map(|_| Vec::new()).collect(),
            idle: Idle::default(),
            found_max: 0,
            rx_queue,
            is_up: false,
        })
    }

    /// Prepares the thread that serves the port. The thread calls it before anything else.
    pub(super) fn enter(&self) {
        self.queue.queue.enter();
    }

    /// Returns the longest time that the worker may sleep, since no event wakes it when frames
    /// arrive.
    pub(super) fn sleep_max(&self) -> Duration {
        self.idle.sleep_max()
    }

    /// Serves received frames, some at most. Returns `true` if there were any.
    pub(super) fn serve(&mut self, server: &mut PacketServer, serving: &mut Serving<'_>) -> bool {
        self.frames.clear();
        if self.foreign.len() > 1 {
            self.handover.take(self.worker, &mut self.frames);
        }
        let taken_over = self.frames.len();
        for _ in 0..READS_MAX {
            if !self.queue.receive(&mut self.frames) {
                break;
            }
        }
        self.found_max = self.found_max.max(self.frames.len() - taken_over);
        if self.frames.is_empty() {
            self.idle.spend();
            return false;
        }
        self.idle.end();
        self.dispatch(taken_over, serving.state);
        for number in 0..self.listeners.len() {
            self.process(number, server, serving);
        }
        self.frames.clear();
        true
    }

    /// Answers ARP and echo requests and hands over frames for others, so that its own remain. The
    /// first frames were handed over by others.
    fn dispatch(&mut self, taken_over: usize, state: &mut WorkerContext) {
        let counters = &mut state.counters.ethernet;
        counters.received += (self.frames.len() - taken_over) as u64;
        let all = std::mem::take(&mut self.frames);
        let mut has_replies = false;
        for (number, frame) in all.into_iter().enumerate() {
            let kind = self.queue.look(&frame, counters);
            let datagram = match kind {
                FrameKind::Datagram(datagram) => datagram,
                FrameKind::HostRequest(question) => {
                    self.queue.reply(&question);
                    has_replies = true;
                    continue;
                }
                FrameKind::Neighbor(..) | FrameKind::Ignored(_) => continue,
            };
            let Some(owner) = self.owner(&datagram) else {
                counters.not_for_us += 1;
                continue;
            };
            // What was handed over is executed here in any case.
            match owner == self.worker || number < taken_over {
                true => self.frames.push(frame),
                false => self.foreign[owner].push(frame),
            }
        }
        if has_replies {
            self.queue.queue.flush();
        }
        for (worker, frames) in self.foreign.iter_mut().enumerate() {
            if !frames.is_empty() {
                counters.handed_over += frames.len() as u64;
                counters.handover_dropped += self.handover.give(worker, frames) as u64;
            }
        }
    }

    /// The worker that a datagram is for; `None`: there is no such port.
    fn owner(&self, datagram: &Datagram<'_>) -> Option<usize> {
        let port = datagram.path.local_port;
        let mut listeners = self.listeners.iter();
        let listener = listeners.find(|listener| listener.port == port)?;
        Some(match listener.owner {
            Owner::Worker(worker) => worker,
            Owner::OfPartition => {
                let partition = datagram.payload.get(PARTITION_AT).copied().unwrap_or(0);
                usize::from(partition) % self.foreign.len()
            }
        })
    }

    /// Executes and answers the datagrams for a UDP port.
    fn process(&mut self, number: usize, server: &mut PacketServer, serving: &mut Serving<'_>) {
        let PortListener { port, endpoint, .. } = self.listeners[number];
        let mut paths: Vec<Path> = Vec::new();
        let (mut packets, mut senders) = (Vec::new(), Vec::new());
        // Their checksums are right: they were looked at before.
        let host = self.queue.host;
        for frame in &self.frames {
            if let FrameKind::Datagram(datagram) =
                host.receive(frame, crate::ethernet::Checked::Good)
                && datagram.path.local_port == port
            {
                packets.push(datagram.payload);
                senders.push(paths.len() as u32);
                paths.push(datagram.path);
            }
        }
        if packets.is_empty() {
            return;
        }
        let queue = &mut self.queue;
        let received = ReceivedPackets {
            packets: &packets,
            senders: &senders,
            reply: &mut |bytes, ends| queue.send(bytes, ends, |number| &paths[number as usize]),
        };
        server.serve(endpoint, received, serving);
        serving.state.stages.end(Stage::Respond);
    }

    /// Adds the port's waiting and lost frames; announces the host on the network when the link comes up.
    pub(super) fn sample(&mut self, state: &mut WorkerContext) {
        let found = std::mem::take(&mut self.found_max);
        let waiting = self.queue.queue.waiting().unwrap_or(0).max(found);
        let counters = &mut state.counters;
        counters.datagrams.backlog_bytes += (waiting * DESCRIPTOR_BYTES) as u64;
        counters.datagrams.queue_bytes += (self.rx_queue * DESCRIPTOR_BYTES) as u64;
        counters.datagrams.dropped += counters.ethernet.handover_dropped;
        // Of the port as a whole one worker counts.
        if self.worker > 0 {
            return;
        }
        let port = self.queue.queue.port();
        let (is_up, statistics) = (port.is_up(), port.statistics());
        counters.ethernet.links = u64::from(is_up);
        counters.ethernet.missed = statistics.missed;
        counters.ethernet.no_buffer = statistics.no_buffer;
        counters.ethernet.unsent = statistics.send_errors;
        counters.datagrams.dropped += statistics.missed + statistics.no_buffer;
        if is_up && !self.is_up {
            // Others may still know the hardware address of one before us.
            self.queue.ask(self.queue.host.address);
        }
        self.is_up = is_up;
    }
}
