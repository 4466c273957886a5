//! A queue of a device, and the contexts that share it.
//!
//! Devices have few queues (a DMA channel often just one), so a context does not own one: it has a
//! place in it. A context that polls takes out all completions and puts those of other contexts
//! into their inboxes. No job waits for the lock: a queue that another context has locked takes and
//! gives nothing at that moment.

// Calls the shim with what callers vouch for.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use overside_base::lock;

use crate::shim::{Kind, RawJob, RawResult, Shim};

/// Longest time that a queue without jobs in flight may refuse jobs before it counts as lost.
const REFUSES: Duration = Duration::from_secs(1);
/// Results that are taken out at once.
const BURST: usize = 32;

/// Result that a device reports for a finished job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FinishedJob {
    pub(crate) slot: u32,
    pub(crate) status: u32,
    pub(crate) produced: u32,
    pub(crate) consumed: u32,
    pub(crate) detail: u64,
    pub(crate) matches: Vec<u64>,
}

pub(crate) struct Queue {
    shim: Shim,
    kind: Kind,
    id: i32,
    number: u16,
    /// Maximum number of jobs that the driver takes.
    capacity: usize,
    /// Number of contexts that use the queue.
    users: AtomicUsize,
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    in_flight: usize,
    inboxes: HashMap<u32, Vec<FinishedJob>>,
    /// Time since when the queue has taken nothing although it was empty.
    refuses_since: Option<Instant>,
    lost: Option<String>,
}

impl Queue {
    pub(crate) fn new(shim: Shim, kind: Kind, id: i32, number: u16, capacity: usize) -> Self {
        Self {
            shim,
            kind,
            id,
            number,
            capacity,
            users: AtomicUsize::new(0),
            state: Mutex::default(),
        }
    }

    pub(crate) fn users(&self) -> usize {
        self.users.load(Ordering::Relaxed)
    }

    /// Enters the queue and returns a number that no other context has.
    pub(crate) fn enter(&self) -> u32 {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.users.fetch_add(1, Ordering::Relaxed);
        self.lock().inboxes.insert(number, Vec::new());
        number
    }

    /// Releases the slot once none of its jobs is in the queue.
    pub(crate) fn leave(&self, number: u32) {
        self.users.fetch_sub(1, Ordering::Relaxed);
        self.lock().inboxes.remove(&number);
    }

    /// Enqueues jobs. Returns the number that the device took.
    ///
    /// # Errors
    /// The reason why the queue is lost.
    ///
    /// # Safety
    /// Until it comes back from [`Queue::take`], each job's memory stays, its source is not written, its
    /// destination is not touched, and its slot and transform are used by nothing else.
    pub(crate) unsafe fn put(&self, jobs: &[RawJob]) -> Result<usize, String> {
        let Some(mut state) = self.try_lock() else {
            return Ok(0);
        };
        if let Some(reason) = &state.lost {
            return Err(reason.clone());
        }
        // Some drivers run a job that they then have no place for, so none is offered.
        let room = self.capacity.saturating_sub(state.in_flight).min(jobs.len());
        if room == 0 {
            return Ok(0);
        }
        let call = self.shim.0.enqueue;
        // SAFETY: the caller vouches for the jobs; the lock makes this the queue's only user.
        let taken =
            unsafe { call(self.kind as u32, self.id, self.number, jobs.as_ptr(), room as u32) };
        let taken = usize::try_from(taken).map_err(|_| self.lose(&mut state, taken))?;
        state.in_flight += taken;
        self.watch(&mut state, taken)?;
        Ok(taken)
    }

    /// Appends the completions for the context of that number.
    ///
    /// # Errors
    /// Why the queue is lost, once nothing is left to come.
    pub(crate) fn take(&self, context: u32, out: &mut Vec<FinishedJob>) -> Result<(), String> {
        let Some(mut state) = self.try_lock() else {
            return Ok(());
        };
        let before = out.len();
        if let Some(inbox) = state.inboxes.get_mut(&context) {
            out.append(inbox);
        }
        while state.in_flight > 0 && state.lost.is_none() {
            let mut results = [const { MaybeUninit::<RawResult>::uninit() }; BURST];
            let (call, room) = (self.shim.0.dequeue, results.as_mut_ptr().cast());
            // SAFETY: at most `BURST` results are written; the lock makes this the queue's only
            // user.
            let count = unsafe { call(self.kind as u32, self.id, self.number, room, BURST as u32) };
            let Ok(count) = usize::try_from(count) else {
                self.lose(&mut state, count);
                break;
            };
            for result in &results[..count.min(BURST)] {
                // SAFETY: the first `count` results were written.
                let result = unsafe { result.assume_init_ref() };
                state.in_flight = state.in_flight.saturating_sub(1);
                let (owner, done) = received(result);
                if owner == context {
                    out.push(done);
                } else if let Some(inbox) = state.inboxes.get_mut(&owner) {
                    inbox.push(done);
                }
            }
            if count < BURST {
                break;
            }
        }
        match &state.lost {
            Some(reason) if out.len() == before => Err(reason.clone()),
            _ => Ok(()),
        }
    }

    /// A queue that has nothing to do and takes nothing is not busy but gone.
    fn watch(&self, state: &mut QueueState, taken: usize) -> Result<(), String> {
        if taken > 0 || state.in_flight > 0 {
            state.refuses_since = None;
            return Ok(());
        }
        let since = *state.refuses_since.get_or_insert_with(Instant::now);
        if since.elapsed() < REFUSES {
            return Ok(());
        }
        let reason = "it takes no jobs though it has none".to_owned();
        state.lost = Some(reason.clone());
        Err(reason)
    }

    fn lose(&self, state: &mut QueueState, result: i32) -> String {
        let reason = (self.shim.check(result).err()).unwrap_or_else(|| "it is gone".into());
        state.lost = Some(reason.clone());
        reason
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, QueueState>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.state)
    }
}

/// A job's name on its way through the device: whose it is, and in which slot.
pub(crate) fn token(context: u32, slot: u32) -> u64 {
    u64::from(context) << 32 | u64::from(slot)
}

fn received(result: &RawResult) -> (u32, FinishedJob) {
    let count = result.match_count as usize;
    let matches = if count == 0 || result.matches.is_null() {
        Vec::new()
    } else {
        // SAFETY: the device reports that many matches, which stay until the slot is used again.
        unsafe { std::slice::from_raw_parts(result.matches, count) }.to_vec()
    };
    let done = FinishedJob {
        slot: result.token as u32,
        status: result.status,
        produced: result.produced,
        consumed: result.consumed,
        detail: result.detail,
        matches,
    };
    ((result.token >> 32) as u32, done)
}
