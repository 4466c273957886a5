//! Time limit for each job of a device.
//!
//! 1. A job without a deadline gets one when it is first submitted. By the contract, the device completes
//!    it as late by then.
//! 2. A device may break the contract. So if nothing has been returned for longer than 1.25 times the
//!    limit, although jobs are in flight or submitted, the context is lost, and [`is_silence`] recognizes
//!    this reason.
//! 3. Time in which the caller does not call is not the device's fault: a caller that reads from a slow
//!    pipe may be away for minutes, and some devices make progress only while they are called. After more
//!    than a quarter of the limit between two calls, all jobs in flight or submitted get the whole limit
//!    again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use overside_device::{
    Clock, Completion, Context, ContextConfig, Device, Job, Lost, OpenError, SubmitError,
};

use crate::{ContextLayer, DeviceLayer, Layered, LayeredContext};

/// Maximum of the limit: longer than any job takes, short enough to be added to a time.
const LIMIT_MAX: Duration = Duration::from_secs(1 << 30);
/// Delay that is allowed, in addition to a quarter of the limit, between a job's deadline and its
/// return.
const GRACE: Duration = Duration::from_millis(20);
/// Reason in the [`Lost`] error of a silent device. [`is_silence`] compares with it.
const SILENT: &str = "it does not answer";

/// Returns `true` if a [`TimeLimit`] gave up the device because it kept jobs beyond their time and
/// returned nothing.
pub fn is_silence(lost: &Lost) -> bool {
    lost.reason == SILENT
}

/// A device whose jobs have a time limit.
pub struct TimeLimit {
    inner: Arc<dyn Device>,
    limit: Duration,
    clock: Clock,
}

impl TimeLimit {
    /// `inner` with a time limit for each job, from when it is offered.
    pub fn around(inner: Arc<dyn Device>, limit: Duration) -> Arc<dyn Device> {
        Self::on_clock(inner, limit, Clock::default())
    }

    /// Variant of `around` by the clock that the device follows.
    pub fn on_clock(inner: Arc<dyn Device>, limit: Duration, clock: Clock) -> Arc<dyn Device> {
        let limit = limit.min(LIMIT_MAX);
        Arc::new(Layered(Self { inner, limit, clock }))
    }
}

impl DeviceLayer for TimeLimit {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn open(&self, config: ContextConfig) -> Result<Box<dyn Context>, OpenError> {
        let layer = LimitedContext {
            limit: self.limit,
            device: self.inner.info().name.clone(),
            tags: VecDeque::new(),
            waiting_since: None,
            looked: self.clock.now(),
            not_before: self.clock.now(),
            clock: self.clock.clone(),
        };
        Ok(LayeredContext::around(self.inner.open(config)?, layer))
    }
}

struct LimitedContext {
    device: String,
    clock: Clock,
    limit: Duration,
    /// Tags of the jobs in flight, in order of submission. Jobs mostly complete in this order.
    tags: VecDeque<u64>,
    /// Time from which the device's silence is measured: its last completion, or the first job
    /// offered while it was idle. `None` if no job is in flight or offered.
    waiting_since: Option<Instant>,
    /// Time at which the caller last polled or armed the context, or submitted to an idle one.
    looked: Instant,
    /// No job is given up before this: the caller had been away.
    not_before: Instant,
}

impl LimitedContext {
    /// Notes that the caller polls: if it was away, jobs that it has not seen get the whole limit again.
    fn look(&mut self, inner: &mut dyn Context, now: Instant) {
        let away = now.saturating_duration_since(self.looked);
        self.looked = now;
        if away > self.limit / 4 + GRACE {
            self.not_before = now + self.limit;
            self.waiting_since = self.waiting_since.map(|_| now);
            inner.put_off(self.not_before);
        }
    }

    /// Fails if the device has been silent for too long.
    fn check(&self, now: Instant) -> Result<(), Lost> {
        let silence = self.limit + self.limit / 4 + GRACE;
        match self.waiting_since {
            Some(since) if now.saturating_duration_since(since) >= silence => Err(Lost {
                device: self.device.clone(),
                reason: SILENT.into(),
                tags: self.tags.iter().copied().collect(),
            }),
            _ => Ok(()),
        }
    }
}

impl ContextLayer for LimitedContext {
    fn submit(
        &mut self,
        inner: &mut dyn Context,
        jobs: &mut VecDeque<Job>,
    ) -> Result<usize, SubmitError> {
        let now = self.clock.now();
        let is_first_offer = jobs.front().is_some_and(|job| job.deadline.is_none());
        if self.tags.is_empty() {
            self.look(inner, now);
        }
        for job in jobs.iter_mut() {
            let deadline = job.deadline.unwrap_or(now + self.limit);
            job.deadline = Some(deadline.max(self.not_before));
        }
        if is_first_offer && self.tags.is_empty() {
            self.waiting_since = None;
        }
        self.waiting_since.get_or_insert(now);
        let offered = self.tags.len();
        self.tags.extend(jobs.iter().map(|job| job.tag));
        let result = inner.submit(jobs);
        let taken = *result.as_ref().unwrap_or(&0);
        self.tags.truncate(offered + taken);
        result?;
        if self.tags.is_empty() && !jobs.is_empty() {
            self.check(now)?;
        }
        Ok(taken)
    }

    fn poll(
        &mut self,
        inner: &mut dyn Context,
        out: &mut Vec<Completion>,
        max: usize,
    ) -> Result<usize, Lost> {
        self.look(inner, self.clock.now());
        let before = out.len();
        let count = inner.poll(out, max)?;
        for completion in &out[before..] {
            let at = self.tags.iter().position(|tag| *tag == completion.tag);
            at.and_then(|at| self.tags.remove(at));
        }
        if count > 0 {
            self.waiting_since = (!self.tags.is_empty()).then(|| self.clock.now());
        } else if max > 0 && !self.tags.is_empty() {
            self.check(self.clock.now())?;
        }
        Ok(count)
    }

    fn arm(&mut self, inner: &mut dyn Context) -> Result<bool, Lost> {
        self.look(inner, self.clock.now());
        inner.arm()
    }
}
