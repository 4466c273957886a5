//! DoGet: what a subscriber gets of an output.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_flight::FlightData;
use arrow_schema::SchemaRef;
use overside_flow::pack::{CodecPool, Message, MessagePacker, PackOptions};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::Status;

use crate::batch::Batch;
use crate::descriptor::Subscribe;
use crate::error::status_of;
use crate::hosted::Hosted;
use crate::metadata::BatchMetadata;
use crate::outputs::Output;
use crate::service::{Counters, Service};
use crate::subscribers::Subscription;

/// Where a stream of data goes.
pub type DataSender = mpsc::Sender<Result<FlightData, Status>>;

/// Sends an output to a subscriber until that leaves, or everything has been sent and is not followed.
pub async fn serve(
    service: Arc<Service>,
    output: Arc<Output>,
    wanted: Subscribe,
    data: DataSender,
    permit: OwnedSemaphorePermit,
) {
    let Some(hosted) = &service.hosted else {
        return;
    };
    let subscription = output.subscribers.join(output.queue.first());
    let served = tokio::select! {
        served = send(&service, hosted, &output, &wanted, (&subscription, &data)) => served,
        () = subscription.dropped() => Err(Status::resource_exhausted(
            "the subscriber fell too far behind, and was let go; subscribe again for what waits",
        )),
        () = data.closed() => Ok(()),
    };
    for position in subscription.leave() {
        output.queue.release(position);
    }
    if let Err(status) = served {
        // It may be gone.
        let _ = data.try_send(Err(status));
    }
    drop(permit);
}

async fn send(
    service: &Service,
    hosted: &Hosted,
    output: &Output,
    wanted: &Subscribe,
    (subscription, data): (&Subscription<'_>, &DataSender),
) -> Result<(), Status> {
    let schema = tokio::select! {
        schema = hosted.schemas.output() => schema,
        () = service.ending() => return Ok(()),
    };
    let mut encoder = FlightEncoder::new(&schema, PackOptions::default(), &service.pool)?;
    for message in encoder.take_first() {
        send_one(data, message).await?;
    }
    let mut cursor = output.queue.first();
    loop {
        // There is room once the message before was taken.
        let permit = data.reserve().await.map_err(|_| gone())?;
        let wait = async {
            loop {
                if !wanted.follow && hosted.is_idle() && output.queue.is_drained(cursor) {
                    return Ok(None);
                }
                tokio::select! {
                    next = output.queue.next(cursor) => return next,
                    () = tokio::time::sleep(IDLE_CHECK), if !wanted.follow => {}
                }
            }
        };
        let Some(queued) = wait.await? else {
            return Ok(());
        };
        cursor = queued.position + 1;
        if wanted
            .partition
            .is_some_and(|one| queued.batch.partition != Some(one))
        {
            release(output, subscription.advance(cursor, false));
            continue;
        }
        let messages = encoder.batch(&queued.batch, Some(&output.name))?;
        let bytes: usize = messages.iter().map(|message| message.data_body.len()).sum();
        let mut permit = Some(permit);
        for message in messages {
            match permit.take() {
                Some(permit) => permit.send(Ok(message)),
                None => send_one(data, message).await?,
            }
        }
        // It counts as taken once the transport has it.
        drop(data.reserve().await.map_err(|_| gone())?);
        release(output, subscription.advance(cursor, true));
        Counters::add(&service.counters.sent_batches, 1);
        Counters::add(
            &service.counters.sent_rows,
            queued.batch.data.num_rows() as u64,
        );
        Counters::add(&service.counters.sent_bytes, bytes as u64);
    }
}

/// How often a subscriber that does not follow looks whether anything is on its way.
const IDLE_CHECK: std::time::Duration = std::time::Duration::from_millis(20);

fn release(output: &Output, positions: Vec<u64>) {
    for position in positions {
        output.queue.release(position);
    }
}

/// Sends a message; waits for room.
pub async fn send_one(data: &DataSender, message: FlightData) -> Result<(), Status> {
    data.send(Ok(message)).await.map_err(|_| gone())
}

fn gone() -> Status {
    Status::cancelled("the client is gone")
}

/// Batches as messages of Flight.
pub struct FlightEncoder {
    packer: MessagePacker,
    first: Vec<FlightData>,
}

impl FlightEncoder {
    /// For batches of a schema.
    pub fn new(
        schema: &SchemaRef,
        options: PackOptions,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Status> {
        let packer = MessagePacker::new(schema, options, pool);
        let (packer, first) = packer.map_err(status_of)?;
        let first = first
            .into_iter()
            .map(|message| flight_data(message, None))
            .collect();
        Ok(Self { packer, first })
    }

    /// What comes before the first batch.
    pub fn take_first(&mut self) -> Vec<FlightData> {
        std::mem::take(&mut self.first)
    }

    /// The messages of a batch, the last with metadata.
    pub fn batch(
        &mut self,
        batch: &Batch,
        output: Option<&str>,
    ) -> Result<Vec<FlightData>, Status> {
        let metadata = BatchMetadata {
            producer: Some((*batch.producer).into()),
            sequence: batch.sequence,
            output: output.map(Into::into),
            partition: batch.partition,
        };
        self.rows(&batch.data, metadata.to_bytes())
    }

    /// The messages of some rows, the last with this metadata.
    pub fn rows(
        &mut self,
        rows: &RecordBatch,
        metadata: Vec<u8>,
    ) -> Result<Vec<FlightData>, Status> {
        let packed = tokio::task::block_in_place(|| self.packer.pack(rows));
        let packed = packed.map_err(status_of)?;
        let last = packed.len().saturating_sub(1);
        let mut metadata = Some(metadata);
        let messages = packed.into_iter().enumerate().map(|(index, message)| {
            let metadata = if index == last { metadata.take() } else { None };
            flight_data(message, metadata)
        });
        Ok(messages.collect())
    }
}

fn flight_data(message: Message, metadata: Option<Vec<u8>>) -> FlightData {
    FlightData {
        flight_descriptor: None,
        data_header: message.header,
        app_metadata: metadata.unwrap_or_default().into(),
        data_body: message.body,
    }
}
