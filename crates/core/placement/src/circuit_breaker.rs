//! Circuit breaker for a device that failed: it decides if the device is used, and when it is tried
//! again (Nygard, *Release It!*, 2007).
//!
//! 1. *Closed*: the device is used. Three failures in a row, or one that shows that it is gone or
//!    stuck, open the circuit.
//! 2. *Open*: it is not used, at first for [`Retry::first`], each time for twice as long.
//! 3. *Half open*: it gets one job at a time. One that succeeds closes the circuit, one that fails
//!    opens it again.

use std::time::{Duration, Instant};

use crate::Retry;

/// Jobs in a row that may fail before the circuit opens.
const FAILURES_MAX: u32 = 3;
/// Maximum of the pause: longer than any stream, short enough to be added to a time.
const PAUSE_MAX: Duration = Duration::from_secs(1 << 30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Circuit {
    Closed,
    /// The circuit is open until this time.
    Open(Instant),
    HalfOpen,
    /// Open for good.
    GivenUp,
}

/// The circuit to one device.
#[derive(Debug)]
pub struct CircuitBreaker {
    retry: Retry,
    circuit: Circuit,
    /// The next pause.
    pause: Duration,
    /// Number of consecutive failures.
    failures: u32,
    /// Jobs done since the last pause.
    done: u64,
}

impl CircuitBreaker {
    /// Creates a closed circuit breaker.
    pub fn new(retry: Retry) -> Self {
        let retry =
            Retry { first: retry.first.min(PAUSE_MAX), longest: retry.longest.min(PAUSE_MAX) };
        Self { retry, circuit: Circuit::Closed, pause: retry.first, failures: 0, done: 0 }
    }

    /// Returns how many jobs the device may have in flight, at most `depth`.
    pub fn limit(&self, depth: usize) -> usize {
        match self.circuit {
            Circuit::Closed => depth,
            Circuit::HalfOpen => 1,
            Circuit::Open(_) | Circuit::GivenUp => 0,
        }
    }

    /// Returns `true` if the device is used without restriction.
    pub fn is_closed(&self) -> bool {
        self.circuit == Circuit::Closed
    }

    /// Returns `true` if the device is not used, for now or for good.
    pub fn is_open(&self) -> bool {
        matches!(self.circuit, Circuit::Open(_) | Circuit::GivenUp)
    }

    /// Returns `true` if the device is not used any more.
    pub fn is_given_up(&self) -> bool {
        self.circuit == Circuit::GivenUp
    }

    /// Returns the time at which the device is tried again; `None` unless the circuit is open for
    /// now.
    pub fn retry_at(&self) -> Option<Instant> {
        match self.circuit {
            Circuit::Open(until) => Some(until),
            Circuit::Closed | Circuit::HalfOpen | Circuit::GivenUp => None,
        }
    }

    /// Begins to try the device.
    pub fn half_open(&mut self) {
        self.circuit = Circuit::HalfOpen;
        self.failures = 0;
    }

    /// Records a successful job. Returns `true` if the circuit was half open: the device works again.
    pub fn record_success(&mut self, depth: usize) -> bool {
        self.failures = 0;
        self.done += 1;
        if self.done > depth as u64 {
            self.pause = self.retry.first;
        }
        let recovered = self.circuit == Circuit::HalfOpen;
        if recovered {
            self.circuit = Circuit::Closed;
        }
        recovered
    }

    /// Records a failed job. Returns `true` if the circuit must be opened.
    pub fn record_failure(&mut self) -> bool {
        self.failures += 1;
        match self.circuit {
            Circuit::Closed => self.failures >= FAILURES_MAX,
            Circuit::HalfOpen => true,
            Circuit::Open(_) | Circuit::GivenUp => false,
        }
    }

    /// Opens the circuit; for how long.
    pub fn open(&mut self, now: Instant) -> Duration {
        let pause = self.pause;
        self.circuit = Circuit::Open(now + pause);
        self.pause = (pause * 2).min(self.retry.longest.max(self.retry.first));
        self.failures = 0;
        self.done = 0;
        pause
    }

    /// Opens the circuit for good.
    pub fn give_up(&mut self) {
        self.circuit = Circuit::GivenUp;
    }
}
