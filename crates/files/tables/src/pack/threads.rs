//! A thread budget: the caller and helpers that it starts once.
//!
//! 1. [`Threads::start`] puts tasks into a queue that helpers take from, first come, first served.
//! 2. [`Pending::wait`] has the caller take from it too until its own tasks are done. So a budget
//!    of `n` is `n - 1` helpers, no more than `n` threads ever compute, and with a budget of 1
//!    everything runs on the caller's thread.
//!
//! On a virtual clock the caller's thread does all tasks, one after the other, and each is accounted as if the
//! first free thread of the budget had begun it when it was queued, or when that thread was free.
//!
//! A context of the cpu device has all of its threads beside the caller's, which would make it one
//! too many, and would leave the caller waiting.

use std::cell::Cell;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use overside_base::{lock, quietly};
use overside_device::Clock;
use overside_device::threads::thread_cpu_ns;
use overside_ops::{Config, Kernel, Operation, prepare};

use crate::Error;

thread_local! {
    static TASKS_NS: Cell<u64> = const { Cell::new(0) };
}

/// CPU time that tasks have taken on this thread so far. Time that a caller spends in a stage on
/// other tasks belongs to another stage.
pub(super) fn tasks_ns() -> u64 {
    TASKS_NS.get()
}

/// A thread's codecs, made when first needed.
#[derive(Default)]
pub(super) struct Kernels(Vec<(Operation, Option<u32>, Box<dyn Kernel>)>);

impl Kernels {
    /// The best library for the operation at that level.
    pub(super) fn get(
        &mut self,
        operation: Operation,
        level: Option<u32>,
    ) -> Result<&mut dyn Kernel, Error> {
        let is_it =
            |kernel: &(Operation, Option<u32>, _)| (kernel.0, kernel.1) == (operation, level);
        let at = match self.0.iter().position(is_it) {
            Some(at) => at,
            None => {
                let config = Config { level, ..Config::new(operation) };
                self.0.push((operation, level, prepare(&config)?.kernel()?));
                self.0.len() - 1
            }
        };
        Ok(&mut *self.0[at].2)
    }
}

type Task = Box<dyn FnOnce(&mut Kernels) + Send>;

/// See the module's text.
pub(super) struct Threads {
    shared: Arc<WorkQueue>,
    helpers: Vec<JoinHandle<()>>,
    budget: usize,
    clock: Clock,
    /// On a virtual clock: the times at which the helpers are free.
    free_at: Mutex<Vec<Instant>>,
}

#[derive(Default)]
struct WorkQueue {
    queue: Mutex<Queue>,
    /// There is a task, or the end.
    has_task: Condvar,
    /// A task is done.
    is_done: Condvar,
    /// Codecs of callers that are not at work now.
    spare: Mutex<Vec<Kernels>>,
}

#[derive(Default)]
struct Queue {
    /// Tasks, and the times at which they were queued.
    tasks: VecDeque<(Task, Instant)>,
    is_over: bool,
}

/// Results that are on their way.
pub(crate) struct Pending<T>(Arc<Mutex<Results<T>>>);

struct Results<T> {
    slots: Vec<Option<Result<T, Error>>>,
    missing: usize,
    cpu_ns: u64,
    /// End of the task that ended last.
    ended: Instant,
}

impl Threads {
    /// Starts all but one of so many threads; on a virtual clock none.
    pub(super) fn new(budget: NonZeroUsize, clock: Clock) -> Result<Self, Error> {
        let shared = Arc::<WorkQueue>::default();
        let (others, now) = (budget.get() - 1, clock.now());
        let free_at = if clock.is_virtual() { vec![now; others] } else { Vec::new() };
        let mut threads = Self {
            shared: Arc::clone(&shared),
            helpers: Vec::new(),
            budget: budget.get(),
            clock,
            free_at: Mutex::new(free_at),
        };
        if threads.clock.is_virtual() {
            return Ok(threads);
        }
        for number in 1..budget.get() {
            let shared = Arc::clone(&shared);
            let helper = std::thread::Builder::new()
                .name(format!("flow-{number}"))
                .spawn(move || shared.help())?;
            threads.helpers.push(helper);
        }
        Ok(threads)
    }

    /// Returns the number of threads that may compute at once, the caller's included.
    pub(super) fn budget(&self) -> usize {
        self.budget
    }

    pub(super) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Does a task on this thread, which on a virtual clock may stand for another.
    fn run(&self, (task, queued): (Task, Instant), kernels: &mut Kernels) {
        let now = self.clock.now();
        let first = || {
            let free_at = lock(&self.free_at);
            let numbered = free_at.iter().copied().enumerate();
            numbered.min_by_key(|(_, at)| *at).filter(|(_, at)| *at <= now)
        };
        match first() {
            Some((helper, free_at)) => {
                let end = self.clock.meanwhile(queued.max(free_at), || task(kernels));
                lock(&self.free_at)[helper] = end;
            }
            None => task(kernels),
        }
    }

    /// Queues a task that nobody waits for. Without helpers it is done when somebody waits for
    /// another one, or helps.
    pub(super) fn spawn(&self, task: impl FnOnce() + Send + 'static) {
        let task: Task = Box::new(move |_| {
            let begin = thread_cpu_ns();
            // What panics has said so to whoever asked for it.
            let _ = quietly(task);
            let spent = thread_cpu_ns().saturating_sub(begin);
            TASKS_NS.set(TASKS_NS.get() + spent);
        });
        lock(&self.shared.queue).tasks.push_back((task, self.clock.now()));
        self.shared.has_task.notify_one();
    }

    /// Does one task on this thread, if there is one.
    pub(super) fn help(&self) -> bool {
        let Some(task) = lock(&self.shared.queue).tasks.pop_front() else {
            return false;
        };
        let mut kernels = lock(&self.shared.spare).pop().unwrap_or_default();
        self.run(task, &mut kernels);
        lock(&self.shared.spare).push(kernels);
        true
    }

    /// Queues tasks. They are done at the latest by [`Pending::wait`].
    pub(super) fn start<T, F>(&self, tasks: impl IntoIterator<Item = F>) -> Pending<T>
    where
        T: Send + 'static,
        F: FnOnce(&mut Kernels) -> Result<T, Error> + Send + 'static,
    {
        let now = self.clock.now();
        let results = Results { slots: Vec::new(), missing: 0, cpu_ns: 0, ended: now };
        let results = Arc::new(Mutex::new(results));
        let tasks: Vec<(Task, Instant)> = (tasks.into_iter().enumerate())
            .map(|(place, task)| (self.task(place, task, Arc::clone(&results)), now))
            .collect();
        {
            let mut results = lock(&results);
            results.slots.resize_with(tasks.len(), || None);
            results.missing = tasks.len();
        }
        let wanted = tasks.len().min(self.helpers.len());
        lock(&self.shared.queue).tasks.extend(tasks);
        (0..wanted).for_each(|_| self.shared.has_task.notify_one());
        Pending(results)
    }

    fn task<T, F>(&self, place: usize, task: F, results: Arc<Mutex<Results<T>>>) -> Task
    where
        T: Send + 'static,
        F: FnOnce(&mut Kernels) -> Result<T, Error> + Send + 'static,
    {
        let (shared, clock) = (Arc::downgrade(&self.shared), self.clock.clone());
        Box::new(move |kernels| {
            let begin = thread_cpu_ns();
            let result = quietly(|| task(kernels)).unwrap_or_else(|panic| {
                *kernels = Kernels::default();
                Err(Error::Codec(overside_ops::Error::Library {
                    library: "the codec",
                    reason: panic,
                }))
            });
            let spent = thread_cpu_ns().saturating_sub(begin);
            TASKS_NS.set(TASKS_NS.get() + spent);
            let mut results = lock(&results);
            results.slots[place] = Some(result);
            results.missing -= 1;
            results.cpu_ns += spent;
            results.ended = results.ended.max(clock.now());
            let is_last = results.missing == 0;
            drop(results);
            if is_last && let Some(shared) = shared.upgrade() {
                // Under the lock that waiters look under, so that none misses it.
                let _queue = lock(&shared.queue);
                shared.is_done.notify_all();
            }
        })
    }

    /// Works on the queue until these are done. The results in the order of their tasks, and the
    /// CPU time that they took.
    pub(super) fn wait<T>(&self, pending: Pending<T>) -> Result<(Vec<T>, u64), Error> {
        let mut kernels = lock(&self.shared.spare).pop().unwrap_or_default();
        let mut queue = lock(&self.shared.queue);
        while lock(&pending.0).missing > 0 {
            queue = match queue.tasks.pop_front() {
                Some(task) => {
                    drop(queue);
                    self.run(task, &mut kernels);
                    lock(&self.shared.queue)
                }
                None => (self.shared.is_done.wait(queue))
                    .unwrap_or_else(std::sync::PoisonError::into_inner),
            };
        }
        drop(queue);
        lock(&self.shared.spare).push(kernels);
        let mut results = lock(&pending.0);
        if self.clock.is_virtual() {
            self.clock.sleep(results.ended.saturating_duration_since(self.clock.now()));
        }
        let slots = std::mem::take(&mut results.slots);
        // Every slot is filled when none is missing.
        let values = slots.into_iter().flatten().collect::<Result<_, _>>()?;
        Ok((values, results.cpu_ns))
    }
}

impl<T> Pending<T> {
    /// Returns `true` if all results are there, so that waiting takes no time.
    pub(super) fn is_done(&self) -> bool {
        lock(&self.0).missing == 0
    }
}

impl WorkQueue {
    fn help(&self) {
        let mut kernels = Kernels::default();
        let mut queue = lock(&self.queue);
        loop {
            queue = match queue.tasks.pop_front() {
                Some((task, _)) => {
                    drop(queue);
                    task(&mut kernels);
                    lock(&self.queue)
                }
                None if queue.is_over => return,
                None => {
                    (self.has_task.wait(queue)).unwrap_or_else(std::sync::PoisonError::into_inner)
                }
            };
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.queue);
        queue.is_over = true;
        // Nobody waits for these any more.
        queue.tasks.clear();
        drop(queue);
        self.shared.has_task.notify_all();
        for helper in self.helpers.drain(..) {
            // A task may have been the last one that knew of this.
            if helper.thread().id() != std::thread::current().id() {
                // Tasks cannot panic.
                let _ = helper.join();
            }
        }
    }
}
