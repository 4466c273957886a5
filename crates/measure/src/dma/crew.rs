//! The initiator's threads: each verifies, warms up, runs under the clock and verifies again, all
//! at the same time.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use overside_device::threads::ThreadClock;
use overside_device::{Applied, CpuTime};

use super::lane::Lane;
use super::pass::{Pace, Passed, Until, pass};
use crate::measuring::NoSample;
use crate::sample::{Failure, Kind};

/// What all threads do.
pub(crate) struct Orders<'a> {
    pub pace: Pace,
    /// The cores that the threads are pinned to, in turn.
    pub cores: Option<&'a [usize]>,
    pub warmup: Duration,
    pub sample: Duration,
    /// CPU time so far of everything but the initiator's threads.
    pub others: &'a (dyn Fn() -> CpuTime + Sync),
}

/// What came of it.
pub(crate) struct Taken {
    /// One a thread.
    pub passes: Vec<Passed>,
    /// CPU time of the initiator's threads under the clock, in nanoseconds.
    pub initiator_ns: u64,
    /// What the others spent meanwhile.
    pub others: CpuTime,
    /// Operations whose bytes were looked at.
    pub checked: u64,
    /// What moved the bytes.
    pub applied: Applied,
}

/// Stages at which all threads wait for each other.
const READY: usize = 0;
const DONE: usize = 1;

/// Where threads wait until all are there and somebody lets them go on.
#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    arrived: [usize; 2],
    open: [bool; 2],
    /// A thread has left and will not arrive.
    broken: bool,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread is there, and waits. `false`: not all came.
    fn pass(&self, stage: usize) -> bool {
        let mut state = self.state();
        state.arrived[stage] += 1;
        self.changed.notify_all();
        while !state.open[stage] && !state.broken {
            state = self.wait(state);
        }
        !state.broken
    }

    /// Waits until `count` threads are there, and lets them go on after `meanwhile`.
    fn open<T>(&self, stage: usize, count: usize, meanwhile: impl FnOnce() -> T) -> Option<T> {
        let mut state = self.state();
        while state.arrived[stage] < count && !state.broken {
            state = self.wait(state);
        }
        if state.broken {
            return None;
        }
        drop(state);
        let value = meanwhile();
        self.state().open[stage] = true;
        self.changed.notify_all();
        Some(value)
    }
}

/// Says that a thread has left, however it left.
struct Leaving<'a>(&'a Gate, bool);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.state().broken = true;
            self.0.changed.notify_all();
        }
    }
}

/// Runs all lanes, one thread each.
pub(crate) fn run(lanes: &mut [Box<dyn Lane>], orders: &Orders<'_>) -> Result<Taken, NoSample> {
    let gate = Gate::default();
    let clocks: Vec<ThreadClock> = lanes.iter().map(|_| ThreadClock::default()).collect();
    let count = lanes.len();
    let spent = || {
        let threads: u64 = clocks.iter().map(ThreadClock::spent_ns).sum();
        (threads, (orders.others)())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (lanes.iter_mut().zip(&clocks).enumerate())
            .map(|(index, (lane, clock))| {
                let gate = &gate;
                let core = orders.cores.map(|cores| cores[index % cores.len()]);
                scope.spawn(move || {
                    clock.begin();
                    let ended = one(&mut **lane, orders, core, gate);
                    clock.end();
                    ended
                })
            })
            .collect();
        let before = gate.open(READY, count, spent);
        let after = gate.open(DONE, count, spent);
        let mut ended = Vec::with_capacity(count);
        let mut first = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok(Some(one))) => ended.push(one),
                Ok(Ok(None)) => {}
                Ok(Err(failure)) => {
                    first.get_or_insert(failure);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        if let Some(failure) = first {
            return Err(failure);
        }
        let (Some(before), Some(after)) = (before, after) else {
            return Err(Failure::new(Kind::Internal, "threads left without a reason").into());
        };
        let Some(applied) = ended.first().map(|one| one.applied.clone()) else {
            return Err(Failure::new(Kind::Internal, "there was no thread").into());
        };
        Ok(Taken {
            checked: ended.iter().map(|one| one.checked).sum(),
            passes: ended.into_iter().map(|one| one.passed).collect(),
            initiator_ns: after.0.saturating_sub(before.0),
            others: since(after.1, before.1),
            applied,
        })
    })
}

/// What one thread has done.
struct Ended {
    passed: Passed,
    checked: u64,
    applied: Applied,
}

/// What one thread does; `None` if another could not go on.
fn one(
    lane: &mut dyn Lane,
    orders: &Orders<'_>,
    core: Option<usize>,
    gate: &Gate,
) -> Result<Option<Ended>, NoSample> {
    let mut leaving = Leaving(gate, false);
    core.map_or(Ok(()), pin)?;
    let pace = &orders.pace;
    let depth = pace.depth as u64;
    lane.fill(0)?;
    lane.keep(true);
    pass(lane, pace, Until::Count(depth))?;
    let mut checked = check(lane, pace.depth)?;
    lane.keep(false);
    lane.fill(1)?;
    pass(lane, pace, Until::Passed(orders.warmup))?;
    lane.spoil()?;
    if !gate.pass(READY) {
        return Ok(None);
    }
    let passed = pass(lane, pace, Until::Passed(orders.sample))?;
    if !gate.pass(DONE) {
        return Ok(None);
    }
    leaving.1 = true;
    if lane.remembers() {
        checked += check(lane, passed.count.min(depth) as usize)?;
    } else {
        lane.keep(true);
        pass(lane, pace, Until::Count(depth))?;
        checked += check(lane, pace.depth)?;
    }
    Ok(Some(Ended {
        passed,
        checked,
        applied: lane.applied(),
    }))
}

/// Looks at the bytes of the first `count` places.
fn check(lane: &mut dyn Lane, count: usize) -> Result<u64, Failure> {
    for slot in 0..count {
        lane.check(slot)?;
    }
    Ok(count as u64)
}

fn since(after: CpuTime, before: CpuTime) -> CpuTime {
    CpuTime {
        host_ns: after.host_ns.saturating_sub(before.host_ns),
        dpu_ns: after.dpu_ns.saturating_sub(before.dpu_ns),
        emulator_ns: after.emulator_ns.saturating_sub(before.emulator_ns),
    }
}

/// Pins the calling thread.
fn pin(core: usize) -> Result<(), NoSample> {
    overside_device::threads::pin(core).map_err(|error| NoSample::Skipped(error.to_string()))
}
