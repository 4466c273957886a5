//! Breakdown of a serving thread's time: every nanosecond is counted for one stage.
//!
//! 1. The clock is read where one stage ends and the next begins, a few times a turn and not once a command.
//! 2. A processing engine passes answers while it executes a batch, and each becomes a reply at once.
//!    Of [`SAMPLED`] batches, one has each of its answers timed. The fraction of its time that was for
//!    replies, averaged over recent samples, is counted for [`Stage::Respond`] in all batches, the rest
//!    for [`Stage::Process`].
//! 3. The time for reading the clock in a sampled batch is subtracted.
//!
//! The stages are those of the published breakdowns of such engines (receive, parse, process,
//! respond, other), and two more: the waits for the disk, and for clients.

use std::cell::Cell;

use crate::ticks::TickClock;

/// Number of batches of which one is sampled.
pub const SAMPLED: u64 = 128;
/// Weight of a new sample in the moving average.
const SAMPLE_DECAY: f64 = 1.0 / 16.0;

/// Time after which the length of a tick is accurate to a millionth.
const CALIBRATION_NS: f64 = 1e8;

/// Activity of a serving thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Waits for clients and sleeps, including the system calls.
    Wait,
    /// Checks for input of clients without sleeping, and finds none.
    Poll,
    /// Receives and decrypts.
    Receive,
    /// Parses commands and makes requests of them.
    Parse,
    /// Executes requests, and parses and executes commands without requests.
    Process,
    /// Writes the log, if replies wait for it.
    Persist,
    /// Makes replies, encrypts and sends them.
    Respond,
    /// Accepts and closes connections; timers, metrics.
    Other,
}

// In the order of a turn; the words are those of `INFO` and metrics.
overside_base::words! {
    Stage;
    Wait "wait", Poll "poll", Receive "receive", Parse "parse", Process "process", Persist "persist",
    Respond "respond", Other "other"
}

impl Stage {
    /// Number of stages, for arrays that [`Stage`] indexes.
    pub const COUNT: usize = Self::ALL.len();
}

/// Clock that counts time by stage, and batches, of one thread.
#[derive(Debug)]
pub struct StageClock {
    clock: TickClock,
    /// Number of ticks that reading the clock takes.
    read_ticks: u64,
    /// Reading of `clock` at the end of the last stage, in ticks.
    last: Cell<u64>,
    ticks: [Cell<u64>; Stage::COUNT],
    batches: Cell<u64>,
    /// Weighted numbers of ticks of sampled batches, and of their replies.
    sampled: Cell<(f64, f64)>,
    /// Length of a tick, fixed once it is accurate, so that times never decrease.
    tick_ns: Cell<Option<f64>>,
}

/// Timer of the answers of a batch.
#[derive(Debug)]
pub struct AnswerTimer {
    clock: TickClock,
    begin: u64,
    ticks: u64,
    answers: u64,
}

impl AnswerTimer {
    /// Runs `respond` and counts its time.
    #[inline]
    pub fn time<T>(&mut self, respond: impl FnOnce() -> T) -> T {
        let begin = self.clock.now();
        let result = respond();
        self.ticks += self.clock.now().saturating_sub(begin);
        self.answers += 1;
        result
    }
}

impl StageClock {
    /// Starts the clock.
    #[must_use]
    pub fn start() -> Self {
        let clock = TickClock::start();
        let read = |_| {
            let begin = clock.now();
            clock.now().saturating_sub(begin)
        };
        let read_ticks = (0..64).map(read).min().unwrap_or_default();
        Self {
            clock,
            read_ticks,
            last: Cell::new(clock.now()),
            ticks: Default::default(),
            batches: Cell::default(),
            sampled: Cell::default(),
            tick_ns: Cell::default(),
        }
    }

    /// Ends a stage: it took the time since the end of the stage before.
    #[inline]
    pub fn end(&self, stage: Stage) {
        let ticks = self.since_last();
        self.add(stage, ticks);
    }

    /// Starts a batch. Returns a timer for its answers if the batch is sampled.
    #[inline]
    pub fn begin_batch(&self) -> Option<AnswerTimer> {
        let batches = self.batches.get();
        self.batches.set(batches + 1);
        batches.is_multiple_of(SAMPLED).then(|| AnswerTimer {
            clock: self.clock,
            begin: self.clock.now(),
            ticks: 0,
            answers: 0,
        })
    }

    /// Ends a sampled batch.
    pub fn end_sampled_batch(&self, timer: &AnswerTimer) {
        // Of the two readings of an answer, about one is within the measured time.
        let reads = timer.answers * self.read_ticks;
        let all = self.clock.now().saturating_sub(timer.begin);
        let all = all.saturating_sub(2 * reads);
        let replies = timer.ticks.saturating_sub(reads).min(all);
        let keep = 1.0 - SAMPLE_DECAY;
        let (sum, of_replies) = self.sampled.get();
        let new = (sum * keep + all as f64, of_replies * keep + replies as f64);
        self.sampled.set(new);
    }

    /// Ends the execution of batches whose answers have become replies.
    #[inline]
    pub fn end_execution(&self) {
        let ticks = self.since_last();
        let (sum, of_replies) = self.sampled.get();
        let replies = (ticks as f64 * (of_replies / sum.max(1.0))) as u64;
        self.add(Stage::Respond, replies);
        self.add(Stage::Process, ticks - replies);
    }

    /// Returns the number of executed batches.
    #[must_use]
    pub fn batches(&self) -> u64 {
        self.batches.get()
    }

    /// Returns the time of each stage in nanoseconds.
    #[must_use]
    pub fn times_ns(&self) -> [(Stage, u64); Stage::COUNT] {
        let tick_ns = self.tick_ns.get().unwrap_or_else(|| {
            let tick_ns = self.clock.tick_ns();
            let is_known = self.clock.now() as f64 * tick_ns > CALIBRATION_NS;
            self.tick_ns.set(is_known.then_some(tick_ns));
            tick_ns
        });
        Stage::ALL.map(|stage| {
            let ticks = self.ticks[stage as usize].get();
            (stage, (ticks as f64 * tick_ns) as u64)
        })
    }

    #[inline]
    fn since_last(&self) -> u64 {
        let now = self.clock.now();
        now.saturating_sub(self.last.replace(now))
    }

    #[inline]
    fn add(&self, stage: Stage, ticks: u64) {
        let sum = &self.ticks[stage as usize];
        sum.set(sum.get() + ticks);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::{Duration, Instant};

    use super::{SAMPLED, Stage, StageClock};

    #[test]
    fn every_nanosecond_is_of_one_stage() {
        let before = Instant::now();
        let clock = StageClock::start();
        let begin = Instant::now();
        let mut least = 0.0;
        for stage in Stage::ALL {
            thread::sleep(Duration::from_millis(2));
            least = begin.elapsed().as_nanos() as f64;
            clock.end(stage);
        }
        let sum: u64 = clock.times_ns().iter().map(|(_, ns)| ns).sum();
        assert!(sum as f64 > least * 0.99, "{sum} of {least} ns");
        assert!((sum as f64) < before.elapsed().as_nanos() as f64 * 1.01);
        assert!(clock.times_ns().iter().all(|(_, ns)| *ns >= 1_900_000));
    }

    #[test]
    fn replies_are_told_from_processing_by_samples() {
        let clock = StageClock::start();
        for batch in 0..=SAMPLED {
            let timer = clock.begin_batch();
            assert_eq!(timer.is_some(), batch % SAMPLED == 0);
            if let Some(mut timer) = timer {
                thread::sleep(Duration::from_millis(3));
                timer.time(|| thread::sleep(Duration::from_millis(9)));
                clock.end_sampled_batch(&timer);
            }
        }
        let (all, replies) = clock.sampled.get();
        let at_least = |ticks: f64, ms: f64| ticks * clock.clock.tick_ns() > ms * 0.99e6;
        assert!(at_least(replies, 9.0) && at_least(all - replies, 3.0));
        clock.end_execution();
        let ticks = |stage: Stage| clock.ticks[stage as usize].get() as f64;
        let (process, respond) = (ticks(Stage::Process), ticks(Stage::Respond));
        assert!((respond / (process + respond) - replies / all).abs() < 1e-3);
        assert_eq!(clock.batches(), SAMPLED + 1);
    }
}
