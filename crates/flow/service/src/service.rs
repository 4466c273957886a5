//! State of a service, independent of the protocols that clients use.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow_flight::FlightData;
use overside_flow::Error as FlowError;
use overside_flow::pack::{CodecPool, UnpackOptions};
use overside_flow::{Definition, NodeFaults, Packing};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};
use tonic::{Status, Streaming};

use crate::error::ServiceError;
use crate::input::producers::Producers;
use crate::pipeline_host::PipelineHost;

/// Queries of trees at a time.
const QUERIES: usize = 2;

/// Most bytes of a decompressed batch, as a multiple of the longest message that the service takes.
const EXPANSION_MAX: u64 = 64;

/// Limits on messages, connections, subscribers and waiting times of a service.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Longest message in bytes.
    pub message_bytes: usize,
    /// Connections at a time.
    pub connections: usize,
    /// Calls at a time on one connection.
    pub calls_per_connection: u32,
    /// Subscribers at a time.
    pub subscribers: usize,
    /// Longest time that a subscriber may take nothing while its output is full.
    pub stall: Duration,
    /// Longest time that the service waits at its end for batches that are on their way.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 64 << 20,
            connections: 1024,
            calls_per_connection: 64,
            subscribers: 256,
            stall: Duration::from_secs(60),
            drain: Duration::from_secs(10),
        }
    }
}

/// A service.
pub struct Service {
    /// The pipeline; a node has none.
    pub hosted: Option<PipelineHost>,
    /// Producers that have sent batches, or whose batches a start found on disk.
    pub producers: Producers,
    /// Threads and devices that unpack and pack messages.
    pub packing: Arc<Packing>,
    /// Limits that the service enforces.
    pub limits: Limits,
    /// Streams of producers at a time.
    pub streams: Arc<Semaphore>,
    /// Subscribers at a time.
    pub subscribers: Arc<Semaphore>,
    /// Queries of trees at a time; others wait.
    pub queries: Arc<Semaphore>,
    /// Counts of events since the start.
    pub counters: Counters,
    /// Faults of stages that run here for other services, to test how those react. Only the
    /// slowdown has an effect.
    pub faults: NodeFaults,
    /// Time at which the service was created.
    pub started: Instant,
    ending: watch::Sender<bool>,
}

/// Counts of connections, calls, streams and batches since the start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that were accepted.
    pub connections: AtomicU64,
    /// Connections that are open now.
    pub open_connections: AtomicUsize,
    /// Connections that were closed at once because the limit was reached.
    pub rejected_connections: AtomicU64,
    /// Calls without the password.
    pub unauthenticated: AtomicU64,
    /// Streams of producers.
    pub put_streams: AtomicU64,
    /// Streams of producers that are open now.
    pub open_put_streams: AtomicUsize,
    /// Batches received, with duplicates.
    pub received_batches: AtomicU64,
    /// Rows of these batches.
    pub received_rows: AtomicU64,
    /// Bytes of their messages.
    pub received_bytes: AtomicU64,
    /// Batches that were there before.
    pub duplicates: AtomicU64,
    /// Batches that could not be processed.
    pub failed_batches: AtomicU64,
    /// Batches of the spill directory that were acknowledged and lost.
    pub lost_batches: AtomicU64,
    /// Batches sent to subscribers.
    pub sent_batches: AtomicU64,
    /// Rows of these batches.
    pub sent_rows: AtomicU64,
    /// Bytes of their messages.
    pub sent_bytes: AtomicU64,
    /// Batches of stages that ran here for other services.
    pub node_batches: AtomicU64,
}

impl Counters {
    /// Adds to a count.
    pub fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}

/// Work that a service does.
pub enum Work {
    /// Runs a pipeline.
    Pipeline(Box<Definition>),
    /// Runs stages for others, a limited number of streams at a time.
    Node {
        /// Streams at a time.
        streams: usize,
        /// Threads and devices that unpack and pack messages.
        pool: Arc<CodecPool>,
    },
}

impl Service {
    /// A service that does this; its connections are on `runtime`.
    ///
    /// # Errors
    /// [`ServiceError`]: a stage, a node or the spill directory cannot be used.
    pub fn new(work: Work, limits: Limits, runtime: &Handle) -> Result<Self, ServiceError> {
        let (streams, packing) = match &work {
            Work::Pipeline(definition) => {
                let pool = CodecPool::new(definition.threads()).map_err(FlowError::from)?;
                (definition.streams(), Packing::open(definition, &Arc::new(pool))?)
            }
            Work::Node { streams, pool } => (*streams, Packing::of_pool(pool)),
        };
        let packing = Arc::new(packing);
        let producers = Producers::default();
        let counters = Counters::default();
        let hosted = match work {
            Work::Pipeline(definition) => {
                let (hosted, recovered, lost) = PipelineHost::open(*definition, &packing, runtime)?;
                for batch in recovered {
                    producers.get(&batch.producer).recover(batch.sequence);
                }
                Counters::add(&counters.lost_batches, lost);
                Some(hosted)
            }
            Work::Node { .. } => None,
        };
        Ok(Self {
            hosted,
            producers,
            packing,
            streams: Arc::new(Semaphore::new(streams)),
            subscribers: Arc::new(Semaphore::new(limits.subscribers)),
            limits,
            queries: Arc::new(Semaphore::new(QUERIES)),
            counters,
            faults: NodeFaults::default(),
            started: Instant::now(),
            ending: watch::Sender::new(false),
        })
    }

    /// Bounds of what comes in, which is refused before it is decompressed: a batch, and the dictionaries of a stream, take
    /// no more than the memory of the definition, or than the longest message if that is more.
    pub fn unpack_options(&self) -> UnpackOptions {
        let memory = |hosted: &PipelineHost| hosted.pipeline.definition().memory_bytes();
        let message = self.limits.message_bytes as u64;
        let memory = self.hosted.as_ref().map_or(u64::MAX, memory).max(message);
        UnpackOptions { message_bytes_max: message.saturating_mul(EXPANSION_MAX).min(memory) }
    }

    /// Reads the next message of a call; `None` at its end, and if nobody takes its batches any more.
    ///
    /// # Errors
    /// The stream is invalid, or the service ends.
    pub async fn next_message<T>(
        &self,
        messages: &mut Streaming<FlightData>,
        taker: &mpsc::Sender<T>,
    ) -> Result<Option<FlightData>, Status> {
        tokio::select! {
            message = messages.message() => message,
            () = self.ending() => Err(Status::unavailable("the service is shutting down")),
            () = taker.closed() => Ok(None),
        }
    }

    /// Takes no more batches; those that are there are delivered.
    pub fn end(&self) {
        self.ending.send_replace(true);
    }

    /// Returns `true` if the service takes no more batches.
    pub fn is_ending(&self) -> bool {
        *self.ending.borrow()
    }

    /// Waits until it takes no more batches.
    pub async fn ending(&self) {
        // The sender is here, so that it cannot fail.
        let _ = self.ending.subscribe().wait_for(|is_ending| *is_ending).await;
    }
}
