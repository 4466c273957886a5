//! Starting threads.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};

use overside_base::{lock, panic_text};

use super::ContextState;
use super::worker_queue::WorkerQueue;
use crate::primitive::Ordering;

/// Name, core and main function of one thread.
pub struct WorkerMain {
    name: String,
    core: Option<usize>,
    run: Box<dyn FnOnce(WorkerQueue) + Send>,
}

impl WorkerMain {
    /// A loop over [`WorkerQueue::next`] that ends at [`super::Next::Stop`]. The name is the thread's;
    /// Linux keeps 15 bytes of it.
    pub fn new(name: impl Into<String>, run: impl FnOnce(WorkerQueue) + Send + 'static) -> Self {
        Self { name: name.into(), core: None, run: Box::new(run) }
    }

    /// Keeps the thread on one core, by its number.
    pub fn pinned(self, core: usize) -> Self {
        Self { core: Some(core), ..self }
    }
}

/// Starts a thread, which reports whether it has got its core and then runs its body.
pub(super) fn start(
    shared: &Arc<ContextState>,
    index: usize,
    body: WorkerMain,
    report: mpsc::Sender<io::Result<()>>,
) -> io::Result<()> {
    let WorkerMain { name, core, run } = body;
    let context = Arc::clone(shared);
    let alive = || lock(&shared.alive);
    *alive() += 1;
    let thread = std::thread::Builder::new().name(name).spawn(move || {
        context.clocks[index].begin();
        let pinned = core.map_or(Ok(()), pin);
        let ready = pinned.is_ok();
        // The receiver is gone if another thread could not be started.
        let _ = report.send(pinned);
        if ready {
            let queue = WorkerQueue::new(Arc::clone(&context));
            let ended = catch_unwind(AssertUnwindSafe(|| run(queue)));
            if !context.stop.load(Ordering::Acquire) {
                context.lose(match ended {
                    Ok(()) => "a thread returned".to_owned(),
                    Err(panic) => format!("a thread panicked: {}", panic_text(&*panic)),
                });
            }
        }
        context.clocks[index].end();
        *lock(&context.alive) -= 1;
        context.ended.notify_all();
    });
    if thread.is_err() {
        *alive() -= 1;
    }
    thread.map(drop)
}

/// Pins the calling thread to the core with this number.
///
/// # Errors
/// There is no such core, or this process may not run on it. The message names the core.
pub fn pin(core: usize) -> io::Result<()> {
    use rustix::thread::{CpuSet, sched_setaffinity};
    if core >= CpuSet::MAX_CPU {
        return Err(io::Error::other(format!("there is no core {core}")));
    }
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set)
        .map_err(|error| io::Error::other(format!("core {core} cannot be used: {error}")))
}
