//! The peer's program: receives messages and confirms them.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use overside_base::lock;
use overside_device::threads::ThreadClock;
use overside_link::verbs::{Messages, QueuePair, RecvBatch};

use super::lane;
use super::plan::Plan;
use crate::closed_loop::Timeouts;
use crate::failure::{Failure, FailureKind};

/// Longest time that the thread sleeps before it checks whether it must stop.
const LOOK: Duration = Duration::from_millis(50);
/// Number of polls before the thread checks whether it must stop.
const POLLS_A_LOOK: u32 = 256;
/// Maximum number of messages that are taken at a time.
const TAKE: usize = 256;

/// State shared by the thread and the side that checks the messages.
#[derive(Default)]
struct ResponderState {
    /// Set when the thread must end.
    stop: AtomicBool,
    /// Messages are copied into `kept`.
    keep: AtomicBool,
    kept: Mutex<VecDeque<Vec<u8>>>,
    clock: ThreadClock,
}

impl ResponderState {
    fn kept(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        lock(&self.kept)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// A thread that answers on one queue pair.
pub(super) struct Responder {
    shared: Arc<ResponderState>,
    thread: Option<JoinHandle<Result<(), Failure>>>,
}

impl Responder {
    pub(super) fn start(
        pair: Box<dyn QueuePair>,
        plan: Plan,
        timeouts: Timeouts,
    ) -> Result<Self, Failure> {
        let shared = Arc::new(ResponderState::default());
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("dma-peer".into())
            .spawn(move || {
                own.clock.begin();
                let ended = answer(pair, &own, &plan, &timeouts);
                own.clock.end();
                ended
            })
            .map_err(|error| {
                Failure::new(FailureKind::Job, format!("starting a thread: {error}"))
            })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Fails with the thread's error if it has ended by itself.
    pub(super) fn fault(&mut self) -> Result<(), Failure> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            return self.join();
        }
        Ok(())
    }

    /// Stops it. Returns the failure that had ended it before.
    pub(super) fn stop(&mut self) -> Result<(), Failure> {
        self.shared.stop.store(true, Ordering::Release);
        self.join()
    }

    fn join(&mut self) -> Result<(), Failure> {
        let panicked = |_| {
            let message = "the thread that answers has panicked";
            Err(Failure::new(FailureKind::Internal, message))
        };
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap_or_else(panicked))
    }

    /// CPU time so far, in nanoseconds.
    pub(super) fn spent_ns(&self) -> u64 {
        self.shared.clock.spent_ns()
    }

    /// Keeps messages from now on, or does not.
    pub(super) fn capture(&self, keep: bool) {
        self.shared.keep.store(keep, Ordering::Release);
    }

    /// Forgets the captured messages.
    pub(super) fn forget(&self) {
        self.shared.kept().clear();
    }

    /// Returns `true` if the message kept at `place` equals `payload`.
    pub(super) fn has(&self, place: usize, payload: &[u8]) -> bool {
        self.shared.kept().get(place).is_some_and(|kept| kept == payload)
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        // The reason why it ended was fetched while it was needed.
        let _ = self.stop();
    }
}

/// Receives and answers until it is stopped or the link is lost.
fn answer(
    mut pair: Box<dyn QueuePair>,
    shared: &ResponderState,
    plan: &Plan,
    timeouts: &Timeouts,
) -> Result<(), Failure> {
    let (mut batch, mut received) = (RecvBatch::new(), 0u64);
    while !shared.is_stopped() {
        batch.clear();
        let mut taken = 0;
        for _ in 0..POLLS_A_LOOK {
            taken = pair.receive(&mut batch, TAKE)?;
            if taken > 0 || plan.event {
                break;
            }
            std::hint::spin_loop();
        }
        if taken == 0 {
            timeouts.check(Instant::now())?;
            if plan.event {
                lane::wait(&mut *pair, LOOK)?;
            }
            continue;
        }
        if batch.as_bytes().len() != taken * plan.size {
            let what = "a message came that is not as long as was sent";
            return Err(Failure::wrong(0, what));
        }
        received += taken as u64;
        if shared.keep.load(Ordering::Acquire) {
            let mut kept = shared.kept();
            kept.extend(batch.iter().map(<[u8]>::to_vec));
            let surplus = kept.len().saturating_sub(plan.depth);
            kept.drain(..surplus);
        }
        let answer = received.to_le_bytes();
        let Some(message) = Messages::one(&answer) else {
            continue;
        };
        while pair.send(message)? == 0 && !shared.is_stopped() {
            timeouts.check(Instant::now())?;
            std::hint::spin_loop();
        }
    }
    Ok(())
}
