//! One connection, from the first byte to the last.

use std::io::{self, IoSlice};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::OpenError;
use overside_link::agent::{
    Item, JobHead, Opened, Outbox, Preamble, Reader, Reply, Request, Setup, Side, Stream,
    Violation, clean, plain_error,
};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::active::{Active, Intake};
use crate::server::{Place, Shared};

/// How often a device that tells nothing is looked at.
const LOOK: Duration = Duration::from_micros(20);
/// How long a host that does not say that it has heard may go on with jobs when the agent drains.
const LEAVE: Duration = Duration::from_secs(1);
/// How long a host may take to read the last answers.
const LINGER: Duration = Duration::from_secs(1);
/// From how much on the bytes of a job are read to where they belong, without a stop on the way.
const DIRECT: usize = 32 << 10;
/// How often a host whose jobs take long is told that they are not forgotten.
const BEAT: Duration = Duration::from_secs(1);
/// How much of a job is read before anything else gets a turn.
const TURN: usize = 1 << 20;
/// From how many unsent pieces on nothing is read: a host that sends and does not listen waits.
const UNSENT_MAX: usize = 16 << 10;
/// How many pieces are sent at once.
const PIECES: usize = 64;

/// How a connection ends.
enum End {
    /// The host has gone, or has been told all it will be.
    Over,
    /// Something is wrong, and the host is to be told.
    Broken(String),
}

impl From<Violation> for End {
    fn from(violation: Violation) -> Self {
        Self::Broken(violation.to_string())
    }
}

/// Lets a host in and serves it.
pub(crate) fn serve(shared: &Arc<Shared>, mut place: Place, socket: TcpStream, peer: SocketAddr) {
    match introduce(shared, &mut place, socket) {
        Ok(Some(stream)) => Session::new(shared, stream).run(),
        Ok(None) => {}
        Err(error) => shared.settings.tell(&format!("{peer} is refused: {error}")),
    }
}

/// Finds out who it is. `None`: it has been told that there is no place.
fn introduce(shared: &Shared, place: &mut Place, socket: TcpStream) -> io::Result<Option<Stream>> {
    let deadline = Instant::now() + shared.settings.limits.introduction;
    let mut stream = match &shared.settings.keys {
        Some(keys) => Stream::agent(socket, Arc::clone(keys))?,
        None => Stream::plain(socket)?,
    };
    stream.handshake(deadline)?;
    let mut preamble = [0; Preamble::BYTES];
    stream.read_all(&mut preamble, deadline)?;
    let agreed = Preamble::agree(&preamble);
    if !matches!(agreed, Err(Violation::Magic(_))) {
        stream.write_all(&Preamble::ours(), deadline)?;
    }
    if let Err(violation) = agreed {
        linger(&mut stream);
        return Err(io::Error::new(io::ErrorKind::InvalidData, violation));
    }
    let refusal = match (shared.is_draining(), place.introduced()) {
        (true, _) => "it is about to end",
        (false, false) => "it has all the connections that it takes",
        (false, true) => {
            stream.write_all(&shared.welcome, deadline)?;
            return Ok(Some(stream));
        }
    };
    stream.write_all(&Reply::Busy(refusal.into()).encode(), deadline)?;
    linger(&mut stream);
    Ok(None)
}

struct Session<'a> {
    shared: &'a Shared,
    stream: Stream,
    reader: Reader,
    outbox: Outbox,
    active: Option<Active>,
    /// A job that is coming in.
    intake: Option<Intake>,
    /// A job for which there is no memory yet.
    waiting: Option<(JobHead, usize)>,
    /// A request that waits for the jobs before it. Nothing behind it is read.
    deferred: Option<Request>,
    /// The host was told that the agent ends.
    drained: Option<Instant>,
    /// The host sends no more jobs.
    leaving: bool,
    /// When the last byte came, and when the last one went.
    heard: Instant,
    spoke: Instant,
}

impl<'a> Session<'a> {
    fn new(shared: &'a Shared, stream: Stream) -> Self {
        Self {
            shared,
            stream,
            reader: Reader::new(Side::Agent),
            outbox: Outbox::default(),
            active: None,
            intake: None,
            waiting: None,
            deferred: None,
            drained: None,
            leaving: false,
            heard: Instant::now(),
            spoke: Instant::now(),
        }
    }

    fn run(mut self) {
        loop {
            match self.turn() {
                Ok(()) => {}
                Err(End::Over) => break,
                Err(End::Broken(reason)) => {
                    self.outbox.message(Reply::Lost(reason).encode());
                    // Whether it can still be told or not, that was all.
                    let _ = self.send();
                    break;
                }
            }
        }
        // The context goes first: memory and threads are not to wait for a slow host.
        self.active = None;
        linger(&mut self.stream);
    }

    /// Does what there is to do; waits if there is nothing.
    fn turn(&mut self) -> Result<(), End> {
        let mut moved = self.receive()?;
        if let Some(active) = &mut self.active {
            let lost = |lost: overside_device::Lost| End::Broken(lost.to_string());
            moved |= active.submit(&mut self.outbox).map_err(lost)?;
            moved |= active.complete(&mut self.outbox).map_err(lost)?;
        }
        moved |= self.settle()?;
        if self.is_busy() && self.spoke.elapsed() >= BEAT {
            self.spoke = Instant::now();
            self.outbox.pong(0);
        }
        moved |= self.send()?;
        self.end()?;
        match moved {
            true => Ok(()),
            false => self.wait(),
        }
    }

    /// Takes what has come; whether anything has.
    fn receive(&mut self) -> Result<bool, End> {
        let (mut moved, mut budget) = (false, TURN);
        loop {
            if !self.admit()? {
                return Ok(moved);
            }
            if self.intake.is_some() {
                let before = budget;
                let whole = self.receive_body(&mut budget)?;
                moved |= whole || budget < before;
                if !whole {
                    return Ok(moved);
                }
                continue;
            }
            if !self.reads() {
                return Ok(moved);
            }
            match self.reader.item()? {
                Some(item) => {
                    moved = true;
                    self.take(item)?;
                }
                // What came is handed on before more is read.
                None if moved => return Ok(true),
                None if !self.fill()? => return Ok(false),
                None => {}
            }
        }
    }

    /// Whether anything further is taken from the host now.
    fn reads(&self) -> bool {
        let waiting = self.deferred.is_some() || self.waiting.is_some();
        !waiting && self.outbox.len() < UNSENT_MAX
    }

    /// Begins with a job that waits for memory; `false` if it has to wait on.
    fn admit(&mut self) -> Result<bool, End> {
        let (Some((head, len)), Some(active)) = (self.waiting, &mut self.active) else {
            return Ok(true);
        };
        if !active.admits(head, len) {
            return Ok(false);
        }
        self.waiting = None;
        self.intake = Some(active.begin(head, len).map_err(End::Broken)?);
        Ok(true)
    }

    /// Reads the source of the job that is coming in; whether all of it is there.
    fn receive_body(&mut self, budget: &mut usize) -> Result<bool, End> {
        while let Some(intake) = &mut self.intake {
            let here = self.reader.body(intake.room());
            intake.filled(here);
            let left = intake.room().len();
            if left == 0 {
                if let (Some(intake), Some(active)) = (self.intake.take(), &mut self.active) {
                    active.accept(intake);
                }
                return Ok(true);
            }
            if *budget == 0 {
                return Ok(false);
            }
            if left < DIRECT {
                if !self.fill()? {
                    return Ok(false);
                }
                continue;
            }
            match self.stream.read(intake.room()) {
                Ok(0) => return Err(End::Over),
                Ok(count) => {
                    self.reader.body_passed_by(count);
                    intake.filled(count);
                    *budget = budget.saturating_sub(count);
                    self.heard = Instant::now();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                // A host that is gone is not told anything.
                Err(_) => return Err(End::Over),
            }
        }
        Ok(true)
    }

    /// Reads once; whether anything was there.
    fn fill(&mut self) -> Result<bool, End> {
        match self.stream.read(self.reader.room()) {
            Ok(0) => Err(End::Over),
            Ok(count) => {
                self.reader.filled(count);
                self.heard = Instant::now();
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(_) => Err(End::Over),
        }
    }

    fn take(&mut self, item: Item) -> Result<(), End> {
        match item {
            Item::Job(head, len) => {
                let Some(active) = &self.active else {
                    return Err(out_of_turn("a job comes before a context is open"));
                };
                if self.leaving {
                    return Err(out_of_turn("a job comes after the last one"));
                }
                active.check(head, len)?;
                self.waiting = Some((head, len));
                Ok(())
            }
            Item::Ping(number) => {
                self.outbox.pong(number);
                Ok(())
            }
            Item::Control(json) => match Request::parse(&json)? {
                Request::Open { device, setup } => self.open(&device, setup),
                Request::Leave => {
                    self.leaving = true;
                    Ok(())
                }
                Request::Reconfigure(_) | Request::Close if self.active.is_none() => {
                    Err(out_of_turn("there is no context"))
                }
                request => {
                    self.deferred = Some(request);
                    Ok(())
                }
            },
            // The reader lets nothing else through on this side.
            Item::Answer(..) | Item::Usage(_) | Item::Pong(_) => Ok(()),
        }
    }

    fn open(&mut self, name: &str, setup: Setup) -> Result<(), End> {
        if self.active.is_some() {
            return Err(out_of_turn("a second context is asked for"));
        }
        let config = setup.config()?;
        let mut devices = self.shared.devices.iter();
        let opened = match devices.find(|device| device.info().name == name) {
            _ if self.drained.is_some() => Err(failed(name, "the agent is about to end")),
            None => Err(failed(name, "the agent does not offer it")),
            Some(device) => Active::open(device, config, self.shared.settings.limits.bytes),
        };
        let reply = match opened {
            Ok(active) => {
                let lifecycle = active.lifecycle();
                self.active = Some(active);
                Reply::Opened(Opened { lifecycle })
            }
            Err(error) => Reply::Refused(plain_error(&error)),
        };
        self.outbox.message(reply.encode());
        Ok(())
    }

    /// Does what had to wait for the jobs before it; whether anything was done.
    fn settle(&mut self) -> Result<bool, End> {
        // Answers that have not been sent have memory of the context that is to change.
        if self.active.is_none() || self.is_busy() || !self.outbox.is_empty() {
            return Ok(false);
        }
        match self.deferred.take() {
            Some(Request::Reconfigure(setup)) => {
                let config = setup.config()?;
                let Some(active) = &mut self.active else {
                    return Ok(false);
                };
                let reply = match active.reconfigure(config) {
                    Ok(()) => Reply::Opened(Opened {
                        lifecycle: active.lifecycle(),
                    }),
                    Err(error) => Reply::Refused(plain_error(&error)),
                };
                self.outbox.message(reply.encode());
                Ok(true)
            }
            Some(Request::Close) => {
                if let Some(active) = self.active.take() {
                    let (lifecycle, usage) = active.close();
                    self.outbox.usage(usage);
                    self.outbox.message(Reply::Closed(lifecycle).encode());
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Sends what there is; whether anything went out.
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

    /// Whether it is time to end.
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
            self.outbox.message(Reply::Drain.encode());
            self.send()?;
            return Ok(());
        };
        let busy = self.is_busy() || self.intake.is_some() || self.waiting.is_some();
        let unsent = !self.outbox.is_empty() || self.stream.wants_write();
        let heard = self.active.is_none() || self.leaving || now - since >= LEAVE;
        match heard && !busy && !unsent {
            true => Err(End::Over),
            false => Ok(()),
        }
    }

    fn is_busy(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.jobs() > 0)
    }

    /// The host has begun with something and does not go on with it, though it could.
    fn is_stalled(&self, now: Instant) -> bool {
        self.is_in_the_middle()
            && self.reads()
            && now - self.heard >= self.shared.settings.limits.stall
    }

    fn is_in_the_middle(&self) -> bool {
        self.intake.is_some() || self.reader.is_mid_frame()
    }

    /// Waits until there may be something to do.
    fn wait(&mut self) -> Result<(), End> {
        let shared = self.shared;
        let reads = self.reads();
        let writes = !self.outbox.is_empty() || self.stream.wants_write();
        let jobs = self.is_busy();
        let mut timeout = None::<Duration>;
        let mut until = |limit: Duration| timeout = Some(timeout.map_or(limit, |t| t.min(limit)));
        if reads && self.is_in_the_middle() {
            until(
                shared
                    .settings
                    .limits
                    .stall
                    .saturating_sub(self.heard.elapsed()),
            );
        }
        if let Some(since) = self.drained {
            until(LEAVE.saturating_sub(since.elapsed()).max(LOOK));
        }
        if jobs {
            until(BEAT.saturating_sub(self.spoke.elapsed()));
        }
        let mut armed = false;
        if let Some(active) = &mut self.active
            && jobs
        {
            match active.arm() {
                None => until(LOOK),
                Some(Ok(false)) => armed = true,
                // Completions are there, or polling says what was lost.
                Some(Ok(true) | Err(_)) => return Ok(()),
            }
        }
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, reads);
        flags.set(PollFlags::OUT, writes);
        let (socket, stop) = (self.stream.socket(), shared.stops());
        let mut set = Vec::with_capacity(4);
        set.push(PollFd::from_borrowed_fd(socket, flags));
        set.push(PollFd::from_borrowed_fd(stop, PollFlags::IN));
        if self.drained.is_none() {
            set.push(PollFd::from_borrowed_fd(shared.drains(), PollFlags::IN));
        }
        if let Some(event) = self.active.as_ref().and_then(Active::event)
            && armed
        {
            set.push(PollFd::from_borrowed_fd(event, PollFlags::IN));
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

fn out_of_turn(what: &str) -> End {
    Violation::OutOfTurn(what.into()).into()
}

fn failed(device: &str, reason: &str) -> OpenError {
    OpenError::Failed {
        device: clean(device, 256),
        reason: reason.into(),
    }
}

/// Closes a connection so that what was sent arrives: bytes that come in and are not read would
/// make the system throw it away.
fn linger(stream: &mut Stream) {
    stream.end();
    let deadline = Instant::now() + LINGER;
    let mut rest = [0; 4096];
    loop {
        match stream.read(&mut rest) {
            Ok(0) => return,
            Ok(_) if Instant::now() < deadline => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let waited = overside_link::agent::readable_or_writable(
                    stream.socket(),
                    true,
                    false,
                    deadline,
                );
                if !matches!(waited, Ok(true)) {
                    return;
                }
            }
            Ok(_) | Err(_) => return,
        }
    }
}
