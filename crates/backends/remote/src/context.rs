//! A context: a connection, and the jobs on it.

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::threads::{Event, Limits, Timer};
use overside_device::{
    Applied, Closed, Completion, Context, ContextConfig, CpuTime, Job, JobError, Lifecycle, Lost,
    MemoryKind, OpenError, Source, Stages, SubmitError,
};
use overside_link::agent::{
    Item, JobHead, Offer, Opened, Reply, Request, Setup, Usage, Violation, Welcome,
    readable_or_writable, typed_error,
};

use crate::capabilities::MAX_SEGMENTS;
use crate::connection::{Broken, Connection};
use crate::incoming::Incoming;
use crate::{Shared, driver};

/// How much is taken from an agent before anything else gets a turn, in items and reads.
const TURN: usize = 1 << 14;

/// Where a job is.
enum Slot {
    Free,
    /// With the agent, or on its way there or back.
    Running {
        job: Job,
        submitted: Instant,
    },
    /// Given up and returned; its answer is still to come.
    Withdrawn,
}

impl Slot {
    fn job(&mut self) -> Option<&mut Job> {
        match self {
            Self::Running { job, .. } => Some(job),
            Self::Free | Self::Withdrawn => None,
        }
    }
}

pub(crate) struct RemoteContext {
    shared: Arc<Shared>,
    /// `None` once it is lost.
    connection: Option<Connection>,
    /// Why it is.
    lost: String,
    config: ContextConfig,
    limits: Limits,
    slots: Vec<Slot>,
    free: Vec<u32>,
    running: usize,
    /// Completions to be polled for.
    ready: VecDeque<Completion>,
    incoming: Option<Incoming>,
    applied: Arc<Applied>,
    /// The agent has said what `applied` is.
    told: bool,
    /// The agent takes no more jobs.
    draining: bool,
    /// Not later than the earliest deadline of what runs.
    earliest: Option<Instant>,
    event: Event,
    timer: Timer,
    /// What the event watches the socket for beside bytes: room for some.
    watches_room: bool,
    lifecycle: Lifecycle,
    cpu_time: CpuTime,
}

impl RemoteContext {
    pub(crate) fn open(shared: &Arc<Shared>, config: ContextConfig) -> Result<Self, OpenError> {
        let name = &shared.info.name;
        shared.capabilities.check(name, &config)?;
        let failed = |reason: String| OpenError::Failed {
            device: name.clone(),
            reason,
        };
        let request = Request::Open {
            device: shared.offer.info.name.clone(),
            setup: Setup::from(&config),
        };
        let begin = Instant::now();
        let (mut connection, welcome) = shared.dialer.connection().map_err(failed)?;
        let mut discovery = begin.elapsed();
        let known = welcome.is_some();
        if let Some(welcome) = welcome {
            check_same(&shared.offer, &welcome).map_err(failed)?;
        }
        let begin = Instant::now();
        let patience = shared.dialer.patience;
        connection.usage = Usage::default();
        connection.request(&request);
        let mut reply = connection.reply(Instant::now() + patience.open);
        if reply.is_err() && !known {
            // A connection that was kept may have ended meanwhile.
            let begin = Instant::now();
            let (fresh, welcome) = shared.dialer.connection().map_err(failed)?;
            connection = fresh;
            discovery += begin.elapsed();
            if let Some(welcome) = welcome {
                check_same(&shared.offer, &welcome).map_err(failed)?;
            }
            connection.request(&request);
            reply = connection.reply(Instant::now() + patience.open);
        }
        let there = match reply.map_err(|broken| failed(broken.to_string()))? {
            Reply::Opened(Opened { lifecycle }) => lifecycle,
            Reply::Refused(error) => {
                shared.dialer.keep(connection);
                return Err(typed_error(name, &config, error));
            }
            Reply::Lost(reason) => return Err(failed(reason)),
            Reply::Drain => return Err(failed("the agent is about to end".into())),
            _ => return Err(failed("the agent answers something else".into())),
        };
        let lifecycle = lifecycle(there, begin.elapsed(), discovery);
        let system = |error: rustix::io::Errno| failed(error.to_string());
        let event = Event::new().map_err(system)?;
        event
            .watch(connection.stream.socket(), false)
            .map_err(system)?;
        Ok(Self {
            limits: limits(shared, &config),
            slots: slots(config.depth),
            free: (0..config.depth as u32).rev().collect(),
            running: 0,
            ready: VecDeque::new(),
            incoming: None,
            applied: Arc::new(nothing_ran(shared, &config)),
            told: false,
            draining: false,
            earliest: None,
            event,
            timer: Timer::default(),
            watches_room: false,
            lifecycle,
            cpu_time: CpuTime::default(),
            config,
            connection: Some(connection),
            lost: String::new(),
            shared: Arc::clone(shared),
        })
    }

    /// Jobs that are neither returned nor ready to be.
    fn tags(&self) -> Vec<u64> {
        let tag = |slot: &Slot| match slot {
            Slot::Running { job, .. } => Some(job.tag),
            Slot::Free | Slot::Withdrawn => None,
        };
        self.slots.iter().filter_map(tag).collect()
    }

    fn lost(&self) -> Lost {
        Lost {
            device: self.shared.info.name.clone(),
            reason: self.lost.clone(),
            tags: self.tags(),
        }
    }

    /// Gives the connection up.
    fn lose(&mut self, reason: String) {
        self.lost = reason;
        self.connection = None;
        // Whoever waits is to find out.
        self.event.signal();
    }

    /// Sends and receives what goes without waiting. `all`: nothing that has come is left behind,
    /// so that the socket tells when there is more; whether that was so.
    fn progress(&mut self, all: bool) -> bool {
        self.try_progress(all).unwrap_or_else(|broken| {
            self.lose(broken.to_string());
            true
        })
    }

    fn try_progress(&mut self, all: bool) -> Result<bool, Broken> {
        let Some(connection) = &mut self.connection else {
            return Ok(true);
        };
        connection.send()?;
        let was_all = self.receive(all)?;
        if let Some(connection) = &mut self.connection {
            let patience = self.shared.dialer.patience;
            connection.beat(Instant::now(), patience.ask, patience.silence)?;
        }
        Ok(was_all)
    }

    fn receive(&mut self, all: bool) -> Result<bool, Broken> {
        for _ in 0..TURN {
            let Some(connection) = &mut self.connection else {
                return Ok(true);
            };
            if let Some(incoming) = &mut self.incoming {
                let slot = &mut self.slots[incoming.head.slot as usize];
                if !incoming.receive(connection, slot.job())? {
                    return Ok(true);
                }
                self.complete();
                continue;
            }
            match connection.reader.item()? {
                Some(item) => self.take(item)?,
                None => {
                    let room = connection.reader.room().len();
                    let count = connection.fill()?;
                    // Less than there was room for: that was all, most likely.
                    if count == 0 || (count < room && !all && !self.ready.is_empty()) {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    fn take(&mut self, item: Item) -> Result<(), Broken> {
        match item {
            Item::Answer(head, len) => {
                let slot = self.slots.get(head.slot as usize);
                if !self.told || matches!(slot, None | Some(Slot::Free)) {
                    let what = format!("an answer to job {}, which there is not", head.slot);
                    return Err(Violation::OutOfTurn(what).into());
                }
                self.incoming = Some(Incoming::new(head, len));
            }
            Item::Usage(usage) => {
                self.cpu_time = CpuTime {
                    host_ns: 0,
                    dpu_ns: usage.dpu_ns,
                    emulator_ns: usage.emulator_ns,
                };
            }
            Item::Control(json) => match Reply::parse(&json)? {
                Reply::Applied(there) => {
                    let info = &self.shared.info;
                    self.told = true;
                    self.applied = Arc::new(Applied {
                        device: info.name.clone(),
                        driver: info.driver.clone(),
                        provenance: info.provenance.max(there.provenance),
                        ..there
                    });
                }
                Reply::Lost(reason) => self.lose(format!("its agent says: {reason}")),
                Reply::Drain => {
                    self.draining = true;
                    if let Some(connection) = &mut self.connection {
                        connection.request(&Request::Leave);
                        connection.send()?;
                    }
                }
                _ => {
                    let what = "a message comes that nothing asked for";
                    return Err(Violation::OutOfTurn(what.into()).into());
                }
            },
            Item::Probe(_) => {
                let what = "an answer of a probe comes, and there is none".into();
                return Err(Violation::OutOfTurn(what).into());
            }
            Item::Pong(_) | Item::Ping(_) | Item::Job(..) => {}
        }
        Ok(())
    }

    /// An answer is there as a whole.
    fn complete(&mut self) {
        let Some(incoming) = self.incoming.take() else {
            return;
        };
        let number = incoming.head.slot;
        let slot = std::mem::replace(&mut self.slots[number as usize], Slot::Free);
        self.free.push(number);
        let Slot::Running { job, submitted } = slot else {
            return;
        };
        self.running -= 1;
        let now = Instant::now();
        let result = match job.deadline {
            Some(deadline) if now >= deadline => Err(JobError::DeadlineExceeded),
            _ => incoming.result(job.destination.len()),
        };
        let round_ns = (now - submitted).as_nanos() as u64;
        let stages = Stages {
            transfer_ns: Some(round_ns.saturating_sub(incoming.head.held_ns)),
            ..incoming.head.stages
        };
        self.ready
            .push_back(completion(job, result, stages, &self.applied));
    }

    /// Gives up on what is past its deadline. The agent may go on with it; nobody will see that.
    fn expire(&mut self) {
        if self.earliest.is_none_or(|at| Instant::now() < at) {
            return;
        }
        let (now, mut earliest) = (Instant::now(), None::<Instant>);
        for slot in &mut self.slots {
            let Some(deadline) = slot.job().and_then(|job| job.deadline) else {
                continue;
            };
            if deadline > now {
                earliest = Some(earliest.map_or(deadline, |at| at.min(deadline)));
                continue;
            }
            if let Slot::Running { job, .. } = std::mem::replace(slot, Slot::Withdrawn) {
                self.running -= 1;
                self.ready.push_back(late(job, &self.applied));
            }
        }
        self.earliest = earliest;
    }

    fn try_submit(&mut self, jobs: &mut VecDeque<Job>) -> Result<usize, SubmitError> {
        let submitted = Instant::now();
        let mut taken = 0;
        while let Some(job) = jobs.front() {
            if let Err(refusal) = self.limits.check(job) {
                let tag = job.tag;
                match taken {
                    0 => return Err(SubmitError::Refused { tag, refusal }),
                    _ => break,
                }
            }
            let Some(connection) = &mut self.connection else {
                break;
            };
            if self.running + self.ready.len() >= self.config.depth {
                break;
            }
            if job.deadline.is_some_and(|deadline| deadline <= submitted) {
                let Some(job) = jobs.pop_front() else { break };
                self.ready.push_back(late(job, &self.applied));
                taken += 1;
                continue;
            }
            let Some(number) = self.free.pop() else { break };
            let Some(job) = jobs.pop_front() else { break };
            let head = JobHead {
                slot: number,
                capacity: job.destination.len(),
            };
            connection.outbox.job(head, &job.source);
            if let Some(deadline) = job.deadline {
                self.earliest = Some(self.earliest.map_or(deadline, |at| at.min(deadline)));
            }
            self.slots[number as usize] = Slot::Running { job, submitted };
            self.running += 1;
            taken += 1;
        }
        Ok(taken)
    }

    /// Waits for the agent's reply to a request; jobs that were given up are answered first.
    fn ask(&mut self, request: &Request, deadline: Instant) -> Result<Reply, String> {
        while self.free.len() < self.slots.len() && self.connection.is_some() {
            self.progress(true);
            self.wait(deadline).map_err(|broken| broken.to_string())?;
        }
        let Some(connection) = &mut self.connection else {
            return Err(self.lost.clone());
        };
        connection.request(request);
        let replied = loop {
            match connection.reply(deadline) {
                // It still does what it was asked for.
                Ok(Reply::Drain) => self.draining = true,
                other => break other,
            }
        };
        let usage = connection.usage;
        if usage != Usage::default() {
            self.cpu_time.dpu_ns = usage.dpu_ns.max(self.cpu_time.dpu_ns);
            self.cpu_time.emulator_ns = usage.emulator_ns.max(self.cpu_time.emulator_ns);
        }
        match replied {
            Ok(Reply::Lost(reason)) => {
                self.lose(format!("its agent says: {reason}"));
                Err(self.lost.clone())
            }
            Ok(reply) => Ok(reply),
            Err(broken) => {
                self.lose(broken.to_string());
                Err(self.lost.clone())
            }
        }
    }

    /// Waits for bytes, or room for some, or until nothing can be expected; not beyond `deadline`.
    fn wait(&mut self, deadline: Instant) -> Result<(), Broken> {
        let patience = self.shared.dialer.patience;
        let Some(connection) = &self.connection else {
            return Ok(());
        };
        if Instant::now() >= deadline {
            return Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
        }
        let beat = connection.next_beat(patience.ask, patience.silence);
        let until = [Some(deadline), Some(beat), self.earliest];
        let until = until.into_iter().flatten().min().unwrap_or(deadline);
        let socket = connection.stream.socket();
        readable_or_writable(socket, true, connection.wants_write(), until)?;
        Ok(())
    }
}

impl Context for RemoteContext {
    fn submit(&mut self, jobs: &mut VecDeque<Job>) -> Result<usize, SubmitError> {
        if self.draining && self.running == 0 && self.connection.is_some() {
            self.lose("its agent ends".into());
        }
        if self.connection.is_none() {
            return Err(self.lost().into());
        }
        if self.draining {
            return Ok(0);
        }
        let taken = self.try_submit(jobs)?;
        if taken > 0
            && let Some(connection) = &mut self.connection
            && let Err(broken) = connection.send()
        {
            // The jobs were taken: polling says what became of them.
            self.lose(broken.to_string());
        }
        Ok(taken)
    }

    fn poll(&mut self, out: &mut Vec<Completion>, max: usize) -> Result<usize, Lost> {
        if self.ready.len() < max {
            self.progress(false);
        }
        self.expire();
        let count = max.min(self.ready.len());
        out.extend(self.ready.drain(..count));
        match count == 0 && max > 0 && self.connection.is_none() {
            true => Err(self.lost()),
            false => Ok(count),
        }
    }

    fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.event.descriptor())
    }

    fn arm(&mut self) -> Result<bool, Lost> {
        let was_all = self.progress(true);
        self.expire();
        if !self.ready.is_empty() || !was_all {
            return Ok(true);
        }
        let Some(connection) = &self.connection else {
            return Err(self.lost());
        };
        let patience = self.shared.dialer.patience;
        let beat = connection.next_beat(patience.ask, patience.silence);
        let until = self.earliest.map_or(beat, |at| at.min(beat));
        let room = connection.wants_write();
        let mut watched = self.timer.follow(Some(until), &self.event);
        if watched.is_ok() && room != self.watches_room {
            watched = self.event.watch(connection.stream.socket(), room);
            self.watches_room = room;
        }
        // Without descriptors for waiting, polling goes on.
        Ok(watched.is_err())
    }

    fn in_flight(&self) -> usize {
        self.running + self.ready.len()
    }

    fn quarantined(&self) -> usize {
        0
    }

    fn reconfigure(&mut self, config: ContextConfig) -> Result<(), OpenError> {
        let in_flight = self.in_flight();
        if in_flight > 0 {
            return Err(OpenError::InFlight(in_flight));
        }
        let name = self.shared.info.name.clone();
        self.shared.capabilities.check(&name, &config)?;
        let failed = |reason: String| OpenError::Failed {
            device: name.clone(),
            reason,
        };
        if self.draining {
            return Err(failed("its agent ends".into()));
        }
        let begin = Instant::now();
        let deadline = begin + self.shared.dialer.patience.open;
        let request = Request::Reconfigure(Setup::from(&config));
        match self.ask(&request, deadline).map_err(failed)? {
            Reply::Opened(Opened { lifecycle: there }) => {
                self.lifecycle = Lifecycle {
                    end_ns: there.end_ns,
                    ..lifecycle(there, begin.elapsed(), Duration::ZERO)
                };
                self.limits = limits(&self.shared, &config);
                self.slots = slots(config.depth);
                self.free = (0..config.depth as u32).rev().collect();
                self.applied = Arc::new(nothing_ran(&self.shared, &config));
                self.told = false;
                self.config = config;
                Ok(())
            }
            Reply::Refused(error) => Err(typed_error(&name, &config, error)),
            _ => {
                self.lose("the agent answers something else".into());
                Err(failed(self.lost.clone()))
            }
        }
    }

    fn lifecycle(&self) -> Lifecycle {
        self.lifecycle
    }

    fn cpu_time(&self) -> CpuTime {
        self.cpu_time
    }

    fn close(mut self: Box<Self>, deadline: Instant) -> Closed {
        let mut completions = Vec::new();
        loop {
            self.progress(true);
            self.expire();
            completions.extend(self.ready.drain(..));
            if self.running == 0 || self.connection.is_none() || self.wait(deadline).is_err() {
                break;
            }
        }
        let abandoned = self.tags();
        let end = Instant::now();
        let mut lifecycle = self.lifecycle;
        // Where jobs are left, the agent finds the connection closed and cleans up.
        if abandoned.is_empty()
            && end < deadline
            && let Ok(Reply::Closed(_)) = self.ask(&Request::Close, deadline)
            && !self.draining
            && let Some(connection) = self.connection.take()
        {
            self.shared.dialer.keep(connection);
        }
        lifecycle.end_ns = Some(end.elapsed().as_nanos() as u64);
        Closed {
            completions,
            abandoned,
            lifecycle,
            cpu_time: self.cpu_time,
        }
    }
}

/// A new connection leads to the device that was there before.
fn check_same(before: &Offer, now: &Welcome) -> Result<(), String> {
    let name = &before.info.name;
    match now.devices.iter().find(|offer| offer.info.name == *name) {
        Some(offer) if offer == before => Ok(()),
        Some(_) => Err("the agent was exchanged for another one: open the device again".into()),
        None => Err(format!("the agent does not offer {name} any more")),
    }
}

fn limits(shared: &Shared, config: &ContextConfig) -> Limits {
    Limits {
        device: shared.id,
        memory: MemoryKind::Any,
        depth: config.depth,
        max_source_bytes: config.max_source_bytes,
        max_destination_bytes: config.max_destination_bytes,
        max_segments: MAX_SEGMENTS,
        gather: false,
    }
}

fn slots(depth: usize) -> Vec<Slot> {
    (0..depth).map(|_| Slot::Free).collect()
}

/// What jobs that never reached an engine are filed under.
fn nothing_ran(shared: &Shared, config: &ContextConfig) -> Applied {
    let info = &shared.info;
    Applied {
        device: info.name.clone(),
        driver: driver(&shared.offer.info.driver, "unknown"),
        variant: config.operation.variant.clone(),
        library: "no job has run".into(),
        provenance: info.provenance,
    }
}

/// The times of a context: the agent's for what is its own, and what the host waited for besides.
fn lifecycle(there: Lifecycle, opening: Duration, connecting: Duration) -> Lifecycle {
    let ns = |time: Duration| time.as_nanos() as u64;
    let memory_ns = there.memory_ns;
    Lifecycle {
        discovery_ns: Some(ns(connecting) + there.discovery_ns.unwrap_or(0)),
        init_ns: Some(ns(opening).saturating_sub(memory_ns.unwrap_or(0))),
        memory_ns,
        end_ns: None,
    }
}

fn late(job: Job, applied: &Arc<Applied>) -> Completion {
    let result = Err(JobError::DeadlineExceeded);
    completion(job, result, Stages::default(), applied)
}

fn completion(
    job: Job,
    result: Result<overside_device::Outcome, JobError>,
    stages: Stages,
    applied: &Arc<Applied>,
) -> Completion {
    let source: Source = job.source;
    Completion {
        tag: job.tag,
        result,
        source,
        destination: Some(job.destination),
        stages,
        applied: Arc::clone(applied),
    }
}
