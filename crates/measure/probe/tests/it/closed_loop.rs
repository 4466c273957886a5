//! The measuring loop, on a queue that records the calls.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use overside_device::Clock;
use overside_probe::closed_loop::{
    CompletedOperation, LoopParams, OperationQueue, Timeouts, Until, run,
};
use overside_probe::{Failure, FailureKind};

/// Model of a queue: takes up to `takes` operations per doorbell, completes up to `completes` per poll, and
/// checks that each slot is filled, submitted and completed in turn.
struct Model {
    free: Vec<usize>,
    filled: VecDeque<usize>,
    in_flight: VecDeque<usize>,
    collected: Vec<usize>,
    takes: usize,
    completes: usize,
    /// Number of filled operations at each doorbell that was rung.
    doorbells: Vec<usize>,
    most_in_flight: usize,
    completed: u64,
    drained: u64,
    withdrawn: usize,
    polls: u32,
    waits: u32,
    /// Number of the first operation that never completes.
    stalls_after: u64,
    /// The first completion is reported twice.
    doubles: bool,
    /// A wait takes a millisecond of a virtual clock.
    clock: Clock,
}

impl Model {
    fn new(depth: usize, takes: usize, completes: usize) -> Self {
        Self {
            free: (0..depth).collect(),
            filled: VecDeque::new(),
            in_flight: VecDeque::new(),
            collected: Vec::new(),
            takes,
            completes,
            doorbells: Vec::new(),
            most_in_flight: 0,
            completed: 0,
            drained: 0,
            withdrawn: 0,
            polls: 0,
            waits: 0,
            stalls_after: u64::MAX,
            doubles: false,
            clock: Clock::default(),
        }
    }

    fn is_empty(&self) -> bool {
        self.filled.is_empty() && self.in_flight.is_empty() && self.collected.is_empty()
    }
}

impl OperationQueue for Model {
    fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    fn fill(&mut self, count: usize, slots: &mut VecDeque<usize>) -> Result<(), Failure> {
        for _ in 0..count {
            let Some(slot) = self.free.pop() else { break };
            self.filled.push_back(slot);
            slots.push_back(slot);
        }
        Ok(())
    }

    fn submit(&mut self) -> Result<usize, Failure> {
        self.doorbells.push(self.filled.len());
        let taken = self.filled.len().min(self.takes);
        self.in_flight.extend(self.filled.drain(..taken));
        self.most_in_flight = self.most_in_flight.max(self.in_flight.len());
        Ok(taken)
    }

    fn poll(&mut self) -> Result<usize, Failure> {
        self.polls += 1;
        // Something comes at every other poll.
        if self.polls.is_multiple_of(2) && self.completed < self.stalls_after {
            let ready = self.in_flight.len().min(self.completes);
            self.collected.extend(self.in_flight.drain(..ready));
        }
        Ok(self.collected.len())
    }

    fn take(&mut self, draining: bool, done: &mut Vec<CompletedOperation>) -> Result<(), Failure> {
        for slot in self.collected.drain(..) {
            self.free.push(slot);
            self.completed += 1;
            self.drained += u64::from(draining);
            done.push(CompletedOperation { slot, late: false });
            if std::mem::take(&mut self.doubles) {
                done.push(CompletedOperation { slot, late: true });
            }
        }
        Ok(())
    }

    fn wait(&mut self, _: Duration) -> Result<(), Failure> {
        self.waits += 1;
        if self.clock.is_virtual() {
            self.clock.sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn withdraw(&mut self) {
        self.withdrawn += self.filled.len();
        self.free.extend(self.filled.drain(..));
    }
}

fn params(batch: usize, event: bool, latencies: bool) -> LoopParams {
    LoopParams {
        batch,
        event,
        deferred: false,
        operations_a_look: 1,
        latencies,
        timeouts: Timeouts::until(Instant::now() + Duration::from_secs(60)),
        clock: Clock::default(),
        operations_max: u64::MAX,
    }
}

/// A clock beside real work is as old as its worker, which has waited meanwhile.
#[test]
fn a_pass_beside_real_work_takes_its_time_in_real_time() {
    let (limit, clock) = (Duration::from_millis(30), Clock::beside_real_time());
    std::thread::sleep(2 * limit);
    for deferred in [false, true] {
        let mut model = Model { clock: clock.clone(), ..Model::new(1, 1, 1) };
        let params = LoopParams { clock: clock.clone(), deferred, ..params(1, true, false) };
        let begun = Instant::now();
        let pass = run(&mut model, &params, Until::Passed(limit)).unwrap();
        assert!(begun.elapsed() + Duration::from_millis(1) >= pass.elapsed(), "{deferred}");
        assert!(begun.elapsed() >= limit - Duration::from_millis(1), "{deferred}");
    }
}

#[test]
fn every_operation_is_over_once_whatever_the_queue_takes_and_completes() {
    for (depth, batch) in [(1, 1), (2, 1), (8, 3), (8, 4), (64, 32), (5, 9)] {
        for (takes, completes) in [(1, 1), (2, 100), (100, 1), (100, 100)] {
            for (event, latencies) in [(false, true), (true, true), (true, false)] {
                let mut model = Model::new(depth, takes, completes);
                let params = params(batch, event, latencies);
                let pass = run(&mut model, &params, Until::Count(1000)).unwrap();
                assert_eq!((pass.operations, model.completed), (1000, 1000));
                assert!(model.is_empty() && model.free.len() == depth);
                assert!(model.most_in_flight <= depth);
                assert!(model.doorbells.iter().all(|filled| *filled <= batch));
                let timed = pass.latencies.as_ref().map(|all| all.count());
                assert_eq!(timed, latencies.then_some(1000));
                assert!(model.drained > 0 && pass.end > pass.start);
            }
        }
    }
}

#[test]
fn completions_that_are_deferred_are_collected_once_no_slot_is_free() {
    for (depth, batch, takes) in [(1, 1, 1), (8, 3, 100), (8, 4, 1), (64, 16, 5)] {
        let mut model = Model::new(depth, takes, 7);
        let mut params = params(batch, false, false);
        params.deferred = true;
        let pass = run(&mut model, &params, Until::Count(1000)).unwrap();
        assert_eq!((pass.operations, model.completed), (1000, 1000));
        assert!(model.is_empty() && model.free.len() == depth);
        assert_eq!(model.most_in_flight, depth);
        let posting = pass.posting.expect("it was timed");
        assert!(!posting.is_zero() && posting < pass.elapsed());
        let limit = Until::Passed(Duration::from_millis(2));
        let pass = run(&mut model, &params, limit).unwrap();
        assert!(model.is_empty() && pass.operations >= depth as u64);
    }
    // A queue that takes nothing more before all is over.
    let mut model = Model::new(4, 100, 100);
    model.stalls_after = 4;
    let mut params = params(1, false, false);
    params.deferred = true;
    params.timeouts = Timeouts::until(Instant::now() + Duration::from_millis(20));
    let failure = run(&mut model, &params, Until::Count(100)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout);
}

#[test]
fn a_doorbell_rings_for_a_whole_batch_but_for_the_last() {
    let mut model = Model::new(8, 100, 100);
    let pass = run(&mut model, &params(4, true, true), Until::Count(30)).unwrap();
    assert_eq!(model.doorbells, [4, 4, 4, 4, 4, 4, 4, 2]);
    assert_eq!(pass.doorbells, 8);
}

#[test]
fn when_the_time_is_over_what_was_not_submitted_is_taken_back() {
    // Three of each doorbell of four are refused.
    let mut model = Model::new(8, 1, 1);
    let limit = Duration::from_millis(2);
    let pass = run(&mut model, &params(4, true, true), Until::Passed(limit)).unwrap();
    assert!(pass.elapsed() >= limit && model.withdrawn > 0);
    assert_eq!(pass.operations, model.completed);
    assert!(model.is_empty());
    // However short the time is, one batch runs.
    let mut model = Model::new(8, 100, 100);
    let none = Until::Passed(Duration::ZERO);
    let pass = run(&mut model, &params(4, false, true), none).unwrap();
    assert!((4..=8).contains(&pass.operations), "{}", pass.operations);
}

#[test]
fn a_queue_that_stalls_is_a_timeout_and_one_that_completes_twice_is_wrong() {
    for event in [false, true] {
        let mut model = Model::new(4, 100, 100);
        model.stalls_after = 10;
        let mut params = params(1, event, true);
        params.timeouts = Timeouts::until(Instant::now() + Duration::from_millis(20));
        let failure = run(&mut model, &params, Until::Count(100)).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Timeout);
        assert_eq!(model.waits > 0, event);
    }
    let mut model = Model::new(1, 1, 1);
    model.doubles = true;
    let failure = run(&mut model, &params(1, true, true), Until::Count(5)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Verification);
}

#[test]
fn nobody_who_waits_is_a_lost_sample() {
    let mut params = params(1, false, false);
    params.timeouts.cancelled = Some(std::sync::Arc::new(|| true));
    let failure = run(&mut Model::new(1, 1, 1), &params, Until::Count(5)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Lost);
}
