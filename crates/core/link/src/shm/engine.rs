//! Thread that copies in place of a DMA engine.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use overside_base::lock;
use overside_device::threads::{Doorbell, ThreadClock, pin};

use super::copy::{self, Direct};
use crate::doorbell::{Armed, Event};
use crate::shared::Shared;
use crate::spsc::{Receiver, Sender};
use crate::verbs::{Completion, ConnectError};

/// Options of a copy engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineOptions {
    /// The core of this machine that it runs on; any of the process's if `None`.
    pub core: Option<usize>,
    /// The times at which it releases completions; as soon as the bytes are there if `None`.
    pub shape: Option<Shape>,
}

/// Timing of a DMA engine, taken from a profile. Bytes are copied when work arrives; its completion
/// is held back until the time that this model gives. Values that no source has published are zero,
/// and are named in `missing`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Reads.
    pub read: Path,
    /// Writes.
    pub write: Path,
    /// Parameters without a fact. Times are lower bounds then.
    pub missing: Vec<String>,
}

/// The times of one direction. The engine does one piece of work after the other; each keeps it
/// busy for `busy_ns` and completes `latency_ns` after that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Time from the end of the transfer until the completion is visible, in nanoseconds.
    pub latency_ns: u64,
    /// The least time between two pieces of work, in nanoseconds: the inverse of their rate.
    pub busy_ns: u64,
}

/// One queue pair's way to the engine and back.
pub(super) struct Lane {
    pub(super) requests: Receiver<Direct>,
    pub(super) completions: Sender<Completion>,
    /// The queue pair's wish to be woken.
    pub(super) armed: Shared<Armed>,
    pub(super) event: Arc<Event>,
}

/// Pieces of work of one lane before it is another's turn.
const TURN: usize = 16;
/// Longest time that the engine polls for work before it sleeps.
const PATIENCE: Duration = Duration::from_micros(50);

/// State that the engine and its users share.
struct Common {
    doorbell: Doorbell,
    stop: AtomicBool,
    /// Lanes that the engine has not seen yet.
    opened: Mutex<Vec<Lane>>,
    has_opened: AtomicBool,
    dead: AtomicBool,
}

/// The engine's thread, which ends when this is dropped.
pub(super) struct Engine {
    common: Arc<Common>,
    pub(super) clock: Arc<ThreadClock>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    pub(super) fn start(options: &EngineOptions) -> Result<Self, ConnectError> {
        let common = Arc::new(Common {
            doorbell: Doorbell::new(),
            stop: AtomicBool::new(false),
            opened: Mutex::default(),
            has_opened: AtomicBool::new(false),
            dead: AtomicBool::new(false),
        });
        let clock = Arc::new(ThreadClock::default());
        let (report, pinned) = mpsc::channel();
        let thread = std::thread::Builder::new().name("link-engine".into());
        let thread = thread
            .spawn({
                let (common, clock) = (Arc::clone(&common), Arc::clone(&clock));
                let runner = Runner::new(Arc::clone(&common), options.shape.clone());
                let core = options.core;
                move || {
                    // Says so even if the thread panics.
                    let _dead = Dead(common);
                    clock.begin();
                    let is_placed = core.map_or(Ok(()), pin);
                    let ready = is_placed.is_ok();
                    let _ = report.send(is_placed);
                    if ready {
                        runner.run();
                    }
                    clock.end();
                }
            })
            .map_err(|source| ConnectError::System {
                doing: "starting the copy engine".into(),
                source,
            })?;
        let gone = || Err(io::Error::other("its thread ended"));
        (pinned.recv().unwrap_or_else(|_| gone())).map_err(|error| ConnectError::Unavailable {
            transport: "the copy engine",
            reason: error.to_string(),
        })?;
        Ok(Self { common, clock, thread: Some(thread) })
    }

    /// Serves one lane more.
    pub(super) fn add(&self, lane: Lane) {
        let mut opened = lock(&self.common.opened);
        opened.push(lane);
        self.common.has_opened.store(true, Ordering::Release);
        drop(opened);
        self.ring();
    }

    /// Wakes the engine: there is work.
    pub(super) fn ring(&self) {
        self.common.doorbell.ring(1);
    }

    /// Returns `true` if the thread ended without an order to stop.
    pub(super) fn is_dead(&self) -> bool {
        self.common.dead.load(Ordering::Acquire)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.common.stop.store(true, Ordering::Release);
        self.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Dead(Arc<Common>);

impl Drop for Dead {
    fn drop(&mut self) {
        self.0.dead.store(true, Ordering::Release);
    }
}

/// A completion that is held back.
struct Due {
    at: Instant,
    lane: usize,
    completion: Completion,
}

struct Runner {
    common: Arc<Common>,
    shape: Option<Shape>,
    lanes: Vec<Lane>,
    /// Time at which the modeled engine finishes the work that it has.
    free_at: Instant,
    /// Finished work in the order in which it is released: by time, as far as the latencies of the two
    /// directions agree.
    due: VecDeque<Due>,
}

impl Runner {
    fn new(common: Arc<Common>, shape: Option<Shape>) -> Self {
        Self { common, shape, lanes: Vec::new(), free_at: Instant::now(), due: VecDeque::new() }
    }

    fn run(mut self) {
        let mut idle_since = None;
        while !self.common.stop.load(Ordering::Acquire) {
            if self.common.has_opened.swap(false, Ordering::Acquire) {
                let mut opened = lock(&self.common.opened);
                self.lanes.append(&mut opened);
            }
            let mut busy = self.release();
            for lane in 0..self.lanes.len() {
                busy |= self.serve(lane);
            }
            if busy {
                idle_since = None;
                continue;
            }
            let now = Instant::now();
            if now - *idle_since.get_or_insert(now) > PATIENCE {
                self.sleep(now);
                idle_since = None;
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Sleeps until there is work, or shortly before something is due.
    fn sleep(&mut self, now: Instant) {
        let timeout = match self.due.front() {
            None => None,
            Some(due) => match due.at.checked_duration_since(now + PATIENCE) {
                None => return,
                timeout => timeout,
            },
        };
        let (common, lanes) = (&self.common, &mut self.lanes);
        common.doorbell.sleep(timeout, || {
            common.stop.load(Ordering::Acquire)
                || common.has_opened.load(Ordering::Acquire)
                || lanes.iter_mut().any(|lane| !lane.requests.is_empty())
        });
    }

    /// Copies for one lane. `false`: there was nothing to do.
    fn serve(&mut self, index: usize) -> bool {
        let mut served = false;
        for _ in 0..TURN {
            let lane = &mut self.lanes[index];
            let Some(direct) = lane.requests.take() else {
                break;
            };
            served = true;
            match &self.shape {
                None => {
                    let completion = copy::run(direct);
                    // A queue pair has no more in flight than fits; one that is gone, no matter.
                    let _ = lane.completions.stage(completion);
                }
                Some(shape) => {
                    let path = if direct.is_read() { &shape.read } else { &shape.write };
                    let begin = Instant::now().max(self.free_at);
                    self.free_at = begin + Duration::from_nanos(path.busy_ns);
                    let at = self.free_at + Duration::from_nanos(path.latency_ns);
                    let mut completion = copy::run(direct);
                    completion.late = Instant::now() > at;
                    self.due.push_back(Due { at, lane: index, completion });
                }
            }
        }
        let lane = &mut self.lanes[index];
        lane.requests.release();
        hand_over(lane);
        served
    }

    /// Releases completed work that is due. Returns `false` if there was none.
    fn release(&mut self) -> bool {
        let mut released = false;
        while let Some(due) = self.due.front() {
            if Instant::now() < due.at {
                break;
            }
            released = true;
            if let Some(due) = self.due.pop_front() {
                let lane = &mut self.lanes[due.lane];
                let _ = lane.completions.stage(due.completion);
                hand_over(lane);
            }
        }
        released
    }
}

fn hand_over(lane: &mut Lane) {
    if lane.completions.publish() && lane.armed.must_notify() {
        lane.event.signal();
    }
}
