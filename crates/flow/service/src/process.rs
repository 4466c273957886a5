//! Passes input batches through the stages, in the order of the input queue, and results to the outputs.
//!
//! Two threads: one pushes into a stream of the pipeline, the other pulls. A batch that cannot be processed is taken
//! out, and its producer gets an error; those that have not come out go through another stream of the pipeline.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

use overside_base::lock;
use overside_flow::Error as FlowError;
use overside_flow::operators::parts;
use overside_flow::{BatchResult, PartitionedBatch, Stream};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use crate::input::batch::Batch;
use crate::output::{Outcome, route};
use crate::pipeline_host::PipelineHost;
use crate::queue::{Ack, QueueError};
use crate::service::{Counters, Service};

/// A part of an input batch that is in the stages.
struct InStages {
    position: u64,
    /// The batch without its rows.
    source: Batch,
    is_last: bool,
}

/// Processes until the input queue is closed and empty.
pub(crate) fn run(service: &Service, hosted: &PipelineHost, runtime: &Handle) {
    let mut cursor = 0;
    loop {
        let end = match runtime.block_on(hosted.input.next(cursor)) {
            Ok(Some(first)) => one_stream(hosted, runtime, first.position),
            Ok(None) => return,
            Err(error) => End::Queue(error),
        };
        match end {
            End::Finished => return,
            End::Failed { position, resume, error } => {
                fail(service, hosted, position, &error);
                cursor = resume;
                hosted.resume_at(cursor);
            }
            End::Queue(error) => {
                // Reading what is on disk failed; it is tried again, as a disk may come back.
                tracing::error!("batches cannot be processed: {error}");
                std::thread::sleep(std::time::Duration::from_secs(1));
                // Results of those before wait for the outputs.
                cursor = hosted.routed.load(Ordering::Acquire);
                hosted.resume_at(cursor);
            }
        }
    }
}

/// Reason why a stream of the pipeline ended.
enum End {
    Finished,
    /// The batch at `position` cannot be processed. Those from `resume` on, but for it, have not come out.
    Failed {
        position: u64,
        resume: u64,
        error: FlowError,
    },
    Queue(QueueError),
}

fn one_stream(hosted: &PipelineHost, runtime: &Handle, cursor: u64) -> End {
    let schema = runtime.block_on(hosted.schemas.input());
    let stream = match hosted.pipeline.stream(&schema) {
        Ok(stream) => stream,
        Err(error) => {
            return End::Failed { position: cursor, resume: cursor, error };
        }
    };
    let in_stages = Mutex::new(VecDeque::new());
    let interrupt = Notify::new();
    std::thread::scope(|scope| {
        let pushing = scope.spawn(|| {
            let pushed = push(hosted, &stream, &in_stages, runtime, (cursor, &interrupt));
            stream.finish();
            pushed
        });
        let pulled = pull(hosted, &stream, &in_stages, runtime);
        if pulled.is_some() {
            // Keeps a permit if the other thread does not wait.
            interrupt.notify_one();
        }
        let pushed = pushing.join().unwrap_or(Ok(()));
        hosted.processing.store(0, Ordering::Release);
        match (pulled, pushed) {
            (Some(end), _) => end,
            (None, Err(error)) => End::Queue(error),
            (None, Ok(())) => End::Finished,
        }
    })
}

/// Pushes batches from `cursor` on until there are no more, or the stream has ended.
fn push(
    hosted: &PipelineHost,
    stream: &Stream,
    in_stages: &Mutex<VecDeque<InStages>>,
    runtime: &Handle,
    (mut cursor, interrupt): (u64, &Notify),
) -> Result<(), QueueError> {
    let rows_max = hosted.pipeline.definition().input_rows();
    let next = |cursor| async move {
        tokio::select! {
            biased;
            () = interrupt.notified() => Ok(None),
            next = hosted.input.next(cursor) => next,
        }
    };
    while let Some(queued) = runtime.block_on(next(cursor))? {
        let _processing = hosted.begin(queued.position);
        cursor = queued.position + 1;
        let is_current = hosted.input.with_receipt(queued.position, |receipt| receipt.is_current());
        if is_current == Some(false) {
            // One before it failed: it will come again.
            hosted.input.remove(queued.position, drop);
            continue;
        }
        let batch = &queued.batch;
        let source = batch.without_rows();
        let mut parts = parts(&batch.data, rows_max).peekable();
        while let Some(part) = parts.next() {
            lock(in_stages).push_back(InStages {
                position: queued.position,
                source: source.clone(),
                is_last: parts.peek().is_none(),
            });
            hosted.processing.fetch_add(1, Ordering::AcqRel);
            if stream.push(queued.position, part).is_err() {
                // The other thread gets the reason.
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Routes results until the stream ends. Returns the failure if it did not end in order.
fn pull(
    hosted: &PipelineHost,
    stream: &Stream,
    in_stages: &Mutex<VecDeque<InStages>>,
    runtime: &Handle,
) -> Option<End> {
    let partitions = hosted.pipeline.definition().partitions().unwrap_or(0);
    let mut pieces: Vec<PartitionedBatch> = Vec::new();
    let mut pulled = 0;
    loop {
        let done = match stream.pull()? {
            Ok(BatchResult { pieces, .. }) => pieces,
            Err(error) => {
                let in_stages = lock(in_stages);
                let resume = in_stages.front()?.position;
                let failed = stream.failed_batch().unwrap_or(pulled).saturating_sub(pulled);
                let failed = in_stages.get(failed as usize);
                return Some(End::Failed {
                    position: failed.map_or(resume, |one| one.position),
                    resume,
                    error,
                });
            }
        };
        pulled += 1;
        let origin = lock(in_stages).pop_front()?;
        pieces.extend(done);
        if origin.is_last {
            let behind = origin.position + 1;
            let outcome = Outcome {
                position: origin.position,
                source: origin.source,
                pieces: std::mem::take(&mut pieces),
            };
            let routed = route(&hosted.outputs, partitions, outcome, &hosted.input);
            if let Err(error) = runtime.block_on(routed) {
                match error {
                    QueueError::Closed => return Some(End::Finished),
                    error => return Some(End::Queue(error)),
                }
            }
            hosted.routed.fetch_max(behind, Ordering::AcqRel);
        }
        hosted.processing.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Takes a batch out that cannot be processed.
fn fail(service: &Service, hosted: &PipelineHost, position: u64, error: &FlowError) {
    Counters::add(&service.counters.failed_batches, 1);
    hosted.input.remove(position, |receipt| match receipt {
        Some(receipt) => receipt.fail(&error.to_string()),
        // It is not known who sent it any more.
        None => tracing::error!("a batch that was acknowledged cannot be processed: {error}"),
    });
}
