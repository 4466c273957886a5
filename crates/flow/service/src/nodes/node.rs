//! A stage that runs here for another service: DoExchange with the stage as command.
//!
//! - The descriptor's command is `{"stage": "..."}` with the stage as TOML; the first message has the
//!   schema of its input.
//! - A batch is one or several pieces, each a message. Metadata of each:
//!   `{"number": N, "partition": P, "last": true}`; a batch without pieces is a message without data.
//! - Each side reads the other's compression; results are compressed as the call requests (`wire`).
//! - The same is returned, the last message with its costs: `queued_ns`, `run_ns`, `cpu_ns`; or with
//!   `failed`, the reason why the batch cannot be processed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_flight::FlightData;
use arrow_schema::SchemaRef;
use overside_device::threads::thread_cpu_ns;
use overside_flow::Error as FlowError;
use overside_flow::pack::PackOptions;
use overside_flow::{PartitionedBatch, StageRunner};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use crate::error::status_of;
use crate::input::opening::{FlightDecoder, Opening};
pub use crate::nodes::metadata::{PieceMetadata, StageCommand, parse_command};
use crate::output::encoder::{DataSender, FlightEncoder, send_one};
use crate::service::{Counters, Service};

/// Maximum number of pieces of a batch: one a partition, in some parts.
const PIECES_MAX: usize = 1 << 16;
/// Batches that wait for the stage; the client has a window of its own.
const AHEAD: usize = 8;

/// A batch that waits.
struct Waiting {
    number: u64,
    pieces: Vec<PartitionedBatch>,
    since: Instant,
}

/// Runs a stage until the client has sent everything.
pub async fn serve(
    service: &Arc<Service>,
    stage: String,
    opening: Opening,
    mut messages: Streaming<FlightData>,
    (data, options): (DataSender, PackOptions),
) -> Result<(), Status> {
    let (bounds, packing) = (service.unpack_options(), &service.packing);
    let mut decoder = opening.decoder(&mut messages, bounds, packing).await?;
    // Its device may be one that belongs to the thread that opens it.
    let (submit, batches) = mpsc::channel(AHEAD);
    let worker = Worker {
        service: Arc::clone(service),
        stage,
        schema: Arc::clone(decoder.schema()),
        data,
        options,
        runtime: Handle::current(),
    };
    let working = tokio::task::spawn_blocking(move || worker.run(batches));
    let received = receive(service, &mut decoder, &mut messages, submit).await;
    let worked = working.await;
    received?;
    worked.unwrap_or_else(|error| Err(Status::internal(error.to_string())))
}

async fn receive(
    service: &Service,
    decoder: &mut FlightDecoder,
    messages: &mut Streaming<FlightData>,
    submit: mpsc::Sender<Waiting>,
) -> Result<(), Status> {
    let mut pieces = Vec::new();
    loop {
        // The channel is closed if the stage could not be opened.
        let Some(message) = service.next_message(messages, &submit).await? else {
            return Ok(());
        };
        let metadata = PieceMetadata::parse(&message.app_metadata);
        if !message.data_header.is_empty() {
            let batch = decoder.unpack(message)?;
            let partition = metadata.as_ref().and_then(|metadata| metadata.partition);
            pieces.extend(batch.map(|batch| PartitionedBatch { partition, batch }));
        }
        if pieces.len() > PIECES_MAX {
            return Err(Status::invalid_argument("a batch has too many pieces"));
        }
        if let Some(metadata) = metadata.filter(|metadata| metadata.last) {
            let waiting = Waiting {
                number: metadata.number,
                pieces: std::mem::take(&mut pieces),
                since: Instant::now(),
            };
            if submit.send(waiting).await.is_err() {
                return Ok(());
            }
        }
    }
}

/// The thread of a stage.
struct Worker {
    service: Arc<Service>,
    stage: String,
    schema: SchemaRef,
    data: DataSender,
    /// Compression of answers, as the call requests it.
    options: PackOptions,
    runtime: Handle,
}

impl Worker {
    fn run(self, mut batches: mpsc::Receiver<Waiting>) -> Result<(), Status> {
        let runner = StageRunner::parse(&self.stage, &self.schema);
        let mut runner = runner.map_err(status_of)?;
        let schema = runner.output_schema();
        let packing = &self.service.packing;
        let (mut encoder, first) = FlightEncoder::new(schema, self.options, packing)?;
        for message in first {
            self.send(message)?;
        }
        while let Some(Waiting { number, pieces, since }) = batches.blocking_recv() {
            let (begin, cpu_ns) = (Instant::now(), thread_cpu_ns());
            let result = runner.run(pieces);
            self.slow_down(begin.elapsed());
            let took = PieceMetadata {
                number,
                last: true,
                queued_ns: begin.duration_since(since).as_nanos() as u64,
                run_ns: begin.elapsed().as_nanos() as u64,
                cpu_ns: thread_cpu_ns().saturating_sub(cpu_ns),
                ..PieceMetadata::default()
            };
            self.answer(&mut encoder, took, result)?;
            Counters::add(&self.service.counters.node_batches, 1);
        }
        Ok(())
    }

    /// Sleeps for as long as the service's faults require, so that this machine seems slower. Used
    /// by tests of how a host reacts.
    fn slow_down(&self, took: Duration) {
        std::thread::sleep(self.service.faults.delay(took));
    }

    fn answer(
        &self,
        encoder: &mut FlightEncoder,
        took: PieceMetadata,
        result: Result<Vec<PartitionedBatch>, FlowError>,
    ) -> Result<(), Status> {
        let (pieces, failed) = match result {
            Ok(pieces) => (pieces, None),
            Err(error) => {
                let reason: String = error.to_string().chars().take(1000).collect();
                (Vec::new(), Some(reason))
            }
        };
        let count = pieces.len();
        for (index, piece) in pieces.into_iter().enumerate() {
            let metadata = match index + 1 == count {
                true => PieceMetadata { partition: piece.partition, ..took.clone() },
                false => PieceMetadata {
                    number: took.number,
                    partition: piece.partition,
                    ..PieceMetadata::default()
                },
            };
            for message in encoder.rows(&piece.batch, metadata.to_bytes())? {
                self.send(message)?;
            }
        }
        if count == 0 {
            let metadata = PieceMetadata { failed, ..took };
            self.send(FlightData {
                app_metadata: metadata.to_bytes().into(),
                ..FlightData::default()
            })?;
        }
        Ok(())
    }

    fn send(&self, message: FlightData) -> Result<(), Status> {
        self.runtime.block_on(send_one(&self.data, message))
    }
}
