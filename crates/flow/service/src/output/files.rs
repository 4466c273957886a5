//! An output that goes to files in a directory, to objects in a bucket, or into a tree.
//!
//! 1. Batches gather in the queue until they make a file, or nothing more is likely to come soon.
//! 2. They are written, one file a partition, and reach the disk; then the files get their names, and the batches
//!    are released. A tree absorbs and commits them, and knows their numbers.
//! 3. Each file has in its metadata the last number of each producer. A start reads that, so that a batch that comes
//!    again after a crash does not get into the queue. CSV has no metadata, and a bucket is not searched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arrow_schema::{Schema, SchemaRef};
use overside_base::lock;
use overside_flow::Error as FlowError;
use overside_flow::{FileOutput, Packing, PartitionedBatch, TreeOutput};
use tokio::runtime::Handle;

use crate::output::Output;
use crate::output::forward;
use crate::output::written::{METADATA_KEY, PREFIX};
use crate::pipeline_host::PipelineHost;
use crate::queue::Queued;
use crate::service::Service;

/// Longest time that batches are gathered for a file before they are written.
const GATHER: Duration = Duration::from_secs(5);
/// Time without a new batch after which gathered batches are written, although producers have
/// streams open.
const QUIET: Duration = Duration::from_millis(250);
/// Interval at which the gathering of a file checks if more batches are on their way.
const LOOK: Duration = Duration::from_millis(20);
/// Pause before a failed attempt to write is repeated.
const RETRY: Duration = Duration::from_secs(1);
/// Default length of a file in bytes.
const FILE_BYTES: u64 = 256 << 20;

/// Writes an output for as long as the service runs.
pub(crate) async fn run(service: Arc<Service>, output: Arc<Output>) {
    let Some(hosted) = &service.hosted else {
        return;
    };
    // An earlier process may have begun to pass on rows: queries wait for them, even without new batches.
    let pass = || forward::pass_on(&output, &service.packing, &Handle::current());
    while let Err(error) = tokio::task::block_in_place(pass) {
        failed(&output, &error);
        tokio::time::sleep(RETRY).await;
    }
    *lock(&output.link.last_error) = None;
    let schema = hosted.schemas.output().await;
    let mut writer = Writer {
        output: &output,
        partitions: hosted.pipeline.definition().partitions(),
        schema,
        packing: &service.packing,
        number: output.first_file,
        finished: BTreeSet::new(),
    };
    let mut cursor = 0;
    loop {
        let gathered = match gather(hosted, &output, &mut cursor).await {
            Ok(gathered) if gathered.is_empty() => return,
            Ok(gathered) => gathered,
            Err(error) => {
                failed(&output, &error);
                cursor = output.queue.first();
                tokio::time::sleep(RETRY).await;
                continue;
            }
        };
        while let Err(error) = tokio::task::block_in_place(|| writer.write(&gathered)) {
            failed(&output, &error);
            tokio::time::sleep(RETRY).await;
        }
        *lock(&output.link.last_error) = None;
        for queued in gathered {
            output.queue.release(queued.position);
        }
    }
}

fn failed(output: &Output, error: &dyn std::error::Error) {
    let reason = error.to_string();
    let before = lock(&output.link.last_error).replace(reason.clone());
    if before.as_ref() != Some(&reason) {
        tracing::error!(output = &*output.name, "files cannot be written, batches wait: {reason}");
    }
}

/// The batches of the next files; none at the end.
async fn gather(
    hosted: &PipelineHost,
    output: &Output,
    cursor: &mut u64,
) -> Result<Vec<Queued>, crate::queue::QueueError> {
    let file_bytes = output.definition.file_bytes.map_or(FILE_BYTES, |bytes| bytes.0);
    let limit = file_bytes.min(output.queue.memory_limit_bytes() as u64);
    let mut gathered = Vec::new();
    let (mut bytes, mut begin, mut last) = (0, Instant::now(), Instant::now());
    loop {
        let is_sent = hosted.has_producers() && last.elapsed() < QUIET;
        let may_come = is_sent || !hosted.is_idle() || !output.queue.is_drained(*cursor);
        let is_late = begin.elapsed() > GATHER;
        let is_enough = bytes >= limit || output.queue.is_full() || is_late || !may_come;
        if !gathered.is_empty() && is_enough {
            return Ok(gathered);
        }
        let next = tokio::select! {
            next = output.queue.next(*cursor) => next?,
            () = tokio::time::sleep(LOOK), if !gathered.is_empty() => continue,
        };
        let Some(queued) = next else {
            return Ok(gathered);
        };
        if gathered.is_empty() {
            begin = Instant::now();
        }
        last = Instant::now();
        *cursor = queued.position + 1;
        bytes += queued.batch.memory_bytes() as u64;
        gathered.push(queued);
    }
}

/// Writer of gathered batches: into a tree, or into files, one set after the other.
struct Writer<'s> {
    output: &'s Output,
    partitions: Option<u32>,
    schema: SchemaRef,
    packing: &'s Arc<Packing>,
    /// Number of the next files.
    number: u64,
    /// Partitions that have their file already, after an attempt that failed at another.
    finished: BTreeSet<Option<u32>>,
}

impl Writer<'_> {
    fn write(&mut self, gathered: &[Queued]) -> Result<(), FlowError> {
        match self.output.definition.tree {
            Some(_) => self.write_tree(gathered),
            None => self.write_files(gathered),
        }
    }

    /// Opens the tree each time, so that others can write to it, or compact it, in between.
    fn write_tree(&self, gathered: &[Queued]) -> Result<(), FlowError> {
        let output = self.output;
        let mut tree = TreeOutput::new(&output.definition, &self.schema, self.packing)?;
        for Queued { batch, .. } in gathered {
            tree.write_numbered(&batch.producer, batch.sequence, &batch.data)?;
        }
        tree.finish(&output.definition)?;
        if let Some(last) = gathered.last() {
            output.committed.fetch_max(last.position + 1, Ordering::AcqRel);
        }
        forward::pass_on(output, self.packing, &Handle::current())
    }

    /// Writes a file for each partition that has none of these batches yet.
    fn write_files(&mut self, gathered: &[Queued]) -> Result<(), FlowError> {
        let mut of_partitions: BTreeMap<Option<u32>, Vec<&Queued>> = BTreeMap::new();
        for queued in gathered {
            if !self.finished.contains(&queued.batch.partition) {
                let batches = of_partitions.entry(queued.batch.partition).or_default();
                batches.push(queued);
            }
        }
        let number = self.number;
        for (partition, batches) in of_partitions {
            let mut sequences: BTreeMap<&str, u64> = BTreeMap::new();
            for queued in &batches {
                sequences.insert(&queued.batch.producer, queued.batch.sequence);
            }
            let text = serde_json::to_string(&sequences).unwrap_or_default();
            let mut metadata = self.schema.metadata().clone();
            metadata.insert(METADATA_KEY.into(), text);
            let fields = self.schema.fields().clone();
            let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
            let output = &self.output.definition;
            let bytes = self.output.queue.memory_limit_bytes() as u64;
            let options = output.file_options(format!("{PREFIX}{number:06}"), false, bytes);
            let (to, partitions) = (&output.to, self.partitions);
            let mut file = FileOutput::new(to, &schema, partitions, options, self.packing)?;
            for queued in &batches {
                let batch = queued.batch.data.clone();
                let batch = batch.with_schema(Arc::clone(&schema))?;
                file.write(&PartitionedBatch { partition, batch })?;
            }
            file.finish(true)?;
            self.finished.insert(partition);
        }
        self.finished.clear();
        self.number += 1;
        Ok(())
    }
}
