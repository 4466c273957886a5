//! A context: a connection, and the jobs on it.

mod jobs;
mod traffic;

use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::threads::{Event, Limits, Timer};
use overside_device::{
    Applied, Closed, Completion, Context, ContextConfig, CpuTime, Deadlines, Job, Lifecycle, Lost,
    OpenError, SubmitError,
};
use overside_link::agent::{Offer, Opened, Reply, Request, Setup, Usage, Welcome, typed_error};
use slab::Slab;

use crate::DeviceState;
use crate::connection::Connection;
use crate::incoming::Incoming;
use jobs::Slot;

pub(crate) struct RemoteContext {
    shared: Arc<DeviceState>,
    /// `None` once it is lost.
    connection: Option<Connection>,
    /// Reason why the connection was lost; empty before that.
    lost: String,
    limits: Limits,
    slots: Slab<Slot>,
    running: usize,
    /// Completions that the next poll returns.
    ready: VecDeque<Completion>,
    incoming: Option<Incoming>,
    applied: Arc<Applied>,
    /// `true` if the agent has sent `applied`.
    told: bool,
    /// The agent takes no more jobs.
    draining: bool,
    deadlines: Deadlines,
    event: Event,
    timer: Timer,
    /// `true` while the event watches the socket for room to write, in addition to bytes to read.
    watches_room: bool,
    lifecycle: Lifecycle,
    cpu_time: CpuTime,
}

impl RemoteContext {
    pub(crate) fn open(
        shared: &Arc<DeviceState>,
        config: ContextConfig,
    ) -> Result<Self, OpenError> {
        let name = &shared.info.name;
        let capability = shared.capabilities.check(name, &config)?;
        let failed = |reason: String| OpenError::Failed { device: name.clone(), reason };
        let request =
            Request::Open { device: shared.offer.info.name.clone(), setup: Setup::from(&config) };
        let mut discovery = Duration::ZERO;
        let mut connect = || {
            let begin = Instant::now();
            let (connection, welcome) = shared.dialer.connection().map_err(failed)?;
            discovery += begin.elapsed();
            if let Some(welcome) = &welcome {
                check_same(&shared.offer, welcome).map_err(failed)?;
            }
            Ok::<_, OpenError>((connection, welcome.is_some()))
        };
        let ask = |connection: &mut Connection| {
            connection.usage = Usage::default();
            connection.request(&request);
            connection.reply(Instant::now() + shared.dialer.timeouts.open)
        };
        let (mut connection, is_new) = connect()?;
        let begin = Instant::now();
        let mut reply = ask(&mut connection);
        if reply.is_err() && !is_new {
            // A connection that was kept may have ended meanwhile.
            (connection, _) = connect()?;
            reply = ask(&mut connection);
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
        event.watch(connection.stream.socket(), false).map_err(system)?;
        Ok(Self {
            limits: Limits::new(shared.id, capability, &config),
            slots: Slab::with_capacity(config.depth),
            running: 0,
            ready: VecDeque::new(),
            incoming: None,
            applied: Arc::new(Applied::nothing(&shared.info, &config.operation.variant)),
            told: false,
            draining: false,
            deadlines: Deadlines::default(),
            event,
            timer: Timer::default(),
            watches_room: false,
            lifecycle,
            cpu_time: CpuTime::default(),
            connection: Some(connection),
            lost: String::new(),
            shared: Arc::clone(shared),
        })
    }

    /// Jobs that are neither returned nor ready to be.
    fn tags(&self) -> Vec<u64> {
        let tag = |slot: &Slot| match slot {
            Slot::Running { job, .. } => Some(job.tag),
            Slot::Withdrawn => None,
        };
        (self.slots.iter().filter_map(|(_, slot)| tag(slot))).collect()
    }

    fn lost(&self) -> Lost {
        Lost { device: self.shared.info.name.clone(), reason: self.lost.clone(), tags: self.tags() }
    }

    /// Marks the connection as lost.
    fn lose(&mut self, reason: String) {
        let (device, jobs) = (&self.shared.info.name, self.running);
        match jobs > 0 || !self.draining {
            true => tracing::warn!(device, jobs, reason, "connection to the agent lost"),
            false => tracing::info!(device, reason, "connection to the agent ended"),
        }
        self.lost = reason;
        self.connection = None;
        // Wakes waiting callers, so that they see the error.
        self.event.signal();
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
        let timeouts = self.shared.dialer.timeouts;
        let beat = connection.next_beat(timeouts.ask, timeouts.silence);
        let until = self.deadlines.next().map_or(beat, |at| at.min(beat));
        let room = connection.wants_write();
        let mut watched = self.timer.follow(Some(until), &self.event);
        if watched.is_ok() && room != self.watches_room {
            watched = self.event.watch(connection.stream.socket(), room);
            self.watches_room = room;
        }
        // Without descriptors for waiting, polling goes on.
        Ok(watched.is_err())
    }

    fn put_off(&mut self, until: Instant) {
        for (_, slot) in &mut self.slots {
            if let Some(deadline) = slot.job().and_then(|job| job.deadline.as_mut()) {
                *deadline = until.max(*deadline);
            }
        }
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
        let capability = self.shared.capabilities.check(&name, &config)?;
        let limits = Limits::new(self.shared.id, capability, &config);
        let failed = |reason: String| OpenError::Failed { device: name.clone(), reason };
        if self.draining {
            return Err(failed("its agent ends".into()));
        }
        let begin = Instant::now();
        let deadline = begin + self.shared.dialer.timeouts.open;
        let request = Request::Reconfigure(Setup::from(&config));
        match self.ask(&request, deadline).map_err(failed)? {
            Reply::Opened(Opened { lifecycle: there }) => {
                self.lifecycle = Lifecycle {
                    end_ns: there.end_ns,
                    ..lifecycle(there, begin.elapsed(), Duration::ZERO)
                };
                self.limits = limits;
                let variant = &config.operation.variant;
                self.applied = Arc::new(Applied::nothing(&self.shared.info, variant));
                self.told = false;
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
        Closed { completions, abandoned, lifecycle, cpu_time: self.cpu_time }
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

/// Times of a context: the agent's own, and the host's waits for connection and opening.
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
