//! Delivery of an output to a subscriber: DoGet, and DoExchange with acknowledgements.

use arrow_flight::FlightData;
use overside_flow::pack::PackOptions;
use tonic::{Status, Streaming};

use crate::descriptor::Subscribe;
use crate::input::metadata::AcknowledgementMetadata;
use crate::output::Output;
use crate::output::encoder::{DataSender, FlightEncoder, gone, send_one};
use crate::output::in_flight::InFlight;
use crate::output::subscribers::Subscription;
use crate::pipeline_host::PipelineHost;
use crate::service::{Counters, Service};

/// Stream by which a subscriber acknowledges batches; `None` for DoGet, which has no such stream.
pub(crate) type Returned = Option<Streaming<FlightData>>;

/// Sends an output to a subscriber until that leaves, or everything has been sent and is not followed.
///
/// By DoGet a batch counts as taken once the transport has it. By DoExchange it counts once the
/// subscriber has acknowledged it (`returned`); batches left when it leaves wait for the next one.
pub(crate) async fn serve(
    service: &Service,
    hosted: &PipelineHost,
    output: &Output,
    wanted: &Subscribe,
    (data, options): (DataSender, PackOptions),
    returned: Returned,
) -> Result<(), Status> {
    let delivery = Delivery {
        subscription: output.subscribers.join(output.queue.first()),
        output,
        in_flight: InFlight::default(),
        options,
        is_acknowledged: returned.is_some(),
    };
    let served = tokio::select! {
        served = delivery.send(service, hosted, wanted, &data) => served,
        left = delivery.receive(returned) => left,
        () = delivery.subscription.dropped() => Err(Status::resource_exhausted(
            "the subscriber fell too far behind, and was let go; subscribe again for what waits",
        )),
        () = data.closed() => Ok(()),
    };
    for position in delivery.subscription.leave() {
        output.queue.release(position);
    }
    served
}

/// An output on its way to a subscriber.
struct Delivery<'o> {
    output: &'o Output,
    subscription: Subscription<'o>,
    in_flight: InFlight,
    /// Compression of messages that the subscriber requests.
    options: PackOptions,
    /// `true` if the subscriber acknowledges the batches that it has taken.
    is_acknowledged: bool,
}

impl Delivery<'_> {
    async fn send(
        &self,
        service: &Service,
        hosted: &PipelineHost,
        wanted: &Subscribe,
        data: &DataSender,
    ) -> Result<(), Status> {
        let queue = &self.output.queue;
        let schema = tokio::select! {
            schema = hosted.schemas.output() => schema,
            () = service.ending() => return Ok(()),
        };
        let (mut encoder, first) = FlightEncoder::new(&schema, self.options, &service.packing)?;
        for message in first {
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
            let is_wanted = (wanted.partition).is_none_or(|one| batch.partition == Some(one));
            if !is_wanted {
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

    /// Marks the batches of an acknowledgement as taken by the subscriber.
    fn take(&self, acknowledgement: &AcknowledgementMetadata) {
        self.release(self.in_flight.acknowledge(acknowledgement));
    }

    /// Releases the batches that no subscriber needs any more, now that this one has taken these positions.
    fn release(&self, taken: Vec<u64>) {
        for position in self.subscription.advance(self.in_flight.first(), taken) {
            self.output.queue.release(position);
        }
    }
}

/// Interval at which a delivery without `follow` checks if batches are still on their way. If none
/// are, the delivery ends.
const IDLE_CHECK: std::time::Duration = std::time::Duration::from_millis(20);
