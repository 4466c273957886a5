//! Node that consists of threads of this process. It takes the place of another machine, to try a pipeline
//! and to test slow and lost nodes.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arrow_schema::SchemaRef;
use overside_base::{lock, quietly};
use overside_device::threads::thread_cpu_ns;

use crate::Error;
use crate::definition::node::NodeDefinition;
use crate::definition::stage::StageDefinition;
use crate::run::node::{Completions, Node, NodeError, NodeResult, NodeStage};
use crate::run::runner::StageRunner;
use crate::stage::PartitionedBatch;

/// Faults of a node, which can be changed while it works.
#[derive(Debug)]
pub struct NodeFaults {
    /// Factor by which the node is slowed down, in thousandths.
    slowdown: AtomicU64,
    /// Number of batches until the node is lost.
    left: AtomicU64,
}

impl Default for NodeFaults {
    /// Returns no faults.
    fn default() -> Self {
        Self { slowdown: AtomicU64::new(1000), left: AtomicU64::new(u64::MAX) }
    }
}

impl NodeFaults {
    /// Slows the node down by `factor`, at least 1.
    pub fn slow_down(&self, factor: f64) {
        let thousandths = (factor.max(1.0) * 1000.0) as u64;
        self.slowdown.store(thousandths, Ordering::Relaxed);
    }

    /// Returns the time to add to work that took `took`, so that the node is as slow as it is set
    /// to be.
    pub fn delay(&self, took: Duration) -> Duration {
        let factor = self.slowdown.load(Ordering::Relaxed) as f64 / 1000.0;
        took.mul_f64((factor - 1.0).max(0.0))
    }

    /// Sets the number of batches after which the node is lost.
    pub fn lose_after(&self, batches: u64) {
        self.left.store(batches, Ordering::Relaxed);
    }

    fn is_lost(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }
}

/// Threads of this process that run stages like another machine.
pub struct InProcessNode {
    shared: Arc<NodeState>,
}

struct NodeState {
    faults: Arc<NodeFaults>,
    queue: Mutex<Queue>,
    has_work: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    is_over: bool,
}

/// Waiting batch.
struct Job {
    stage: Arc<OpenStage>,
    number: u64,
    pieces: Vec<PartitionedBatch>,
    came: Instant,
}

/// Open stage, with the instances of its function that no thread uses now.
struct OpenStage {
    text: String,
    schema: SchemaRef,
    completions: Completions,
    idle: Mutex<Vec<StageRunner>>,
    is_closed: std::sync::atomic::AtomicBool,
}

impl InProcessNode {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn new(threads: NonZeroUsize) -> Result<Self, Error> {
        let shared = Arc::new(NodeState {
            faults: Arc::default(),
            queue: Mutex::default(),
            has_work: Condvar::new(),
        });
        let node = Self { shared };
        for number in 0..threads.get() {
            let shared = Arc::clone(&node.shared);
            std::thread::Builder::new()
                .name(format!("node-{number}"))
                .spawn(move || shared.work())?;
        }
        Ok(node)
    }

    /// Starts a node with the threads and the faults of a definition.
    ///
    /// # Errors
    /// Those of [`InProcessNode::new`].
    pub fn of_definition(definition: &NodeDefinition) -> Result<Self, Error> {
        let node = Self::new(definition.threads())?;
        node.faults().slow_down(definition.slowdown());
        if let Some(batches) = definition.lost_after {
            node.faults().lose_after(batches);
        }
        Ok(node)
    }

    /// Returns the node's faults, which can be changed while it works.
    pub fn faults(&self) -> Arc<NodeFaults> {
        Arc::clone(&self.shared.faults)
    }
}

impl Drop for InProcessNode {
    /// Ends the threads without waiting for them: one of them may be the one that drops the node.
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.queue);
        queue.is_over = true;
        queue.jobs.clear();
        drop(queue);
        self.shared.has_work.notify_all();
    }
}

impl Node for InProcessNode {
    fn open(
        &self,
        stage: &StageDefinition,
        schema: &SchemaRef,
        completions: Completions,
    ) -> Result<Box<dyn NodeStage>, NodeError> {
        if self.shared.faults.is_lost() {
            return Err(NodeError::new("it is set to be lost"));
        }
        // Serialized as for another machine.
        let text = stage.to_toml();
        let runner = StageRunner::parse(&text, schema).map_err(NodeError::new)?;
        let open = OpenStage {
            text,
            schema: Arc::clone(schema),
            completions,
            idle: Mutex::new(vec![runner]),
            is_closed: false.into(),
        };
        Ok(Box::new(InProcessStage { stage: Arc::new(open), shared: Arc::clone(&self.shared) }))
    }

    fn is_real(&self) -> bool {
        false
    }
}

struct InProcessStage {
    stage: Arc<OpenStage>,
    shared: Arc<NodeState>,
}

impl NodeStage for InProcessStage {
    fn submit(&mut self, number: u64, pieces: Vec<PartitionedBatch>) -> Result<(), NodeError> {
        let job = Job { stage: Arc::clone(&self.stage), number, pieces, came: Instant::now() };
        lock(&self.shared.queue).jobs.push_back(job);
        self.shared.has_work.notify_one();
        Ok(())
    }
}

impl Drop for InProcessStage {
    fn drop(&mut self) {
        self.stage.is_closed.store(true, Ordering::Relaxed);
        let mut queue = lock(&self.shared.queue);
        queue.jobs.retain(|job| !Arc::ptr_eq(&job.stage, &self.stage));
    }
}

impl NodeState {
    fn work(&self) {
        loop {
            let mut queue = lock(&self.queue);
            let job = loop {
                match queue.jobs.pop_front() {
                    Some(job) => break job,
                    None if queue.is_over => return,
                    None => {
                        queue = (self.has_work.wait(queue)).unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            drop(queue);
            self.run(job);
        }
    }

    fn run(&self, job: Job) {
        let taken =
            (self.faults.left).fetch_update(
                Ordering::Relaxed,
                Ordering::Relaxed,
                |left| match left {
                    u64::MAX => Some(left),
                    _ => left.checked_sub(1),
                },
            );
        if taken.is_err() {
            job.stage.completions.lost(NodeError::new("it is set to be lost"));
            return;
        }
        let (begin, cpu_ns) = (Instant::now(), thread_cpu_ns());
        let idle = lock(&job.stage.idle).pop();
        let runner =
            idle.map_or_else(|| StageRunner::parse(&job.stage.text, &job.stage.schema), Ok);
        let result = runner.and_then(|mut runner| {
            let result = quietly(|| runner.run(job.pieces));
            lock(&job.stage.idle).push(runner);
            result.unwrap_or_else(|panic| Err(Error::Damaged(panic)))
        });
        let cpu_ns = thread_cpu_ns().saturating_sub(cpu_ns);
        self.pause(begin.elapsed(), &job.stage);
        let result = result.map_err(NodeError::new).map(|pieces| NodeResult {
            pieces,
            queued_ns: begin.saturating_duration_since(job.came).as_nanos() as u64,
            run_ns: begin.elapsed().as_nanos() as u64,
            cpu_ns,
            host_cpu_ns: 0,
        });
        job.stage.completions.done(job.number, result);
    }

    /// Waits so that the work takes as long as the node's faults require.
    fn pause(&self, took: Duration, stage: &OpenStage) {
        const STEP: Duration = Duration::from_millis(20);
        let until = Instant::now() + self.faults.delay(took);
        while !stage.is_closed.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(STEP));
        }
    }
}
