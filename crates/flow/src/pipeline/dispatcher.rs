//! The thread that hands batches to nodes and looks after their time limits. It computes nothing.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use overside_base::{lock, quietly};
use overside_device::threads::thread_cpu_ns;

use super::engine::Engine;
use super::node::{Completions, NodeError, SessionId};
use super::node_link::Session;
use super::stage::Piece;
use super::stream_state::Watched;

/// How often nodes are looked at that have something.
const TICK: Duration = Duration::from_millis(5);
/// And others.
const REST: Duration = Duration::from_secs(1);

/// What wakes the thread.
#[derive(Default)]
pub(super) struct Dispatcher {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_started: bool,
    is_woken: bool,
    is_over: bool,
}

impl Dispatcher {
    /// Starts the thread, unless it runs.
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

    /// There may be something to hand over.
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
            wait = if engine.look_after_nodes() {
                TICK
            } else {
                REST
            };
        }
    }
}

impl Engine {
    /// Hands over what nodes may have. Whether they are to be looked at again soon.
    fn look_after_nodes(self: &Arc<Self>) -> bool {
        let now = Instant::now();
        let mut state = self.lock();
        let mut all = Vec::new();
        for (number, stream) in &mut state.streams {
            for stage in 0..stream.stages.len() {
                let Some(link) = &stream.stages[stage].link else {
                    continue;
                };
                let node = Arc::clone(&link.node);
                let watched = stream.watch(stage, now);
                let state = &stream.stages[stage];
                let opening = state.link.as_ref().map_or(0, |link| link.opening);
                let id = SessionId {
                    stream: *number,
                    stage,
                    opening,
                };
                let definition = Arc::clone(&state.definition);
                all.push((
                    id,
                    watched,
                    node,
                    definition,
                    Arc::clone(&state.input_schema),
                ));
            }
        }
        // A node that is late, or back, changes what threads can do.
        self.ask_for_turns(state);
        let mut is_busy = false;
        for (id, watched, node, definition, schema) in all {
            let Watched {
                opening,
                submissions,
                closed,
                is_busy: is_waiting,
            } = watched;
            drop(closed);
            is_busy |= is_waiting;
            if opening.is_some() {
                let completions = Completions {
                    engine: Arc::downgrade(self),
                    session: id,
                };
                let opened = quietly(|| node.open(&definition, &schema, completions));
                let opened = opened.unwrap_or_else(|panic| Err(NodeError::new(panic)));
                self.opened(id, opened.map(|stage| Arc::new(Mutex::new(stage))));
            }
            if !submissions.is_empty() {
                self.submit(id, submissions);
            }
        }
        is_busy
    }

    fn submit(self: &Arc<Self>, id: SessionId, submissions: Vec<(Session, u64, Vec<Piece>)>) {
        let cpu_ns = thread_cpu_ns();
        for (session, number, pieces) in submissions {
            let submitted = quietly(|| lock(&session).submit(number, pieces));
            let submitted = submitted.unwrap_or_else(|panic| Err(NodeError::new(panic)));
            if let Err(error) = submitted {
                self.lost(id, &error);
                break;
            }
        }
        let cpu_ns = thread_cpu_ns().saturating_sub(cpu_ns);
        let mut state = self.lock();
        let stage =
            (state.streams.get_mut(&id.stream)).and_then(|stream| stream.stages.get_mut(id.stage));
        if let Some(stage) = stage {
            stage.counts.host.cpu_ns += cpu_ns;
        }
    }
}
