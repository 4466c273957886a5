//! DoExchange: batches go in, and the results of the stages come back by the same call.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_flight::FlightData;
use overside_flow::pack::PackOptions;
use overside_flow::{BatchResult, Stream};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use crate::error::status_of;
use crate::input::metadata::BatchMetadata;
use crate::input::opening::{FlightDecoder, Opening};
use crate::output::encoder::{DataSender, FlightEncoder, send_one};
use crate::pipeline_host::PipelineHost;
use crate::service::{Counters, Service};

/// Batches that are read ahead of the stages.
const AHEAD: usize = 2;

/// A batch that came in.
struct Incoming {
    sequence: u64,
    data: RecordBatch,
}

/// Runs the pipeline for this call only, until the client has sent everything.
pub(crate) async fn serve(
    service: &Service,
    hosted: &PipelineHost,
    opening: Opening,
    mut messages: Streaming<FlightData>,
    (data, options): (DataSender, PackOptions),
) -> Result<(), Status> {
    let (bounds, packing) = (service.unpack_options(), &service.packing);
    let mut decoder = opening.decoder(&mut messages, bounds, packing).await?;
    let stream = hosted.pipeline.stream(decoder.schema());
    let stream = Arc::new(stream.map_err(status_of)?);
    let schema = stream.output_schema();
    let (mut encoder, first) = FlightEncoder::new(schema, options, packing)?;
    for message in first {
        send_one(&data, message).await?;
    }
    let (push, mut pushed) = mpsc::channel::<Incoming>(AHEAD);
    let runtime = Handle::current();
    let pushing = {
        let stream = Arc::clone(&stream);
        tokio::task::spawn_blocking(move || {
            // The other side gets the reason of an error.
            while let Some(next) = pushed.blocking_recv()
                && stream.push(next.sequence, next.data).is_ok()
            {}
            stream.finish();
        })
    };
    let pulling = {
        let stream = Arc::clone(&stream);
        tokio::task::spawn_blocking(move || send_back(&stream, &mut encoder, &data, &runtime))
    };
    let received = receive(service, &mut decoder, &mut messages, push).await;
    let (_, sent) = (pushing.await, pulling.await);
    received?;
    sent.unwrap_or_else(|error| Err(Status::internal(error.to_string())))
}

async fn receive(
    service: &Service,
    decoder: &mut FlightDecoder,
    messages: &mut Streaming<FlightData>,
    push: mpsc::Sender<Incoming>,
) -> Result<(), Status> {
    let mut position = 0;
    loop {
        // The channel is closed if the stages have failed.
        let Some(message) = service.next_message(messages, &push).await? else {
            return Ok(());
        };
        let metadata = BatchMetadata::parse(&message.app_metadata);
        let metadata = metadata.map_err(|error| Status::invalid_argument(error.to_string()))?;
        if let Some(batch) = decoder.unpack(message)? {
            Counters::add(&service.counters.received_batches, 1);
            Counters::add(&service.counters.received_rows, batch.num_rows() as u64);
            let sequence = metadata.and_then(|metadata| metadata.sequence);
            let sequence = sequence.unwrap_or(position);
            position = sequence + 1;
            let incoming = Incoming { sequence, data: batch };
            if push.send(incoming).await.is_err() {
                return Ok(());
            }
        }
    }
}

/// Sends results, with the sequence number of their input batch.
fn send_back(
    stream: &Stream,
    encoder: &mut FlightEncoder,
    data: &DataSender,
    runtime: &Handle,
) -> Result<(), Status> {
    while let Some(done) = stream.pull() {
        let BatchResult { tag, pieces } = done.map_err(status_of)?;
        for piece in pieces {
            let metadata = BatchMetadata {
                producer: None,
                sequence: Some(tag),
                output: None,
                partition: piece.partition,
            };
            for message in encoder.rows(&piece.batch, metadata.to_bytes())? {
                runtime.block_on(send_one(data, message))?;
            }
        }
    }
    Ok(())
}
