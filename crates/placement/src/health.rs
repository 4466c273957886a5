//! Whether a device that failed is used, and when it is tried again.

use std::time::{Duration, Instant};

use crate::Retry;

/// Jobs in a row that may fail before the device gets a pause.
const STRIKES: u32 = 3;
/// The longest pause: longer than any stream, short enough to be added to a time.
const PAUSE_MAX: Duration = Duration::from_secs(1 << 30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Good,
    /// Not used until then.
    Resting(Instant),
    /// One job at a time, until one is done.
    Tried,
    GivenUp,
}

/// What is thought of a device.
#[derive(Debug)]
pub(crate) struct Health {
    retry: Retry,
    standing: Standing,
    /// The next pause.
    pause: Duration,
    /// Failures in a row.
    strikes: u32,
    /// Jobs done since the last pause.
    done: u64,
}

impl Health {
    pub(crate) fn new(retry: Retry) -> Self {
        let retry = Retry {
            first: retry.first.min(PAUSE_MAX),
            longest: retry.longest.min(PAUSE_MAX),
        };
        Self {
            retry,
            standing: Standing::Good,
            pause: retry.first,
            strikes: 0,
            done: 0,
        }
    }

    /// How many jobs it may have, of `depth`.
    pub(crate) fn limit(&self, depth: usize) -> usize {
        match self.standing {
            Standing::Good => depth,
            Standing::Tried => 1,
            Standing::Resting(_) | Standing::GivenUp => 0,
        }
    }

    /// Whether it rests or is given up.
    pub(crate) fn is_out(&self) -> bool {
        matches!(self.standing, Standing::Resting(_) | Standing::GivenUp)
    }

    pub(crate) fn is_given_up(&self) -> bool {
        self.standing == Standing::GivenUp
    }

    /// When it is to be tried again, if it rests.
    pub(crate) fn rests_until(&self) -> Option<Instant> {
        match self.standing {
            Standing::Resting(until) => Some(until),
            Standing::Good | Standing::Tried | Standing::GivenUp => None,
        }
    }

    /// Begins to try it.
    pub(crate) fn try_again(&mut self) {
        self.standing = Standing::Tried;
        self.strikes = 0;
    }

    /// A job was done. Whether the device was being tried: it works again.
    pub(crate) fn succeeded(&mut self, depth: usize) -> bool {
        self.strikes = 0;
        self.done += 1;
        if self.done > depth as u64 {
            self.pause = self.retry.first;
        }
        let back = self.standing == Standing::Tried;
        if back {
            self.standing = Standing::Good;
        }
        back
    }

    /// A job failed. Whether the device should rest: it failed often, or when it was tried.
    pub(crate) fn failed(&mut self) -> bool {
        self.strikes += 1;
        match self.standing {
            Standing::Good => self.strikes >= STRIKES,
            Standing::Tried => true,
            Standing::Resting(_) | Standing::GivenUp => false,
        }
    }

    /// Lets it rest; for how long.
    pub(crate) fn rest(&mut self, now: Instant) -> Duration {
        let pause = self.pause;
        self.standing = Standing::Resting(now + pause);
        self.pause = (pause * 2).min(self.retry.longest.max(self.retry.first));
        self.strikes = 0;
        self.done = 0;
        pause
    }

    pub(crate) fn give_up(&mut self) {
        self.standing = Standing::GivenUp;
    }
}
