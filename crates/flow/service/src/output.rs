//! Outputs of a served pipeline, and the queues in which results wait for delivery.

pub(crate) mod downstream;
pub(crate) mod encoder;
pub(crate) mod exchange;
pub(crate) mod files;
pub(crate) mod forward;
pub(crate) mod get;
pub(crate) mod in_flight;
pub(crate) mod subscribers;
pub(crate) mod tracks;
pub(crate) mod written;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use overside_base::lock;
use overside_flow::tree::Sequences;
use overside_flow::{Destination, Output as OutputDefinition, PartitionedBatch};

use tokio::sync::RwLock;

use crate::input::batch::Batch;
use crate::input::producers::Receipt;
use crate::nodes::client::Target;
use crate::output::subscribers::Subscribers;
use crate::queue::{Ack, Queue, QueueError};

/// An output of a pipeline, and its waiting batches.
pub struct Output {
    /// Name of the output in the definition.
    pub name: Arc<str>,
    /// Settings of the output in the definition.
    pub definition: OutputDefinition,
    /// Batches that are not delivered yet.
    pub queue: Queue<OutputReceipt>,
    /// Subscribers of the output, with their positions in the queue.
    pub subscribers: Subscribers,
    /// The service that it goes to, if it does.
    pub target: Option<Target>,
    /// State of the connection to that service, or of writing files.
    pub link: LinkStatus,
    /// Number of the first files that it writes.
    pub first_file: u64,
    /// The next nodes of its tree, if they are on other machines.
    pub next: Vec<Target>,
    /// Position in the queue up to which its tree has the batches.
    pub committed: AtomicU64,
    /// Written while rows are on their way there, which a query would find twice, or not.
    pub passing: Arc<RwLock<()>>,
    /// Numbers of the batches that have come, those before the start included that are on disk: waiting, or in a file.
    /// Batches that the input delivers again are left out.
    pub taken: Mutex<Sequences>,
    /// Number of batches and rows that came, by partition.
    pub partitions: Mutex<BTreeMap<Option<u32>, PartitionCounts>>,
}

/// State of an output's connection to another service, or of writing its files.
#[derive(Debug, Default)]
pub struct LinkStatus {
    /// `true` from the first acknowledgement of a connection until the connection fails.
    pub is_connected: AtomicBool,
    /// Reason of the last failure; `None` while the output works.
    pub last_error: Mutex<Option<String>>,
}

/// Number of resulting batches and rows of one partition.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct PartitionCounts {
    /// Batches.
    pub batches: u64,
    /// Rows of these batches.
    pub rows: u64,
}

/// Input batch of a result. Once all of its results are committed, it is released.
pub struct OutputReceipt(Arc<Origin>);

struct Origin {
    remaining: AtomicUsize,
    input: Arc<Queue<Receipt>>,
    position: u64,
}

/// Results of an input batch.
pub(crate) struct Outcome {
    /// Position of the batch in the input queue.
    pub position: u64,
    /// The batch without its rows.
    pub source: Batch,
    /// Pieces that came out of the stages.
    pub pieces: Vec<PartitionedBatch>,
}

impl Ack for OutputReceipt {
    fn committed(self) {
        if self.0.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.input.release(self.0.position);
        }
    }
}

impl Output {
    /// Returns `true` if the output goes to subscribers.
    pub fn has_subscribers(&self) -> bool {
        self.definition.to == Destination::Subscribers
    }

    /// Returns the index of the next node that has the rows of a child of the tree's root.
    pub fn next_of(&self, child: usize) -> usize {
        // Rows without an id are the first node's.
        if child < self.next.len() { child } else { 0 }
    }

    fn count(&self, piece: &PartitionedBatch) {
        let mut partitions = lock(&self.partitions);
        let counts = partitions.entry(piece.partition).or_default();
        counts.batches += 1;
        counts.rows += piece.batch.num_rows() as u64;
    }
}

/// Adds the results of an input batch to the outputs that they are routed to; waits for room.
/// `partitions`: their number without that of null keys.
///
/// An output that has a piece already, since it was on disk at the start, does not get it again.
///
/// A receiver of an output can detect duplicates: the producer's name is that of the input, the output's, the partition
/// and the number of the piece within it, the sequence number is that of the input.
///
/// # Errors
/// [`QueueError`].
pub(crate) async fn route(
    outputs: &[Arc<Output>],
    partitions: u32,
    outcome: Outcome,
    input: &Arc<Queue<Receipt>>,
) -> Result<(), QueueError> {
    let takes = |output: &Arc<Output>, piece: &PartitionedBatch| {
        output.definition.takes(piece.partition, partitions)
    };
    let source = &outcome.source;
    let mut new = Vec::new();
    for (index, piece) in outcome.pieces.iter().enumerate() {
        let same = |other: &&PartitionedBatch| other.partition == piece.partition;
        let number = outcome.pieces[..index].iter().filter(same).count();
        for output in outputs.iter().filter(|output| takes(output, piece)) {
            let name = derived_name(&source.producer, &output.name, piece.partition, number);
            if !lock(&output.taken).has(&name, source.sequence) {
                new.push((output, piece, name));
            }
        }
    }
    if new.is_empty() {
        input.release(outcome.position);
        return Ok(());
    }
    let origin = Arc::new(Origin {
        remaining: AtomicUsize::new(new.len()),
        input: Arc::clone(input),
        position: outcome.position,
    });
    for (output, piece, producer) in new {
        let batch = Batch {
            producer: Arc::clone(&producer),
            sequence: source.sequence,
            partition: piece.partition,
            data: piece.batch.clone(),
        };
        let receipt = OutputReceipt(Arc::clone(&origin));
        output.queue.push_with_retry(batch, receipt).await?;
        lock(&output.taken).note(&producer, source.sequence);
        output.count(piece);
    }
    Ok(())
}

/// The name of an output of a producer's batches.
fn derived_name(producer: &str, output: &str, partition: Option<u32>, number: usize) -> Arc<str> {
    let mut name = format!("{producer}/{output}");
    if let Some(partition) = partition {
        name += &format!("/{partition}");
    }
    if number > 0 {
        name += &format!("#{number}");
    }
    crate::input::metadata::bounded_name(name).into()
}
