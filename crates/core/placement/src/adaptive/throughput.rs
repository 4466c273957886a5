//! Estimate of a target's rate from the jobs that it finished.

use std::time::{Duration, Instant};

/// Bytes that a target finished and the time that they took, an estimate of its rate while it has
/// enough to do.
///
/// A device may work on several jobs at once, so the first job after a rest shows how long a job
/// takes, and those behind it show how fast jobs follow each other. The first is therefore left
/// out, unless nothing follows it. A few jobs that come back together do not make a device
/// infinitely fast: as many as were in flight take at least as long as the first one took.
#[derive(Debug, Default)]
pub struct ThroughputEstimator {
    bytes: u64,
    busy: Duration,
    run: Option<Run>,
}

/// Jobs done since the target was last idle.
#[derive(Debug)]
struct Run {
    begun: Instant,
    first: Option<First>,
    count: u32,
}

#[derive(Clone, Copy, Debug)]
struct First {
    at: Instant,
    bytes: u64,
}

impl ThroughputEstimator {
    /// The target has something to do again.
    pub fn begin(&mut self, now: Instant) {
        self.run = Some(Run { begun: now, first: None, count: 0 });
    }

    /// Records results of `sizes` bytes each, which came `since` the last ones or the beginning.
    pub fn done(&mut self, sizes: impl Iterator<Item = u64>, since: Duration, now: Instant) {
        let Some(run) = &mut self.run else { return };
        if run.first.is_some() {
            self.busy += since;
        }
        for bytes in sizes {
            run.count += 1;
            match run.first {
                None => run.first = Some(First { at: now, bytes }),
                Some(_) => self.bytes += bytes,
            }
        }
    }

    /// The target has nothing to do any more; its last result came back at `last`.
    pub fn end(&mut self, last: Instant) {
        let Some(run) = self.run.take() else { return };
        let Some(first) = run.first else { return };
        let latency = first.at.saturating_duration_since(run.begun);
        if run.count == 1 {
            self.bytes += first.bytes;
            self.busy += latency;
            return;
        }
        let counted = last.saturating_duration_since(first.at);
        let least = latency.mul_f64(f64::from(run.count - 1) / f64::from(run.count));
        self.busy += least.saturating_sub(counted);
    }

    /// Forgets the run in progress.
    pub fn drop_run(&mut self) {
        self.run = None;
    }

    /// Bytes and time so far.
    pub fn so_far(&self) -> (u64, Duration) {
        (self.bytes, self.busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Feeds completions of 100 bytes at these milliseconds after the beginning.
    fn seen(at: &[u32]) -> (u64, Duration) {
        let begun = Instant::now();
        let (mut estimator, mut last) = (ThroughputEstimator::default(), begun);
        estimator.begin(begun);
        for at in at {
            let now = begun + MS * *at;
            estimator.done([100].into_iter(), now - last, now);
            last = now;
        }
        estimator.end(last);
        estimator.so_far()
    }

    #[test]
    fn jobs_behind_the_first_tell_the_rate() {
        assert_eq!(seen(&[50, 60, 70, 80, 90, 100, 110]), (600, MS * 60));
    }

    #[test]
    fn one_job_alone_tells_what_it_took() {
        assert_eq!(seen(&[50]), (100, MS * 50));
        assert_eq!(seen(&[]), (0, Duration::ZERO));
    }

    #[test]
    fn jobs_that_come_back_together_took_their_time() {
        // Four at once in 40 ms: no more than four each 40 ms.
        assert_eq!(seen(&[40, 40, 40, 40]), (300, MS * 30));
    }
}
