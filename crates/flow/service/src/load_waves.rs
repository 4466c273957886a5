//! Waves of batches from an open-loop producer, to measure how a service handles bursts.
//!
//! 1. A batch is sent when it is due, even if the previous one was not taken yet. So a slow service does
//!    not slow down the load, unless its streams are full; the report has the delay of a batch.
//! 2. Between waves nothing is sent. A wave has drained when all of its batches are acknowledged and no
//!    queue of the service has any left.
//! 3. Another connection fetches the service's statistics meanwhile, every 20 ms.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_flight::{Action, FlightData, FlightDescriptor};
use arrow_schema::SchemaRef;
use overside_base::lock;
use overside_flow::Packing;
use overside_flow::operators::values_bytes;
use overside_flow::pack::{CodecPool, PackOptions};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::cpu_time::CpuTime;
use crate::error::ServiceError;
use crate::input::batch::Batch;
use crate::input::metadata::AcknowledgementMetadata;
use crate::input::put::random_name;
use crate::nodes::client::{Client, Target};
use crate::output::encoder::FlightEncoder;
use crate::socket::threads;
use crate::wire;

/// Interval at which the service's statistics are requested.
const LOOK: Duration = Duration::from_millis(20);
/// Messages that wait for the transport.
const AHEAD: usize = 2;
/// Number of connections that are served at once: one sends, one fetches statistics.
const THREADS: usize = 2;
/// Maximum number of batches of all waves together.
pub const BATCHES_MAX: u64 = 10_000_000;

/// Rate, length and number of the waves to send.
#[derive(Clone, Copy, Debug)]
pub struct WaveOptions {
    /// Bytes of values a second while a wave lasts.
    pub bytes_per_s: f64,
    /// Length of a wave.
    pub length: Duration,
    /// Time from the beginning of a wave to that of the next one.
    pub every: Duration,
    /// Number of waves.
    pub waves: u32,
    /// Longest time that the last wave may take to drain.
    pub drain: Duration,
    /// Compression of messages.
    pub pack: PackOptions,
}

/// Measurements of how a service coped with a wave.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Wave {
    /// Batches that were sent.
    pub batches: u64,
    /// Rows of these batches.
    pub rows: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// Time from its beginning until the transport had taken the last batch, in nanoseconds.
    pub send_ns: u64,
    /// Longest time from when a batch was due until the transport had taken it, in nanoseconds.
    pub behind_max_ns: u64,
    /// Batches that were acknowledged before the measurement ended.
    pub acknowledged_batches: u64,
    /// Median time from when a batch was due until it was acknowledged, in nanoseconds.
    pub acknowledged_p50_ns: Option<u64>,
    /// Time within which 99 in 100 batches were acknowledged, in nanoseconds.
    pub acknowledged_p99_ns: Option<u64>,
    /// The most batches that waited in the service's queues together, from this wave's beginning to the next one's.
    pub backlog_max_batches: u64,
    /// Most memory of waiting batches, in bytes.
    pub queue_memory_max_bytes: u64,
    /// Batches that went to disk.
    pub spilled_batches: u64,
    /// Maximum number of bytes on disk.
    pub spilled_max_bytes: u64,
    /// The most memory in bytes of the service's process.
    pub memory_max_bytes: Option<u64>,
    /// Time from the end of the wave until it had drained, in nanoseconds; absent if it had not before the
    /// next one.
    pub drain_ns: Option<u64>,
}

/// Figures that are used of a service's statistics.
#[derive(Deserialize)]
struct Statistics {
    memory_bytes: Option<u64>,
    input: Option<QueueFigures>,
    #[serde(default)]
    outputs: Vec<QueueFigures>,
    #[serde(default)]
    processing_batches: u64,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct QueueFigures {
    backlog_batches: u64,
    memory_bytes: u64,
    spilled_bytes: u64,
    spilled_batches: u64,
}

/// Measurements up to now.
#[derive(Default)]
struct Progress {
    waves: Vec<WaveProgress>,
    /// The number of the first batch that is not acknowledged.
    acknowledged: u64,
    /// Batches that the service has put on disk since it started.
    spilled_batches: u64,
}

#[derive(Default)]
struct WaveProgress {
    figures: Wave,
    /// The number of its first batch.
    first: u64,
    /// Times at which its batches were due.
    due: Vec<Instant>,
    latencies_ns: Vec<u64>,
    /// Time at which the wave was over and all of it had been sent; `None` before.
    end: Option<Instant>,
    spilled_before: u64,
}

/// Sends the batches in waves, repeatedly from the first one on.
///
/// # Errors
/// [`ServiceError`]: the service cannot be reached, refuses a batch, or is not a flow service.
pub fn send_waves(
    target: &Target,
    schema: &SchemaRef,
    batches: &[RecordBatch],
    options: &WaveOptions,
    pool: &Arc<CodecPool>,
) -> Result<Vec<Wave>, ServiceError> {
    let runtime = threads(THREADS, "waves")?;
    let producer = Producer {
        target,
        name: random_name(),
        schema,
        batches,
        options,
        packing: Arc::new(Packing::of_pool(pool)),
        progress: Mutex::default(),
    };
    // Its blocking work has to be on a thread of the runtime.
    let done = runtime.block_on(producer.run());
    done.map_err(|status| ServiceError::Call {
        address: target.to_string(),
        reason: status.message().into(),
    })?;
    let progress = producer.progress.into_inner();
    let progress = progress.unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(progress.waves.into_iter().map(WaveProgress::sum).collect())
}

struct Producer<'a> {
    target: &'a Target,
    name: Arc<str>,
    schema: &'a SchemaRef,
    batches: &'a [RecordBatch],
    options: &'a WaveOptions,
    packing: Arc<Packing>,
    progress: Mutex<Progress>,
}

impl Producer<'_> {
    async fn run(&self) -> Result<(), Status> {
        let mut observer = self.target.connect(&CpuTime::default()).await?;
        let before = statistics(&mut observer).await?;
        lock(&self.progress).spilled_batches = before.sum(|queue| queue.spilled_batches);
        let mut client = self.target.connect(&CpuTime::default()).await?;
        let options = wire::settled(&mut client, self.options.pack).await?;
        let (messages, receiver) = mpsc::channel(AHEAD);
        let receiving = async {
            let results = client.do_put(ReceiverStream::new(receiver)).await?;
            let mut results = results.into_inner();
            while let Some(result) = results.message().await? {
                let metadata = AcknowledgementMetadata::parse(&result.app_metadata);
                if let Some(metadata) = metadata {
                    lock(&self.progress).acknowledge(metadata.acknowledged, Instant::now());
                }
            }
            Err::<(), _>(Status::unavailable("it ended the stream"))
        };
        let observing = async {
            loop {
                tokio::time::sleep(LOOK).await;
                let now = statistics(&mut observer).await?;
                lock(&self.progress).observe(&now, Instant::now());
            }
        };
        tokio::select! {
            sent = self.send(messages, options) => sent,
            received = receiving => received,
            observed = observing => observed,
        }
    }

    async fn send(
        &self,
        messages: mpsc::Sender<FlightData>,
        options: PackOptions,
    ) -> Result<(), Status> {
        let path = FlightDescriptor::new_path(vec![self.target.path.clone()]);
        let (mut encoder, first) =
            FlightEncoder::of_call(path, self.schema, options, &self.packing)?;
        for message in first {
            messages.send(message).await.map_err(gone)?;
        }
        let begin = Instant::now();
        let mut batches = self.batches.iter().cycle();
        let mut sequence = 0;
        for wave in 0..self.options.waves {
            let begin = begin + self.options.every * wave;
            tokio::time::sleep_until(begin.into()).await;
            lock(&self.progress).begin_wave(sequence);
            let mut due = Duration::ZERO;
            while due < self.options.length {
                let Some(batch) = batches.next() else {
                    break;
                };
                tokio::time::sleep_until((begin + due).into()).await;
                lock(&self.progress).due(batch, begin + due);
                let numbered = Batch {
                    producer: Arc::clone(&self.name),
                    sequence,
                    partition: None,
                    data: batch.clone(),
                };
                for message in encoder.batch(&numbered, None)? {
                    messages.send(message).await.map_err(gone)?;
                }
                lock(&self.progress).sent(begin, begin + due, Instant::now());
                sequence += 1;
                let seconds = values_bytes(batch).max(1) as f64 / self.options.bytes_per_s;
                due += Duration::from_secs_f64(seconds);
            }
            let end = Instant::now().max(begin + self.options.length);
            lock(&self.progress).end_wave(end);
        }
        let deadline = Instant::now() + self.options.drain;
        while !lock(&self.progress).is_drained() && Instant::now() < deadline {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

fn gone<T>(_: T) -> Status {
    Status::unavailable("it ended the stream")
}

async fn statistics(client: &mut Client) -> Result<Statistics, Status> {
    let action = Action { r#type: "statistics".into(), ..Action::default() };
    let mut answer = client.do_action(action).await?.into_inner();
    let answer = answer.message().await?;
    let parsed = answer.and_then(|answer| serde_json::from_slice::<Statistics>(&answer.body).ok());
    (parsed.filter(|statistics| statistics.input.is_some())).ok_or_else(|| {
        Status::failed_precondition("it is no `overside flow serve` with a pipeline")
    })
}

impl Statistics {
    /// Sums a figure over the input queue and all output queues.
    fn sum(&self, of: impl Fn(&QueueFigures) -> u64) -> u64 {
        self.input.iter().chain(&self.outputs).map(of).sum()
    }
}

impl Progress {
    fn begin_wave(&mut self, first: u64) {
        self.waves.push(WaveProgress {
            first,
            spilled_before: self.spilled_batches,
            ..WaveProgress::default()
        });
    }

    /// Records that a batch is due.
    fn due(&mut self, batch: &RecordBatch, due: Instant) {
        if let Some(wave) = self.waves.last_mut() {
            wave.due.push(due);
            wave.figures.batches += 1;
            wave.figures.rows += batch.num_rows() as u64;
            wave.figures.bytes += values_bytes(batch) as u64;
        }
    }

    /// Notes that the transport has taken a batch.
    fn sent(&mut self, begin: Instant, due: Instant, now: Instant) {
        if let Some(wave) = self.waves.last_mut() {
            let behind_ns = now.saturating_duration_since(due).as_nanos() as u64;
            wave.figures.behind_max_ns = wave.figures.behind_max_ns.max(behind_ns);
            wave.figures.send_ns = now.saturating_duration_since(begin).as_nanos() as u64;
        }
    }

    fn end_wave(&mut self, end: Instant) {
        if let Some(wave) = self.waves.last_mut() {
            wave.end = Some(end);
        }
    }

    /// All up to `last` are acknowledged.
    fn acknowledge(&mut self, last: u64, now: Instant) {
        let from = self.acknowledged;
        self.acknowledged = from.max(last.saturating_add(1));
        for wave in &mut self.waves {
            let begin = from.saturating_sub(wave.first) as usize;
            let end = self.acknowledged.saturating_sub(wave.first) as usize;
            let new = wave.due.get(begin..end.min(wave.due.len()));
            for due in new.into_iter().flatten() {
                let latency = now.saturating_duration_since(*due);
                wave.latencies_ns.push(latency.as_nanos() as u64);
            }
        }
    }

    /// Adds the service's statistics to the figures of the last wave.
    fn observe(&mut self, now: &Statistics, at: Instant) {
        self.spilled_batches = now.sum(|queue| queue.spilled_batches);
        let acknowledged = self.acknowledged;
        let Some(wave) = self.waves.last_mut() else {
            return;
        };
        let backlog = now.sum(|queue| queue.backlog_batches);
        let figures = &mut wave.figures;
        figures.backlog_max_batches = figures.backlog_max_batches.max(backlog);
        figures.queue_memory_max_bytes =
            (figures.queue_memory_max_bytes).max(now.sum(|queue| queue.memory_bytes));
        figures.spilled_max_bytes =
            (figures.spilled_max_bytes).max(now.sum(|queue| queue.spilled_bytes));
        figures.memory_max_bytes = figures.memory_max_bytes.max(now.memory_bytes);
        figures.spilled_batches =
            self.spilled_batches - wave.spilled_before.min(self.spilled_batches);
        let is_safe = acknowledged >= wave.first + wave.due.len() as u64;
        if let Some(end) = wave.end
            && figures.drain_ns.is_none()
            && is_safe
            && backlog + now.processing_batches == 0
        {
            let took = at.saturating_duration_since(end);
            figures.drain_ns = Some(took.as_nanos() as u64);
        }
    }

    /// Returns `true` if the last wave has ended and drained.
    fn is_drained(&self) -> bool {
        let last = self.waves.last();
        last.is_some_and(|wave| wave.figures.drain_ns.is_some())
    }
}

impl WaveProgress {
    fn sum(mut self) -> Wave {
        self.latencies_ns.sort_unstable();
        let count = self.latencies_ns.len();
        let at = |share: usize| self.latencies_ns.get((count * share).div_ceil(100).max(1) - 1);
        Wave {
            acknowledged_batches: count as u64,
            acknowledged_p50_ns: at(50).copied(),
            acknowledged_p99_ns: at(99).copied(),
            ..self.figures
        }
    }
}
