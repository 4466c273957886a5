//! One connection, from the first byte to the last.

mod receiving;

use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_base::{MemoryBudget, Reservation};
use overside_device::{Lifecycle, OpenError};
use overside_link::agent::{
    CancellationToken, Host, JobHead, Opened, OpeningError, Outbox, Probe, Reader, Reply, Request,
    Setup, Side, Stream, Violation, plain_error,
};
use overside_link::codec::{CodecError, clean};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::handshake::{drain_and_close, handshake};
use crate::open_context::{IncomingJob, OpenContext};
use crate::probe_session::ProbeSession;
use crate::server::{AgentState, ConnectionPermit, ProbePermit};

/// Time between two attempts to reserve memory for a waiting job, while other jobs hold the memory.
const MEMORY_RETRY: Duration = Duration::from_millis(50);
/// Shortest timeout while the session waits for [`LEAVE_TIMEOUT`] or [`IDLE`] to pass, so that it
/// does not spin.
const POLL_INTERVAL: Duration = Duration::from_micros(20);
/// Time that a host has, after the agent announced that it drains, to confirm that it sends no more
/// jobs. After that, the agent closes the connection once it is idle.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest time without a byte sent to a host whose jobs are running. After that, the agent sends a
/// heartbeat.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait for memory, or for the host to read, that is not logged. A longer wait is logged
/// once per such interval.
const WAIT_NOTED: Duration = Duration::from_secs(1);
/// Time that a context must be idle before the free memory of its pool is released.
const IDLE: Duration = Duration::from_secs(1);
/// Most buffers that one write to the socket gathers.
const PIECES: usize = 64;

/// Reason why a connection ends.
enum End {
    /// The host has disconnected, or has received its last message.
    Over,
    /// A protocol violation, with a message for the host.
    Broken(String),
}

impl From<CodecError> for End {
    fn from(error: CodecError) -> Self {
        Violation::from(error).into()
    }
}

impl From<Violation> for End {
    fn from(violation: Violation) -> Self {
        Self::Broken(violation.to_string())
    }
}

/// Admits a host and serves it.
pub(crate) fn serve(
    shared: &Arc<AgentState>,
    mut permit: ConnectionPermit,
    socket: TcpStream,
    peer: SocketAddr,
) {
    let _span = tracing::info_span!("connection", %peer).entered();
    match handshake(shared, &mut permit, socket) {
        Ok(Ok((stream, memory))) => {
            tracing::info!(encrypted = shared.settings.keys.is_some(), "host connected");
            Session::new(shared, stream, memory).run();
        }
        Ok(Err(reason)) => shared.refusals.log(peer, &reason),
        Err(_) if permit.is_evicted() => {}
        Err(error) => shared.refusals.log(peer, &error),
    }
}

struct Session<'a> {
    shared: &'a Arc<AgentState>,
    stream: Stream,
    /// Memory budget of the host's origin, shared by all connections from there.
    memory: Arc<MemoryBudget>,
    reader: Reader,
    outbox: Outbox,
    /// Memory of a message that is longer than every connection's own memory.
    message: Option<Reservation>,
    active: Option<OpenContext>,
    /// An end of a test that is played instead of a context.
    probing: Option<ProbeSession>,
    /// A job that is coming in.
    incoming: Option<IncomingJob>,
    /// A job for which there is no memory yet.
    waiting: Option<(JobHead, usize)>,
    /// A request that waits for the jobs before it. Nothing behind it is read.
    deferred: Option<Request>,
    /// Time at which the host was informed that the agent ends.
    drained: Option<Instant>,
    /// The host sends no more jobs.
    leaving: bool,
    /// Time of the last byte received (`heard`) and of the last byte sent (`spoke`).
    heard: Instant,
    spoke: Instant,
    /// Time since when jobs wait for memory or results wait for the host, or of the last log event about it.
    held_up: Option<Instant>,
}

impl<'a> Session<'a> {
    fn new(shared: &'a Arc<AgentState>, stream: Stream, memory: Arc<MemoryBudget>) -> Self {
        Self {
            shared,
            stream,
            memory,
            reader: Reader::new(Side::Agent),
            outbox: Outbox::default(),
            message: None,
            active: None,
            probing: None,
            incoming: None,
            waiting: None,
            deferred: None,
            drained: None,
            leaving: false,
            heard: Instant::now(),
            spoke: Instant::now(),
            held_up: None,
        }
    }

    fn run(mut self) {
        loop {
            match self.turn() {
                Ok(()) => {}
                Err(End::Over) => {
                    let (jobs, probing) = (self.jobs(), self.probing.is_some());
                    match jobs > 0 {
                        true => tracing::warn!(jobs, "host gone with jobs in flight"),
                        false => tracing::info!(probing, "host gone"),
                    }
                    break;
                }
                Err(End::Broken(reason)) => {
                    tracing::warn!(jobs = self.jobs(), reason, "connection given up");
                    self.outbox.control(&Reply::Lost(reason));
                    // Whether it can still be told or not, that was all.
                    let _ = self.send();
                    break;
                }
            }
        }
        // The context goes first: memory and threads are not to wait for a slow host.
        (self.active, self.probing) = (None, None);
        drain_and_close(&mut self.stream);
    }

    /// Does the work that is due, or waits if there is none.
    fn turn(&mut self) -> Result<(), End> {
        let mut moved = self.receive()?;
        if let Some(active) = &mut self.active {
            let lost = |lost: overside_device::Lost| End::Broken(lost.to_string());
            moved |= active.submit(&mut self.outbox).map_err(lost)?;
            moved |= active.complete(&mut self.outbox).map_err(lost)?;
        }
        if let Some(probing) = &mut self.probing {
            moved |= probing.answer(&mut self.outbox).map_err(End::Broken)?;
        }
        moved |= self.settle()?;
        if self.is_busy() && self.spoke.elapsed() >= HEARTBEAT_INTERVAL {
            self.spoke = Instant::now();
            self.outbox.pong(0);
        }
        moved |= self.send()?;
        if !moved && self.may_trim() {
            self.trim();
        }
        self.end()?;
        match moved {
            true => Ok(()),
            false => self.wait(),
        }
    }

    fn open(&mut self, name: &str, setup: Setup) -> Result<(), End> {
        self.is_free()?;
        let config = setup.config()?;
        let mut devices = self.shared.devices.iter();
        let opened = match devices.find(|device| device.info().name == name) {
            _ if self.drained.is_some() => Err(failed(name, "the agent is about to end")),
            None => Err(failed(name, "the agent does not offer it")),
            Some(device) => {
                let bytes = self.shared.settings.limits.bytes;
                OpenContext::open(device, config, bytes, &self.memory)
            }
        };
        let reply = match opened {
            Ok(active) => {
                let lifecycle = active.lifecycle();
                log_context("opened", name, &lifecycle);
                self.active = Some(active);
                Reply::Opened(Opened { lifecycle })
            }
            Err(error) => {
                tracing::warn!(device = clean(name, 256), %error, "context not opened");
                Reply::Refused(plain_error(&error))
            }
        };
        self.outbox.control(&reply);
        Ok(())
    }

    /// Begins to play one end of a test.
    fn probe(&mut self, kind: &str) -> Result<(), End> {
        self.is_free()?;
        let settings = &self.shared.settings;
        let mut kinds = settings.probes.iter();
        let begun = match kinds.find(|probe| probe.kind() == kind) {
            _ if self.drained.is_some() => Err("the agent is about to end".into()),
            _ if settings.probes.is_empty() => Err(
                "it plays no part in tests: it was started with --no-probes, or built without them"
                    .into(),
            ),
            None => Err(format!(
                "it knows no tests of the kind {:?}; a build of the agent that has them may be needed",
                clean(kind, 64)
            )),
            Some(probe) => self.begin(&**probe),
        };
        let reply = match begun {
            Ok(probing) => {
                tracing::debug!(kind = clean(kind, 64), "test begins");
                self.probing = Some(probing);
                Reply::Probing
            }
            Err(reason) => {
                tracing::warn!(kind = clean(kind, 64), reason, "test refused");
                Reply::Refused(OpeningError::Failed(reason))
            }
        };
        self.outbox.control(&reply);
        Ok(())
    }

    fn begin(&self, probe: &dyn Probe) -> Result<ProbeSession, String> {
        let permit = ProbePermit::take(self.shared)?;
        let [here, there] = (self.stream.addresses())
            .map_err(|error| format!("the connection has no address: {error}"))?;
        let cancelled = CancellationToken::default();
        ProbeSession::start(
            probe,
            Host { here, there, cancelled, memory: Arc::clone(&self.memory) },
            permit,
        )
    }

    /// The connection carries one thing at a time.
    fn is_free(&self) -> Result<(), End> {
        match (&self.active, &self.probing) {
            (None, None) => Ok(()),
            (Some(_), _) => Err(out_of_turn("a second context is asked for")),
            (None, Some(_)) => Err(out_of_turn("something else is asked for during a probe")),
        }
    }

    /// Does the work that had to wait for earlier jobs. Returns `true` if there was some.
    fn settle(&mut self) -> Result<bool, End> {
        // Answers that have not been sent have memory of the context that is to change.
        let open = self.active.is_some() || self.probing.is_some();
        if !open || self.is_busy() || !self.outbox.is_empty() {
            return Ok(false);
        }
        match self.deferred.take() {
            Some(Request::Reconfigure(setup)) => {
                let config = setup.config()?;
                let Some(active) = &mut self.active else {
                    return Ok(false);
                };
                let reply = match active.reconfigure(config) {
                    Ok(()) => {
                        let lifecycle = active.lifecycle();
                        log_context("reconfigured", active.device_name(), &lifecycle);
                        Reply::Opened(Opened { lifecycle })
                    }
                    Err(error) => {
                        tracing::warn!(%error, "context not reconfigured");
                        Reply::Refused(plain_error(&error))
                    }
                };
                self.outbox.control(&reply);
                Ok(true)
            }
            Some(Request::Close) => {
                if let Some(active) = self.active.take() {
                    let name = active.device_name().to_owned();
                    let (lifecycle, usage) = active.close();
                    log_context("closed", &name, &lifecycle);
                    self.outbox.usage(usage);
                    self.outbox.control(&Reply::Closed(lifecycle));
                } else {
                    self.probing = None;
                    let none = Lifecycle::default();
                    self.outbox.control(&Reply::Closed(none));
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Sends pending bytes. Returns `true` if any went out.
    fn send(&mut self) -> Result<bool, End> {
        let mut moved = false;
        while !self.outbox.is_empty() {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            let count = self.outbox.gather(&mut pieces);
            match self.stream.write(&pieces[..count]) {
                Ok(sent) => {
                    moved = true;
                    self.spoke = Instant::now();
                    let active = &mut self.active;
                    self.outbox.advance(sent, |region| {
                        if let Some(active) = active {
                            active.sent(region);
                        }
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(moved),
                Err(_) => return Err(End::Over),
            }
        }
        match self.stream.flush() {
            Ok(_) => Ok(moved),
            Err(_) => Err(End::Over),
        }
    }

    /// Returns an error if the connection must end: the agent stops or has drained, or the host
    /// stalls. Announces once to the host that the agent drains.
    fn end(&mut self) -> Result<(), End> {
        if self.shared.is_stopping() {
            return Err(End::Over);
        }
        let now = Instant::now();
        if self.is_stalled(now) {
            let limit = self.shared.settings.limits.stall;
            return Err(End::Broken(format!(
                "nothing came for {limit:?} in the middle of a job or a message"
            )));
        }
        if !self.shared.is_draining() {
            return Ok(());
        }
        let Some(since) = self.drained else {
            self.drained = Some(now);
            self.outbox.control(&Reply::Drain);
            self.send()?;
            return Ok(());
        };
        // A test is also running between two requests.
        let busy = self.is_busy()
            || self.probing.is_some()
            || self.incoming.is_some()
            || self.waiting.is_some();
        let unsent = !self.outbox.is_empty() || self.stream.wants_write();
        let heard = self.active.is_none() || self.leaving || now - since >= LEAVE_TIMEOUT;
        match heard && !busy && !unsent {
            true => Err(End::Over),
            false => Ok(()),
        }
    }

    fn jobs(&self) -> usize {
        self.active.as_ref().map_or(0, OpenContext::jobs)
    }

    fn is_busy(&self) -> bool {
        self.jobs() > 0 || self.probing.as_ref().is_some_and(ProbeSession::is_busy)
    }

    /// Returns `true` if the host has begun a message and does not continue it, though it could.
    fn is_stalled(&self, now: Instant) -> bool {
        let limit = self.shared.settings.limits.stall;
        let is_silent = self.is_in_the_middle() && self.reads() && now - self.heard >= limit;
        is_silent || self.waiting_since().is_some_and(|since| now - since >= limit)
    }

    /// Time since which a test waits for the rest of a message of the host. One that has only begun does not count.
    fn waiting_since(&self) -> Option<Instant> {
        self.probing.as_ref().and_then(ProbeSession::waiting)
    }

    fn is_in_the_middle(&self) -> bool {
        self.incoming.is_some() || self.reader.is_mid_frame()
    }

    /// Logs a wait for memory or for the host to read that exceeds its bound, at intervals.
    fn note_wait(&mut self, writes: bool) {
        let is_held_up = self.waiting.is_some() || writes;
        let now = Instant::now();
        let since = *self.held_up.get_or_insert(now);
        if !is_held_up {
            self.held_up = None;
        } else if now - since >= WAIT_NOTED {
            self.held_up = Some(now);
            tracing::debug!(
                jobs = self.jobs(),
                memory = self.waiting.is_some(),
                unread = writes,
                "held up: jobs wait for memory, or the host does not read"
            );
        }
    }

    /// Returns `true` if the host has not used the context for a while.
    fn may_trim(&self) -> bool {
        let last = self.heard.max(self.spoke);
        !self.is_busy() && self.outbox.is_empty() && last.elapsed() >= IDLE
    }

    fn trim(&mut self) {
        if let Some(active) = &mut self.active {
            active.trim();
        }
    }

    /// Waits until there may be something to do.
    fn wait(&mut self) -> Result<(), End> {
        let shared = self.shared;
        let reads = self.reads();
        let writes = !self.outbox.is_empty() || self.stream.wants_write();
        self.note_wait(writes);
        let jobs = self.is_busy();
        let mut timeout = None::<Duration>;
        let mut until = |limit: Duration| timeout = Some(timeout.map_or(limit, |t| t.min(limit)));
        if reads && self.is_in_the_middle() {
            until(shared.settings.limits.stall.saturating_sub(self.heard.elapsed()));
        }
        if let Some(since) = self.waiting_since() {
            until((shared.settings.limits.stall).saturating_sub(since.elapsed()));
        }
        if let Some(since) = self.drained
            && self.probing.is_none()
        {
            until(LEAVE_TIMEOUT.saturating_sub(since.elapsed()).max(POLL_INTERVAL));
        }
        let is_idle = !jobs && self.outbox.is_empty();
        if is_idle && self.active.as_ref().is_some_and(OpenContext::keeps_memory) {
            let last = self.heard.max(self.spoke);
            until(IDLE.saturating_sub(last.elapsed()).max(POLL_INTERVAL));
        }
        if self.waiting.is_some() {
            // It is for memory that another connection may give back.
            until(MEMORY_RETRY);
        }
        if jobs {
            until(HEARTBEAT_INTERVAL.saturating_sub(self.spoke.elapsed()));
        }
        let mut armed = false;
        if let Some(active) = &mut self.active
            && jobs
        {
            match active.arm() {
                None => until(active.pause()),
                Some(Ok(false)) => armed = true,
                // Completions are there, or polling says what was lost.
                Some(Ok(true) | Err(_)) => return Ok(()),
            }
        }
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, reads);
        flags.set(PollFlags::OUT, writes);
        let (socket, stop) = (self.stream.socket(), shared.stops());
        let mut set = Vec::with_capacity(5);
        set.push(PollFd::from_borrowed_fd(socket, flags));
        set.push(PollFd::from_borrowed_fd(stop, PollFlags::IN));
        if self.drained.is_none() {
            set.push(PollFd::from_borrowed_fd(shared.drains(), PollFlags::IN));
        }
        if let Some(event) = self.active.as_ref().and_then(OpenContext::event)
            && armed
        {
            set.push(PollFd::from_borrowed_fd(event, PollFlags::IN));
        }
        if let Some(probing) = &self.probing {
            set.push(PollFd::from_borrowed_fd(probing.woken(), PollFlags::IN));
        }
        let timeout: Option<Timespec> = timeout.and_then(|limit| limit.try_into().ok());
        match rustix::event::poll(&mut set, timeout.as_ref()) {
            Ok(_) => {
                // A host that is gone while nothing is read from it would be waited for busily.
                let gone = PollFlags::HUP | PollFlags::ERR;
                match set[0].revents().intersects(gone) {
                    true if !reads => Err(End::Over),
                    _ => Ok(()),
                }
            }
            Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(End::Broken(format!("the agent cannot wait: {error}"))),
        }
    }
}

fn log_context(action: &str, device: &str, lifecycle: &Lifecycle) {
    let Lifecycle { discovery_ns, init_ns, memory_ns, end_ns } = *lifecycle;
    tracing::debug!(device, discovery_ns, init_ns, memory_ns, end_ns, "context {action}");
}

fn out_of_turn(what: &str) -> End {
    Violation::OutOfTurn(what.into()).into()
}

fn failed(device: &str, reason: &str) -> OpenError {
    OpenError::Failed { device: clean(device, 256), reason: reason.into() }
}
