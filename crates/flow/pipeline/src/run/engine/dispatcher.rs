//! Thread that hands batches to nodes and checks their time limits. It computes nothing.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use overside_base::{lock, quietly};
use overside_device::threads::thread_cpu_ns;

use super::Engine;
use crate::definition::stage::StageDefinition;
use crate::run::node::{Answers, Completions, Node, NodeError, SessionId};
use crate::run::stream_state::Submission;

/// Interval at which nodes that have batches, are being opened or are due for a retry are checked.
const TICK: Duration = Duration::from_millis(5);
/// Interval for other nodes.
const REST: Duration = Duration::from_secs(1);

/// Handle that wakes and stops the dispatcher's thread.
#[derive(Default)]
pub(super) struct Dispatcher {
    state: Mutex<DispatcherState>,
    changed: Condvar,
}

#[derive(Default)]
struct DispatcherState {
    is_started: bool,
    is_woken: bool,
    is_over: bool,
}

impl Dispatcher {
    /// Starts the thread unless it is running.
    pub(super) fn start(this: &Arc<Self>, engine: &Arc<Engine>) -> std::io::Result<()> {
        let mut state = lock(&this.state);
        if !state.is_started {
            let (dispatcher, engine) = (Arc::clone(this), Arc::downgrade(engine));
            std::thread::Builder::new()
                .name("flow-dispatch".into())
                .spawn(move || dispatcher.work(&engine))?;
            state.is_started = true;
        }
        Ok(())
    }

    /// Wakes the thread: there may be batches to hand over.
    pub(super) fn wake(&self) {
        lock(&self.state).is_woken = true;
        self.changed.notify_one();
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        lock(&self.state).is_over = true;
        self.changed.notify_one();
    }

    fn work(&self, engine: &Weak<Engine>) {
        let mut wait = TICK;
        loop {
            let mut state = lock(&self.state);
            if !state.is_woken && !state.is_over {
                let waited = self.changed.wait_timeout(state, wait);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            state.is_woken = false;
            if state.is_over {
                return;
            }
            drop(state);
            let Some(engine) = engine.upgrade() else {
                return;
            };
            wait = if engine.look_after_nodes() { TICK } else { REST };
        }
    }
}

impl Engine {
    /// Hands batches to nodes. Returns `true` if nodes must be checked again soon.
    fn look_after_nodes(self: &Arc<Self>) -> bool {
        let now = Instant::now();
        let mut state = self.lock();
        let (mut all, mut is_busy) = (Vec::new(), false);
        for (number, stream) in &mut state.streams {
            for stage in 0..stream.stages.len() {
                let Some(link) = &stream.stages[stage].link else {
                    continue;
                };
                let node = Arc::clone(&link.node);
                let watched = stream.watch(stage, now);
                is_busy |= watched.is_busy;
                let state = &stream.stages[stage];
                let opening = watched.opening.map(|opening| Opening {
                    id: SessionId { stream: *number, stage, opening },
                    node,
                    definition: Arc::clone(&state.definition),
                    schema: Arc::clone(&state.input_schema),
                });
                all.push((watched.closed, opening));
            }
        }
        state.assign(now);
        let streams = state.streams.iter_mut();
        let outboxes: Vec<(u64, Vec<Submission>)> =
            streams.map(|(number, stream)| (*number, stream.take_outbox())).collect();
        // A node that is late, or back, changes the work of threads.
        self.ask_for_turns(state);
        for (closed, opening) in all {
            drop(closed);
            if let Some(opening) = opening {
                self.open(opening);
            }
        }
        for (stream, outbox) in outboxes {
            for submission in outbox {
                self.submit(stream, submission);
            }
        }
        is_busy
    }

    fn open(self: &Arc<Self>, opening: Opening) {
        let Opening { id, node, definition, schema } = opening;
        let engine = Arc::downgrade(self);
        let completions = Completions { answers: engine, session: id };
        let opened = quietly(|| node.open(&definition, &schema, completions));
        let opened = opened.unwrap_or_else(|panic| Err(NodeError::new(panic)));
        self.opened(id, opened.map(|stage| Arc::new(Mutex::new(stage))));
    }

    fn submit(self: &Arc<Self>, stream: u64, submission: Submission) {
        let Submission { stage, opening, session, number, pieces } = submission;
        let cpu_ns = thread_cpu_ns();
        let submitted = quietly(|| lock(&session).submit(number, pieces));
        let submitted = submitted.unwrap_or_else(|panic| Err(NodeError::new(panic)));
        let cpu_ns = thread_cpu_ns().saturating_sub(cpu_ns);
        if let Some(stream) = self.lock().streams.get_mut(&stream) {
            stream.stages[stage].counts.host.cpu_ns += cpu_ns;
        }
        if let Err(error) = submitted {
            let id = SessionId { stream, stage, opening };
            Arc::clone(self).lost(id, &error);
        }
    }
}

/// Stage that is to be opened on a node.
struct Opening {
    id: SessionId,
    node: Arc<dyn Node>,
    definition: Arc<StageDefinition>,
    schema: SchemaRef,
}
