//! Engine that runs batches through the stages of all streams.
//!
//! 1. Each change (a batch is pushed, a stage finishes one, a node answers) requests as many *turns* of
//!    the pool's threads as there are batches that can continue.
//! 2. A thread with a turn takes the batch that is furthest down: streams alternate, and within a stream
//!    the last stage is first. So started batches leave soon, and few of them are in memory.
//! 3. A stream that holds more than its share of memory continues only with its oldest batch until that
//!    has been pulled: back-pressure from the output to the input.
//! 4. The dispatcher's thread hands batches to nodes and checks their time limits.

mod dispatcher;

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use overside_base::{lock, quietly};
use overside_device::threads::thread_cpu_ns;
use overside_tables::pack::CodecPool;

use crate::Error;
use crate::run::node::{Answers, NodeError, NodeResult, SessionId};
use crate::run::node_link::Session;
use crate::run::report::Totals;
use crate::run::runner::{apply, in_stage};
use crate::run::stream_state::StreamState;
use crate::stage::{CompiledStage, PartitionedBatch, StageFunction};
use dispatcher::Dispatcher;

/// Engine with the state of all streams.
pub(crate) struct Engine {
    pool: Weak<CodecPool>,
    /// Maximum number of host threads that work at the same time.
    threads: usize,
    state: Mutex<EngineState>,
    /// Signaled when a batch was pushed, pulled or finished.
    changed: Condvar,
    dispatcher: Arc<Dispatcher>,
}

/// State of all streams.
#[derive(Default)]
pub(crate) struct EngineState {
    pub streams: BTreeMap<u64, StreamState>,
    next_stream: u64,
    /// Number of the stream with the last turn.
    last: u64,
    /// Number of turns that were requested and not taken.
    turns: usize,
    /// Number of turns that are running.
    running: usize,
    /// Sums of the reports of streams that have been removed.
    pub ended: Totals,
}

/// Batch for a thread of the host.
struct Task {
    stream: u64,
    stage: usize,
    name: String,
    number: u64,
    pieces: Vec<PartitionedBatch>,
    bytes: u64,
    compiled: Arc<CompiledStage>,
    function: Option<Box<dyn StageFunction>>,
}

impl Engine {
    pub(crate) fn new(pool: &Arc<CodecPool>, threads: usize) -> Arc<Self> {
        Arc::new(Self {
            pool: Arc::downgrade(pool),
            threads,
            state: Mutex::default(),
            changed: Condvar::new(),
            dispatcher: Arc::default(),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, EngineState> {
        lock(&self.state)
    }

    /// Adds a stream unless the maximum is reached. Returns its number.
    pub(crate) fn add(
        self: &Arc<Self>,
        streams_max: usize,
        stream: impl FnOnce(u64) -> Result<StreamState, Error>,
    ) -> Result<u64, Error> {
        let mut state = self.lock();
        if state.streams.len() >= streams_max {
            return Err(Error::Refused(format!(
                "{streams_max} streams run already; end one, or set `streams` to more"
            )));
        }
        let number = state.next_stream;
        let stream = stream(number)?;
        if stream.stages.iter().any(|stage| stage.link.is_some()) {
            Dispatcher::start(&self.dispatcher, self)?;
            self.dispatcher.wake();
        }
        state.next_stream += 1;
        state.streams.insert(number, stream);
        Ok(number)
    }

    /// Removes a stream with all that it has.
    pub(crate) fn remove(&self, number: u64) {
        let mut state = self.lock();
        let removed = state.streams.remove(&number);
        if let Some(stream) = &removed {
            state.ended.push(stream.report());
        }
        drop(state);
        self.changed.notify_all();
        // Nodes and devices are released without the lock.
        drop(removed);
    }

    /// Waits until a batch was pushed, pulled or finished.
    pub(crate) fn wait<'a>(
        &self,
        state: MutexGuard<'a, EngineState>,
    ) -> MutexGuard<'a, EngineState> {
        (self.changed.wait(state)).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits like [`Engine::wait`], but for at most about `time`.
    pub(crate) fn wait_for<'a>(
        &self,
        state: MutexGuard<'a, EngineState>,
        time: Duration,
    ) -> MutexGuard<'a, EngineState> {
        let waited = self.changed.wait_timeout(state, time);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Continues after a change: nodes and threads may have work.
    pub(crate) fn proceed(self: &Arc<Self>, mut state: MutexGuard<'_, EngineState>) {
        if state.assign(Instant::now()) {
            self.dispatcher.wake();
        }
        self.ask_for_turns(state);
    }

    /// Requests turns after a change: threads may have work.
    pub(crate) fn ask_for_turns(self: &Arc<Self>, mut state: MutexGuard<'_, EngineState>) {
        let now = Instant::now();
        let free = self.threads.saturating_sub(state.running);
        let wanted = state.ready(free, now);
        let turns = wanted.saturating_sub(state.turns);
        state.turns += turns;
        drop(state);
        self.changed.notify_all();
        if turns > 0
            && let Some(pool) = self.pool.upgrade()
        {
            for _ in 0..turns {
                let engine = Arc::downgrade(self);
                pool.spawn(move || {
                    if let Some(engine) = engine.upgrade() {
                        engine.turn();
                    }
                });
            }
        }
    }

    /// Runs one batch through one stage.
    fn turn(self: &Arc<Self>) {
        let mut state = self.lock();
        state.turns = state.turns.saturating_sub(1);
        let Some(task) = state.take(Instant::now()) else {
            return;
        };
        state.running += 1;
        drop(state);
        let (begin, cpu_ns) = (Instant::now(), thread_cpu_ns());
        let Task { stream, stage, name, number, pieces, bytes, compiled, mut function } = task;
        let result = quietly(|| {
            let function = match &mut function {
                Some(function) => function,
                none => none.insert((compiled.make)()?),
            };
            apply(&mut **function, pieces)
        });
        let result = result.unwrap_or_else(|panic| Err(Error::Damaged(panic)));
        let result = result.map_err(|error| in_stage(&name, error));
        let (took, cpu_ns) = (begin.elapsed(), thread_cpu_ns().saturating_sub(cpu_ns));
        let mut state = self.lock();
        state.running -= 1;
        if let Some(stream) = state.streams.get_mut(&stream) {
            let stage_state = &mut stream.stages[stage];
            stage_state.counts.host.cpu_ns += cpu_ns;
            // A function that failed is not used again.
            if result.is_ok() {
                stage_state.idle.extend(function);
            }
            stream.done_on_host(stage, number, bytes, result, took);
        }
        self.proceed(state);
    }

    /// Handles that a stage was opened on a node, or could not be.
    fn opened(self: &Arc<Self>, id: SessionId, session: Result<Session, NodeError>) {
        let mut state = self.lock();
        let unused = match state.streams.get_mut(&id.stream) {
            Some(stream) => stream.opened(id, session),
            None => session.ok(),
        };
        self.proceed(state);
        drop(unused);
    }
}

impl Answers for Engine {
    fn answered(
        self: Arc<Self>,
        session: SessionId,
        number: u64,
        result: Result<NodeResult, NodeError>,
    ) {
        let mut state = self.lock();
        let closed = (state.streams.get_mut(&session.stream))
            .and_then(|stream| stream.answered(session, number, result));
        self.proceed(state);
        drop(closed);
    }

    fn lost(self: Arc<Self>, session: SessionId, reason: &NodeError) {
        let mut state = self.lock();
        let closed = (state.streams.get_mut(&session.stream))
            .and_then(|stream| stream.lost(session, &reason.to_string()));
        self.dispatcher.wake();
        self.proceed(state);
        drop(closed);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.dispatcher.stop();
    }
}

impl EngineState {
    /// Returns the number of batches that can continue, up to `most`.
    fn ready(&self, most: usize, now: Instant) -> usize {
        let mut ready = 0;
        for stream in self.streams.values() {
            if ready >= most {
                break;
            }
            ready += stream.ready(most - ready, now);
        }
        ready
    }

    /// Assigns batches to nodes. Returns `true` if there are some to be handed over.
    fn assign(&mut self, now: Instant) -> bool {
        let mut has_any = false;
        for stream in self.streams.values_mut() {
            has_any |= stream.assign(now);
        }
        has_any
    }

    /// Returns the next batch for a thread of the host, if there is one.
    fn take(&mut self, now: Instant) -> Option<Task> {
        let after = self.streams.range(self.last + 1..);
        let order: Vec<u64> =
            (after.chain(self.streams.range(..=self.last))).map(|(number, _)| *number).collect();
        for stream in order {
            let state = self.streams.get_mut(&stream)?;
            let Some((stage, number)) = state.next_for_host(now) else {
                continue;
            };
            self.last = stream;
            let stage_state = &mut state.stages[stage];
            let bytes = stage_state.slot(number).map_or(0, |slot| slot.bytes);
            return Some(Task {
                stream,
                stage,
                name: stage_state.definition.name().to_owned(),
                number,
                pieces: stage_state.begin_on_host(number)?,
                bytes,
                compiled: Arc::clone(&stage_state.compiled),
                function: stage_state.idle.pop(),
            });
        }
        None
    }
}
