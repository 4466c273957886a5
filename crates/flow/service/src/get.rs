//! What a subscriber gets of an output: DoGet, and DoExchange with acknowledgements.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_flight::FlightData;
use arrow_schema::SchemaRef;
use overside_flow::pack::{Message, MessagePacker, PackOptions, StageTime};
use overside_flow::pipeline::Packing;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::{Status, Streaming};

use crate::batch::Batch;
use crate::descriptor::Subscribe;
use crate::error::status_of;
use crate::hosted::Hosted;
use crate::in_flight::InFlight;
use crate::metadata::{AcknowledgementMetadata, BatchMetadata};
use crate::outputs::Output;
use crate::service::{Counters, Service};
use crate::subscribers::Subscription;

/// Where a stream of data goes.
pub type DataSender = mpsc::Sender<Result<FlightData, Status>>;

/// What a subscriber returns what it has taken by; DoGet has no such way.
pub type Returned = Option<Streaming<FlightData>>;

/// Sends an output to a subscriber until that leaves, or everything has been sent and is not followed.
///
/// By DoGet a batch counts as taken once the transport has it. By DoExchange it counts once the subscriber has
/// acknowledged it (`returned`); what is left when it leaves waits for the next one.
pub async fn serve(
    service: Arc<Service>,
    output: Arc<Output>,
    wanted: Subscribe,
    (data, options, returned): (DataSender, PackOptions, Returned),
    permit: OwnedSemaphorePermit,
) {
    let Some(hosted) = &service.hosted else {
        return;
    };
    let delivery = Delivery {
        subscription: output.subscribers.join(output.queue.first()),
        output: &output,
        in_flight: InFlight::default(),
        options,
        is_acknowledged: returned.is_some(),
    };
    let served = tokio::select! {
        served = delivery.send(&service, hosted, &wanted, &data) => served,
        left = delivery.receive(returned) => left,
        () = delivery.subscription.dropped() => Err(Status::resource_exhausted(
            "the subscriber fell too far behind, and was let go; subscribe again for what waits",
        )),
        () = data.closed() => Ok(()),
    };
    for position in delivery.subscription.leave() {
        output.queue.release(position);
    }
    if let Err(status) = served {
        // It may be gone.
        let _ = data.try_send(Err(status));
    }
    drop(permit);
}

/// An output on its way to a subscriber.
struct Delivery<'o> {
    output: &'o Output,
    subscription: Subscription<'o>,
    in_flight: InFlight,
    /// What it wants messages compressed with.
    options: PackOptions,
    /// Whether the subscriber says what it has taken.
    is_acknowledged: bool,
}

impl Delivery<'_> {
    async fn send(
        &self,
        service: &Service,
        hosted: &Hosted,
        wanted: &Subscribe,
        data: &DataSender,
    ) -> Result<(), Status> {
        let queue = &self.output.queue;
        let schema = tokio::select! {
            schema = hosted.schemas.output() => schema,
            () = service.ending() => return Ok(()),
        };
        let mut encoder = FlightEncoder::new(&schema, self.options, &service.packing)?;
        for message in encoder.take_first() {
            send_one(data, message).await?;
        }
        let mut cursor = queue.first();
        loop {
            // There is room once the message before was taken.
            let permit = data.reserve().await.map_err(|_| gone())?;
            let is_done = || queue.is_drained(cursor) && self.in_flight.is_empty();
            let wait = async {
                loop {
                    if !wanted.follow && hosted.is_idle() && is_done() {
                        return Ok(None);
                    }
                    tokio::select! {
                        next = queue.next(cursor) => return next,
                        () = tokio::time::sleep(IDLE_CHECK), if !wanted.follow => {}
                    }
                }
            };
            let Some(queued) = wait.await? else {
                return Ok(());
            };
            cursor = queued.position + 1;
            let batch = &queued.batch;
            if wanted
                .partition
                .is_some_and(|one| batch.partition != Some(one))
            {
                self.in_flight.left_out(&queued);
                self.release(Vec::new());
                continue;
            }
            self.in_flight.sent(&queued);
            let messages = encoder.batch(batch, Some(&self.output.name))?;
            let bytes: usize = messages.iter().map(|message| message.data_body.len()).sum();
            let mut permit = Some(permit);
            for message in messages {
                match permit.take() {
                    Some(permit) => permit.send(Ok(message)),
                    None => send_one(data, message).await?,
                }
            }
            // The transport has it.
            drop(data.reserve().await.map_err(|_| gone())?);
            if !self.is_acknowledged {
                self.take(&AcknowledgementMetadata {
                    producer: Some((*batch.producer).into()),
                    acknowledged: batch.sequence,
                });
            }
            Counters::add(&service.counters.sent_batches, 1);
            Counters::add(&service.counters.sent_rows, batch.data.num_rows() as u64);
            Counters::add(&service.counters.sent_bytes, bytes as u64);
        }
    }

    /// Takes acknowledgements until the subscriber leaves; forever, if it has no way to send any.
    async fn receive(&self, returned: Returned) -> Result<(), Status> {
        let Some(mut returned) = returned else {
            return std::future::pending().await;
        };
        while let Some(message) = returned.message().await? {
            // Clients may send a schema first, and messages without metadata.
            if message.app_metadata.is_empty() {
                continue;
            }
            let acknowledgement = AcknowledgementMetadata::parse(&message.app_metadata);
            let named = acknowledgement.filter(|one| one.producer.is_some());
            self.take(&named.ok_or_else(|| {
                Status::invalid_argument(
                    "app_metadata of a subscriber is {\"producer\": \"NAME\", \"acknowledged\": N}",
                )
            })?);
        }
        // It has closed its side: nothing more can be acknowledged.
        Ok(())
    }

    /// The subscriber has taken what an acknowledgement stands for.
    fn take(&self, acknowledgement: &AcknowledgementMetadata) {
        self.release(self.in_flight.acknowledge(acknowledgement));
    }

    /// Releases what nobody needs any more, now that the subscriber has taken these positions.
    fn release(&self, taken: Vec<u64>) {
        for position in self.subscription.advance(self.in_flight.first(), taken) {
            self.output.queue.release(position);
        }
    }
}

/// How often a subscriber that does not follow looks whether anything is on its way.
const IDLE_CHECK: std::time::Duration = std::time::Duration::from_millis(20);

/// Sends a message; waits for room.
pub async fn send_one(data: &DataSender, message: FlightData) -> Result<(), Status> {
    data.send(Ok(message)).await.map_err(|_| gone())
}

fn gone() -> Status {
    Status::cancelled("the client is gone")
}

/// Batches as messages of Flight; what that takes counts as repacking.
pub struct FlightEncoder {
    packer: MessagePacker,
    packing: Arc<Packing>,
    first: Vec<FlightData>,
}

impl FlightEncoder {
    /// For batches of a schema.
    pub fn new(
        schema: &SchemaRef,
        options: PackOptions,
        packing: &Arc<Packing>,
    ) -> Result<Self, Status> {
        let packer = MessagePacker::new(schema, options, packing.repack.pool());
        let (packer, first) = packer.map_err(status_of)?;
        let first = first
            .into_iter()
            .map(|message| flight_data(message, None))
            .collect();
        Ok(Self {
            packer,
            packing: Arc::clone(packing),
            first,
        })
    }

    /// What it took so far.
    pub fn time(&self) -> StageTime {
        self.packer.time()
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
        let (repack, before) = (&self.packing.repack, self.packer.time());
        let packed = tokio::task::block_in_place(|| repack.work(|| self.packer.pack(rows)));
        let packed = packed.map_err(status_of)?;
        let took = self.packer.time().since(before);
        repack.done(1, rows.num_rows() as u64, took);
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
