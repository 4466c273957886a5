//! A pipeline that is served: its queues, and the batches between them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use overside_flow::Error as FlowError;
use overside_flow::{Definition, Destination, Packing, Pipeline};
use tokio::runtime::Handle;

use crate::counted::Counted;
use crate::error::ServiceError;
use crate::input::batch::Batch;
use crate::input::producers::Receipt;
use crate::input::schemas::Schemas;
use crate::nodes::client::Target;
use crate::nodes::remote_node::RemoteNode;
use crate::output::subscribers::Subscribers;
use crate::output::written::Written;
use crate::output::{LinkStatus, Output};
use crate::queue::spill::{SpillOptions, SpillSpace};
use crate::queue::{Queue, QueueStatus};

/// A pipeline that is served.
pub struct PipelineHost {
    /// The pipeline.
    pub pipeline: Pipeline,
    /// Input batches whose results are not all delivered or on disk.
    pub input: Arc<Queue<Receipt>>,
    /// Outputs with the queues in which results wait, sorted by name.
    pub outputs: Vec<Arc<Output>>,
    /// Schemas of input and outputs.
    pub schemas: Schemas,
    /// Disk space for batches that do not fit into memory; `None` if the definition has no `spill`.
    pub spill: Option<Arc<SpillSpace>>,
    /// Batches that are being processed.
    pub processing: AtomicUsize,
    /// Streams by which more may come.
    producing: AtomicUsize,
    /// The position in the input queue up to which batches have gone into the stages.
    begun: AtomicU64,
    /// Likewise, position up to which results wait for the outputs.
    pub routed: AtomicU64,
}

impl PipelineHost {
    /// Opens queues, with the contents of the spill directory. Returns the input batches found there, and the number of
    /// batches that are lost.
    pub fn open(
        definition: Definition,
        packing: &Arc<Packing>,
        runtime: &Handle,
    ) -> Result<(Self, Vec<Batch>, u64), ServiceError> {
        // The queues hold half of the memory, and the stages the other half.
        let stages_bytes = definition.memory_bytes().div_ceil(2);
        let queue_bytes = definition.memory_bytes() as usize / 2;
        let input_bytes = queue_bytes / 2;
        let output_bytes = (queue_bytes - input_bytes) / definition.outputs.len().max(1);
        let spill = definition.spill.as_ref().map(open_spill).transpose()?;
        let accepts_loss = (definition.spill.as_ref()).is_some_and(|spill| spill.accepts_loss);
        let options = |name: String| {
            let (directory, space) = spill.clone()?;
            Some(SpillOptions { directory, name, accepts_loss, space })
        };
        let (input, recovered, mut lost) = Queue::open(input_bytes, options("input".into()))?;
        let schemas = Schemas::default();
        let mut outputs = Vec::new();
        for (name, output) in &definition.outputs {
            let spilled_name = format!("output-{}", file_name(name));
            let (queue, waiting, its_lost) = Queue::open(output_bytes, options(spilled_name))?;
            lost += its_lost;
            if let Some(batch) = waiting.first() {
                schemas.take_output(&batch.data.schema())?;
            }
            let Written { last: mut taken, files: first_file } =
                Written::of(output, packing.unpack.pool());
            for (position, batch) in (0..).zip(&waiting) {
                match taken.has(&batch.producer, batch.sequence) {
                    // A file has got its name, and then the process ended.
                    true => queue.release(position),
                    false => taken.note(&batch.producer, batch.sequence),
                }
            }
            let target = match &output.to {
                Destination::Flight(address) => {
                    Some(Target::with_files(address, &output.tls_keys, &output.password_file)?)
                }
                _ => None,
            };
            let next = output.tree.iter().flat_map(|tree| &tree.next);
            let next = next.map(|address| {
                Target::with_files(address, &output.tls_keys, &output.password_file)
            });
            outputs.push(Arc::new(Output {
                target,
                next: next.collect::<Result<_, _>>()?,
                passing: Arc::default(),
                committed: AtomicU64::new(0),
                name: name.as_str().into(),
                definition: output.clone(),
                queue,
                taken: Mutex::new(taken),
                first_file,
                subscribers: Subscribers::default(),
                link: LinkStatus::default(),
                partitions: Mutex::default(),
            }));
        }
        let hosted = Self {
            pipeline: Pipeline::new(definition, |_, node| {
                let target = Target::with_files(&node.address, &node.tls_keys, &node.password_file);
                let target = target.map_err(|error| FlowError::Refused(error.to_string()))?;
                Ok(Arc::new(RemoteNode::new(target, node, packing, runtime)))
            })?
            .with_memory(stages_bytes)
            .with_packing(packing),
            input: Arc::new(input),
            outputs,
            schemas,
            spill: spill.map(|(_, space)| space),
            processing: AtomicUsize::new(0),
            producing: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            routed: AtomicU64::new(0),
        };
        if let Some(first) = recovered.first() {
            let definition = hosted.pipeline.definition();
            hosted.schemas.take_input(definition, &first.data.schema())?;
        }
        Ok((hosted, recovered, lost))
    }

    /// Returns `true` if no output goes to subscribers, so that accepted batches become safe
    /// without a client's request.
    pub fn delivers_by_itself(&self) -> bool {
        let to_subscribers =
            (self.outputs.iter()).any(|output| output.definition.to == Destination::Subscribers);
        !to_subscribers
    }

    /// Returns `true` if no input batch waits for the stages or is in them.
    pub fn is_idle(&self) -> bool {
        let begun = self.begun.load(Ordering::Acquire);
        self.input.is_drained(begun) && self.processing.load(Ordering::Acquire) == 0
    }

    /// Returns `true` if a producer's stream is open, so that more batches may come.
    pub fn has_producers(&self) -> bool {
        self.producing.load(Ordering::Acquire) > 0
    }

    /// A stream is open until this is dropped.
    pub fn producer(&self) -> Counted<'_> {
        Counted::one(&self.producing)
    }

    /// Batches from this position on go into the stages again.
    pub fn resume_at(&self, position: u64) {
        self.begun.store(position, Ordering::Release);
    }

    /// The batch at this position goes into the stages; it is being processed until the count is dropped.
    pub fn begin(&self, position: u64) -> Counted<'_> {
        let processing = Counted::one(&self.processing);
        self.begun.store(position + 1, Ordering::Release);
        processing
    }

    /// The output of that name.
    pub fn output(&self, name: &str) -> Option<&Arc<Output>> {
        self.outputs.iter().find(|output| &*output.name == name)
    }

    /// All queues, by their contents.
    pub fn queues(&self) -> Vec<(String, QueueStatus)> {
        let input = ("input".to_owned(), self.input.status());
        let outputs = self.outputs.iter();
        let outputs = outputs.map(|output| (output.name.to_string(), output.queue.status()));
        std::iter::once(input).chain(outputs).collect()
    }
}

fn open_spill(spill: &overside_flow::Spill) -> Result<(PathBuf, Arc<SpillSpace>), ServiceError> {
    use std::os::unix::fs::DirBuilderExt;
    let directory = spill.directory.clone();
    // Data of producers are private.
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory);
    made.map_err(|error| ServiceError::Directory { path: directory.clone(), error })?;
    Ok((directory, Arc::new(SpillSpace::new(spill.bytes.0))))
}

/// A name as it can be in the name of a file, and no other name is.
fn file_name(name: &str) -> String {
    name.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
            other => format!("%{other:02x}"),
        })
        .collect()
}
