//! State of a primary that has replicas: the history of its changes, and the copy that it sends.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use overside_base::lock;

use super::SyncRequest;
use super::group::GroupMember;
use super::link::{Link, Phase, ReplicaConnection};
use super::links::{COPY_BYTES, Links};
use super::stream::identity;
use crate::KeyHasher;
use crate::persistence::frame::{FrameWriter, Kind};
use crate::persistence::{FrameBuffer, Replicable, take_piece};

/// Bytes of a snapshot that are taken at a time.
const STEP_BYTES: usize = 256 << 10;
/// Longest time that a server waits at its end for replicas to catch up.
const DRAIN_MAX: Duration = Duration::from_secs(10);
const DRAIN_PAUSE: Duration = Duration::from_millis(2);
/// Time between two frames that carry the primary's time, in milliseconds.
const HEARTBEAT_MS: u64 = 1000;

/// See the module.
#[derive(Debug)]
pub(super) struct Source {
    pub links: Links,
    pub frames: FrameBuffer,
    copy: Option<Copying>,
    /// A replica may wait for a copy.
    has_waiting: bool,
    next_heartbeat_ms: u64,
}

/// The copy that is being sent.
#[derive(Debug)]
struct Copying {
    link: u64,
    writer: FrameWriter,
    now_ms: u64,
    requests: Vec<u8>,
}

impl Source {
    /// Begins the history with this id.
    pub(super) fn start(
        id: &str,
        backlog_bytes: usize,
        member: &GroupMember,
        now_ms: u64,
    ) -> io::Result<Self> {
        let identity = identity(id).unwrap_or_default();
        let mut source = Self {
            links: Links::start(backlog_bytes, member)?,
            frames: FrameBuffer::new(FrameWriter::stream(identity), Vec::new(), now_ms),
            copy: None,
            has_waiting: false,
            next_heartbeat_ms: 0,
        };
        // So that no offset is 0: that is what a replica without a copy has executed.
        source.beat(now_ms);
        Ok(source)
    }

    /// Appends executed requests to the history.
    pub(super) fn flush(&mut self) {
        if !self.frames.is_empty() {
            self.links.append(self.frames.frames());
            self.frames.clear();
        }
    }

    /// Says the time if it is due.
    pub(super) fn beat(&mut self, now_ms: u64) {
        if now_ms >= self.next_heartbeat_ms {
            self.next_heartbeat_ms = now_ms + HEARTBEAT_MS;
            self.frames.mark(Kind::Time, now_ms);
            self.flush();
        }
    }

    /// Accepts a replica. Returns `true` if it continues where it has stopped.
    pub(super) fn accept(
        &mut self,
        request: &SyncRequest,
        connection: ReplicaConnection,
        id: &str,
    ) -> bool {
        self.flush();
        let state = lock(&self.links.shared.state);
        let backlog = &state.backlog;
        let has_rest = (backlog.start()..=backlog.end()).contains(&request.offset);
        drop(state);
        let goes_on = request.id == id && has_rest;
        let address = connection.address();
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.to_owned();
        tracing::info!(%host, goes_on, "a replica has connected");
        let mut link = Link {
            replica: request.replica.clone(),
            host,
            port: request.port,
            phase: Phase::Waiting,
            position: request.offset,
            limit: u64::MAX,
            copy: Vec::new(),
            acknowledged: 0,
            heard: Instant::now(),
        };
        if goes_on {
            link.phase = Phase::Online;
            link.copy = b"+CONTINUE\r\n".to_vec();
            link.acknowledged = request.offset;
        }
        self.has_waiting |= !goes_on;
        self.links.add(connection, link);
        goes_on
    }

    /// Waits until the replicas that follow have everything, those that are heard of; not for long.
    pub(super) fn drain(&mut self) {
        self.flush();
        let begin = Instant::now();
        while begin.elapsed() < DRAIN_MAX && !self.links.have_all(begin) {
            thread::sleep(DRAIN_PAUSE);
        }
    }

    /// Starts or continues a copy. Returns `true` if there was something to send.
    pub(super) fn send_copy<B: Replicable>(
        &mut self,
        inner: &mut B,
        hasher: &KeyHasher,
        id: &str,
        now_ms: u64,
    ) -> bool {
        if self.copy.is_none() && self.has_waiting {
            self.flush();
            self.begin_copy(inner, id, now_ms);
        }
        if self.copy.is_none() {
            return false;
        }
        self.flush();
        self.step_copy(inner, hasher, now_ms)
    }

    /// Begins the copy of a replica that waits for one.
    fn begin_copy<B: Replicable>(&mut self, inner: &mut B, id: &str, now_ms: u64) {
        let mut state = lock(&self.links.shared.state);
        let end = state.backlog.end();
        let mut waiting = state.links.iter_mut();
        let Some((number, link)) = waiting.find(|(_, link)| link.phase == Phase::Waiting) else {
            self.has_waiting = false;
            return;
        };
        if !inner.begin_snapshot() {
            return;
        }
        let next = self.frames.writer.next_number();
        link.copy = format!("+FULL {id} {end} {next}\r\n").into_bytes();
        let mut writer = FrameWriter::stream(identity(id).unwrap_or_default());
        writer.append(Kind::CopyBegin, now_ms, &[], &mut link.copy);
        (link.position, link.limit) = (end, end);
        link.phase = Phase::Copying;
        link.heard = Instant::now();
        self.copy = Some(Copying { link: *number, writer, now_ms, requests: Vec::new() });
    }

    fn step_copy<B: Replicable>(&mut self, inner: &mut B, hasher: &KeyHasher, now_ms: u64) -> bool {
        let Some(copy) = &mut self.copy else {
            return false;
        };
        let mut state = lock(&self.links.shared.state);
        let end = state.backlog.end();
        let Some(link) = state.links.get_mut(&copy.link) else {
            drop(state);
            inner.cancel_snapshot();
            self.copy = None;
            return true;
        };
        if link.copy.len() > COPY_BYTES {
            return false;
        }
        copy.requests.clear();
        let is_last = inner.snapshot_step(&mut copy.requests, STEP_BYTES);
        let mut rest = &copy.requests[..];
        // The engine's own requests can be read.
        while let Ok(piece @ [_, ..]) = take_piece(&mut rest, hasher) {
            (copy.writer).append(Kind::Copy, copy.now_ms, piece, &mut link.copy);
        }
        copy.requests.shrink_to(2 * STEP_BYTES);
        link.limit = end;
        if is_last {
            copy.end(link, now_ms);
        }
        drop(state);
        self.links.shared.event.signal();
        if is_last {
            self.copy = None;
        }
        true
    }

    /// Ends a running copy before the engine has returned everything. Returns `true` if one was running.
    pub(super) fn end_copy(&mut self, now_ms: u64) -> bool {
        let Some(mut copy) = self.copy.take() else {
            return false;
        };
        let mut state = lock(&self.links.shared.state);
        if let Some(link) = state.links.get_mut(&copy.link) {
            copy.end(link, now_ms);
        }
        true
    }
}

impl Copying {
    fn end(&mut self, link: &mut Link, now_ms: u64) {
        (self.writer).append(Kind::CopyEnd, now_ms, &[], &mut link.copy);
        link.limit = u64::MAX;
        link.phase = Phase::Online;
    }
}
