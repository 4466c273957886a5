//! Passes rows of a tree to the trees of other machines, which are the next nodes of the same tree.
//!
//! A file of the root is passed as a whole. Each of the next nodes gets its part under the tree's name, with
//! numbers made from the file's, and has it on disk before the file is removed. If a part is passed again,
//! for example after a crash, it has the same numbers, which the next nodes recognize.

use std::sync::Arc;
use std::time::Duration;

use arrow_flight::FlightDescriptor;
use arrow_schema::SchemaRef;
use overside_flow::Error as FlowError;
use overside_flow::operators::{parts, values_bytes};
use overside_flow::tree::ForwardedRun;
use overside_flow::{Packing, TreeOutput};
use tokio::runtime::Handle;
use tonic::Status;

use crate::cpu_time::CpuTime;
use crate::input::batch::Batch;
use crate::input::metadata::AcknowledgementMetadata;
use crate::nodes::client::Target;
use crate::output::Output;
use crate::output::encoder::FlightEncoder;
use crate::wire;

/// Bytes of values of a message, about.
const MESSAGE_BYTES: usize = 16 << 20;
/// Messages of one file for one node: their numbers are those of the file, times this.
const MESSAGES_MAX: u64 = 1 << 20;
/// Longest time without an answer of the next node, after which passing fails.
const SILENCE: Duration = Duration::from_secs(60);

/// Passes on the data of an output's tree if it is enough, or if that was begun before. Queries wait meanwhile.
///
/// # Errors
/// [`FlowError`]: the tree cannot be read, or a next node does not take its part.
pub(crate) fn pass_on(
    output: &Output,
    packing: &Arc<Packing>,
    runtime: &Handle,
) -> Result<(), FlowError> {
    if output.next.is_empty() {
        return Ok(());
    }
    let tree = TreeOutput::of_existing(&output.definition, packing)?;
    let Some(mut tree) = tree.filter(TreeOutput::has_to_pass) else {
        return Ok(());
    };
    let schema = Arc::clone(tree.schema());
    let _alone = runtime.block_on(output.passing.write());
    tree.pass(&mut |passed| {
        let Some(target) = output.next.get(output.next_of(passed.child)) else {
            return Ok(());
        };
        let batches = batches(passed);
        let sending = send(output, target, &schema, batches, packing);
        runtime.block_on(sending).map_err(|status| target.error(&status))
    })
}

/// The messages of a part, numbered.
fn batches(passed: ForwardedRun<'_>) -> Vec<Batch> {
    let producer: Arc<str> = format!("{}/{}", passed.name, passed.child).into();
    let mut all = Vec::new();
    for rows in passed.batches {
        let bytes = values_bytes(&rows).max(1);
        let step = (rows.num_rows() * MESSAGE_BYTES / bytes).max(1);
        for data in parts(&rows, step) {
            all.push(Batch {
                producer: Arc::clone(&producer),
                sequence: passed.number * MESSAGES_MAX + all.len() as u64,
                partition: None,
                data,
            });
        }
    }
    all
}

/// Sends a part, and waits until it is safe there.
async fn send(
    output: &Output,
    target: &Target,
    schema: &SchemaRef,
    batches: Vec<Batch>,
    packing: &Arc<Packing>,
) -> Result<(), Status> {
    let Some(last) = batches.last().map(|batch| batch.sequence) else {
        return Ok(());
    };
    let mut client = target.connect(&CpuTime::default()).await?;
    let options = wire::settled(&mut client, output.definition.message_options()).await?;
    let path = FlightDescriptor::new_path(vec![target.path.clone()]);
    let (mut encoder, mut messages) = FlightEncoder::of_call(path, schema, options, packing)?;
    for batch in &batches {
        messages.extend(encoder.batch(batch, None)?);
    }
    drop(batches);
    let results = client.do_put(tokio_stream::iter(messages)).await?;
    let mut results = results.into_inner();
    let mut acknowledged = None;
    let late = |_| Status::deadline_exceeded("it does not answer");
    while let Some(result) =
        (tokio::time::timeout(SILENCE, results.message()).await).map_err(late)??
    {
        let said = AcknowledgementMetadata::parse(&result.app_metadata);
        acknowledged = acknowledged.max(said.map(|said| said.acknowledged));
    }
    match acknowledged >= Some(last) {
        true => Ok(()),
        false => Err(Status::unavailable("it ended the stream")),
    }
}
