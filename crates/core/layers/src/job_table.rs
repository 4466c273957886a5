//! Table of the jobs in the inner context, with a layer's data for each.
//!
//! An inner job has a number of the layer as its tag, because tags need not be unique. Its completion gets
//! its own tag back.

use std::collections::VecDeque;
use std::time::Instant;

use overside_device::{Closed, Completion, Context, Job, Lost, SubmitError};
use slab::Slab;

/// Jobs inside, each with its tag and a value.
pub(crate) struct JobTable<T> {
    jobs: Slab<(u64, T)>,
    /// Reused.
    one: VecDeque<Job>,
    completions: Vec<Completion>,
}

impl<T> Default for JobTable<T> {
    fn default() -> Self {
        Self { jobs: Slab::new(), one: VecDeque::new(), completions: Vec::new() }
    }
}

impl<T> JobTable<T> {
    /// Submits one job to the context inside with a value for it. Returns both if the job was not
    /// taken.
    pub(crate) fn submit(
        &mut self,
        inner: &mut dyn Context,
        mut job: Job,
        value: T,
    ) -> (Result<bool, SubmitError>, Option<(Job, T)>) {
        let tag = job.tag;
        job.tag = self.jobs.insert((tag, value)) as u64;
        self.one.push_back(job);
        let result = match inner.submit(&mut self.one) {
            Ok(taken) => Ok(taken == 1),
            Err(SubmitError::Refused { refusal, .. }) => Err(SubmitError::Refused { tag, refusal }),
            Err(SubmitError::Lost(lost)) => Err(self.with_own_tags(lost).into()),
        };
        let back = self.one.pop_front().and_then(|mut job| {
            let value = self.remove(&mut job.tag)?;
            Some((job, value))
        });
        (result, back)
    }

    /// Takes completions of the context inside, each with the value of its job; `None` if there is
    /// no such job.
    pub(crate) fn poll(
        &mut self,
        inner: &mut dyn Context,
        max: usize,
        mut take: impl FnMut(Completion, Option<T>),
    ) -> Result<usize, Lost> {
        let mut completions = std::mem::take(&mut self.completions);
        let polled = inner.poll(&mut completions, max);
        for mut completion in completions.drain(..) {
            let value = self.remove(&mut completion.tag);
            take(completion, value);
        }
        self.completions = completions;
        polled.map_err(|lost| self.with_own_tags(lost))
    }

    /// Closes the context inside; `take` as for [`JobTable::poll`].
    pub(crate) fn close(
        mut self,
        inner: Box<dyn Context>,
        deadline: Instant,
        mut take: impl FnMut(Completion, Option<T>) -> Completion,
    ) -> Closed {
        let mut closed = inner.close(deadline);
        closed.abandoned = self.own_tags(&closed.abandoned);
        let completions = closed.completions.into_iter().map(|mut completion| {
            let value = self.remove(&mut completion.tag);
            take(completion, value)
        });
        closed.completions = completions.collect();
        closed
    }

    /// Restores the tag of a job that has left the context inside, and returns its value.
    fn remove(&mut self, tag: &mut u64) -> Option<T> {
        let (own, value) = self.jobs.try_remove(usize::try_from(*tag).ok()?)?;
        *tag = own;
        Some(value)
    }

    fn with_own_tags(&self, lost: Lost) -> Lost {
        let tags = self.own_tags(&lost.tags);
        Lost { tags, ..lost }
    }

    fn own_tags(&self, numbers: &[u64]) -> Vec<u64> {
        let own = |number: &u64| self.jobs.get(usize::try_from(*number).ok()?);
        (numbers.iter().filter_map(own)).map(|(tag, _)| *tag).collect()
    }
}
