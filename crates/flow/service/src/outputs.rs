//! Where what comes out of a pipeline waits for whoever takes it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use overside_base::lock;
use overside_flow::pipeline::{Destination, Output as OutputDefinition, Piece};

use tokio::sync::RwLock;

use crate::batch::Batch;
use crate::client::Target;
use crate::downstream::LinkStatus;
use crate::producers::Receipt;
use crate::queue::{Queue, QueueError, Settle};
use crate::subscribers::Subscribers;

/// An output of a pipeline, and what waits for it.
pub struct Output {
    /// What the definition calls it.
    pub name: Arc<str>,
    /// What the definition says of it.
    pub definition: OutputDefinition,
    /// What waits.
    pub queue: Queue<OutputReceipt>,
    /// Who has asked for it.
    pub subscribers: Subscribers,
    /// The service that it goes to, if it does.
    pub target: Option<Target>,
    /// Whether that is there.
    pub link: LinkStatus,
    /// The next nodes of its tree, if they are on other machines.
    pub next: Vec<Target>,
    /// The position in the queue up to which its tree has what came.
    pub committed: AtomicU64,
    /// Written while rows are on their way there, which a query would find twice, or not.
    pub passing: Arc<RwLock<()>>,
    /// What came, by partition.
    pub partitions: Mutex<BTreeMap<Option<u32>, PartitionCounts>>,
}

/// What came of a partition.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct PartitionCounts {
    /// Batches.
    pub batches: u64,
    /// Their rows.
    pub rows: u64,
}

/// The input batch that something came of: once all of that is safe, it is released.
pub struct OutputReceipt(Arc<Origin>);

struct Origin {
    remaining: AtomicUsize,
    input: Arc<Queue<Receipt>>,
    position: u64,
}

/// What came of an input batch.
pub struct Outcome {
    /// Where the batch is in the input queue.
    pub position: u64,
    /// The batch without its rows.
    pub source: Batch,
    /// What came out.
    pub pieces: Vec<Piece>,
}

impl Settle for OutputReceipt {
    fn safe(self) {
        if self.0.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.input.release(self.0.position);
        }
    }
}

impl Output {
    /// Whether subscribers take it.
    pub fn has_subscribers(&self) -> bool {
        self.definition.to == Destination::Subscribers
    }

    /// Which of the next nodes has the rows of a child of the tree's root.
    pub fn next_of(&self, child: usize) -> usize {
        // Rows without an id are the first node's.
        if child < self.next.len() { child } else { 0 }
    }

    fn count(&self, piece: &Piece) {
        let mut partitions = lock(&self.partitions);
        let counts = partitions.entry(piece.partition).or_default();
        counts.batches += 1;
        counts.rows += piece.batch.num_rows() as u64;
    }
}

/// Adds what came of an input batch to the outputs that it is routed to; waits for room. `partitions`:
/// how many there are beside that of null keys.
///
/// Whoever receives an output can tell what it had before: the producer's name is that of the input, the
/// output's, the partition and the number of the piece within it, the sequence number is that of the input.
///
/// # Errors
/// [`QueueError`].
pub async fn route(
    outputs: &[Arc<Output>],
    partitions: u32,
    outcome: Outcome,
    input: &Arc<Queue<Receipt>>,
) -> Result<(), QueueError> {
    let takes =
        |output: &Arc<Output>, piece: &Piece| output.definition.takes(piece.partition, partitions);
    let remaining = (outcome.pieces.iter())
        .map(|piece| outputs.iter().filter(|output| takes(output, piece)).count())
        .sum();
    if remaining == 0 {
        input.release(outcome.position);
        return Ok(());
    }
    let origin = Arc::new(Origin {
        remaining: AtomicUsize::new(remaining),
        input: Arc::clone(input),
        position: outcome.position,
    });
    for (index, piece) in outcome.pieces.iter().enumerate() {
        let same = |other: &&Piece| other.partition == piece.partition;
        let number = outcome.pieces[..index].iter().filter(same).count();
        for output in outputs.iter().filter(|output| takes(output, piece)) {
            let source = &outcome.source;
            let batch = Batch {
                producer: derived_name(&source.producer, &output.name, piece.partition, number),
                sequence: source.sequence,
                partition: piece.partition,
                data: piece.batch.clone(),
            };
            let receipt = OutputReceipt(Arc::clone(&origin));
            output.queue.push_patiently(batch, receipt).await?;
            output.count(piece);
        }
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
    crate::metadata::bounded_name(name).into()
}
