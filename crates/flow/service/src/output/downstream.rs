//! An output that goes to another service: sent until it is acknowledged there.
//!
//! A batch stays in the queue of the output until the other service has acknowledged it. After a connection is lost
//! everything that is left is sent again, and the other service recognizes duplicates by name and number.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow_flight::{FlightData, FlightDescriptor};
use overside_base::lock;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::cpu_time::CpuTime;
use crate::input::metadata::AcknowledgementMetadata;
use crate::nodes::client::Target;
use crate::output::Output;
use crate::output::encoder::{FlightEncoder, send_one};
use crate::output::in_flight::InFlight;
use crate::pipeline_host::PipelineHost;
use crate::service::Service;
use crate::wire;

/// Messages that wait for the transport.
const AHEAD: usize = 2;
/// Wait before the first new attempt to connect. It doubles with each failed attempt, up to
/// `RETRY_MAX`.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Sends an output for as long as the service runs.
pub(crate) async fn run(service: Arc<Service>, output: Arc<Output>, target: Target) {
    let mut retry = RETRY_MIN;
    while let Some(hosted) = &service.hosted {
        let status = match session(&service, hosted, &output, &target).await {
            // Its end is that of the service.
            Ok(()) => return,
            Err(status) => status,
        };
        if output.link.is_connected.swap(false, Ordering::Relaxed) {
            retry = RETRY_MIN;
        }
        let reason = format!("{:?}: {}", status.code(), status.message());
        let before = lock(&output.link.last_error).replace(reason.clone());
        if before.as_ref() != Some(&reason) {
            tracing::warn!(
                output = &*output.name,
                "{} does not take batches, which wait meanwhile: {reason}",
                output.definition.to
            );
        }
        tokio::time::sleep(retry).await;
        retry = (2 * retry).min(RETRY_MAX);
    }
}

async fn session(
    service: &Service,
    hosted: &PipelineHost,
    output: &Output,
    target: &Target,
) -> Result<(), Status> {
    let schema = hosted.schemas.output().await;
    let mut client = target.connect(&CpuTime::default()).await?;
    let options = wire::settled(&mut client, output.definition.message_options()).await?;
    let path = FlightDescriptor::new_path(vec![target.path.clone()]);
    let (encoder, first) = FlightEncoder::of_call(path, &schema, options, &service.packing)?;
    let (messages, receiver) = mpsc::channel(AHEAD);
    let (to_grpc, from_queue) = mpsc::channel(AHEAD);
    let in_flight = InFlight::default();
    let sending = send(output, encoder, first, &in_flight, messages);
    // The other side reads messages, and not what became of making them. The others say why passing ended.
    let passing = async {
        pass(receiver, to_grpc).await;
        std::future::pending().await
    };
    let receiving = async {
        let mut results = client.do_put(ReceiverStream::new(from_queue)).await?.into_inner();
        while let Some(result) = results.message().await? {
            output.link.is_connected.store(true, Ordering::Relaxed);
            *lock(&output.link.last_error) = None;
            if let Some(acknowledged) = AcknowledgementMetadata::parse(&result.app_metadata) {
                for position in in_flight.acknowledge(&acknowledged) {
                    output.queue.release(position);
                }
            }
        }
        Err(Status::unavailable("it ended the stream"))
    };
    tokio::select! {
        sent = sending => sent,
        received = receiving => received,
        never = passing => never,
    }
}

async fn pass(mut from: mpsc::Receiver<Result<FlightData, Status>>, to: mpsc::Sender<FlightData>) {
    while let Some(Ok(message)) = from.recv().await {
        if to.send(message).await.is_err() {
            return;
        }
    }
}

/// Sends everything in the queue, from its beginning on, and later batches; returns at the queue's end.
async fn send(
    output: &Output,
    mut encoder: FlightEncoder,
    first: Vec<FlightData>,
    in_flight: &InFlight,
    messages: mpsc::Sender<Result<FlightData, Status>>,
) -> Result<(), Status> {
    for message in first {
        send_one(&messages, message).await?;
    }
    let mut cursor = output.queue.first();
    while let Some(queued) = output.queue.next(cursor).await? {
        cursor = queued.position + 1;
        in_flight.sent(&queued);
        for message in encoder.batch(&queued.batch, None)? {
            send_one(&messages, message).await?;
        }
    }
    // Nothing is left that would have to be acknowledged.
    Ok(())
}
