//! Batches as messages of Flight, and the way that they go to a client.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_flight::{FlightData, FlightDescriptor};
use arrow_schema::SchemaRef;
use overside_flow::Packing;
use overside_flow::pack::{Message, MessagePacker, PackOptions, StageTime};
use tokio::sync::mpsc;
use tonic::Status;

use crate::error::status_of;
use crate::input::batch::Batch;

/// Channel through which a stream of data goes to a client.
pub(crate) type DataSender = mpsc::Sender<Result<FlightData, Status>>;

/// Sends a message; waits for room.
pub(crate) async fn send_one(data: &DataSender, message: FlightData) -> Result<(), Status> {
    data.send(Ok(message)).await.map_err(|_| gone())
}

/// The status of a call whose client has left.
pub(crate) fn gone() -> Status {
    Status::cancelled("the client is gone")
}

/// Batches as messages of Flight; the time for this counts as repacking.
pub(crate) struct FlightEncoder {
    packer: MessagePacker,
    packing: Arc<Packing>,
}

impl FlightEncoder {
    /// Makes an encoder for batches of a schema. Also returns the messages to send before the first batch, with the
    /// schema.
    pub(crate) fn new(
        schema: &SchemaRef,
        options: PackOptions,
        packing: &Arc<Packing>,
    ) -> Result<(Self, Vec<FlightData>), Status> {
        let packer = MessagePacker::new(schema, options, packing.repack.pool());
        let (packer, first) = packer.map_err(status_of)?;
        let first = first.into_iter().map(|message| flight_data(message, None)).collect();
        Ok((Self { packer, packing: Arc::clone(packing) }, first))
    }

    /// Makes an encoder for a call to another service, whose first message has the descriptor.
    pub(crate) fn of_call(
        descriptor: FlightDescriptor,
        schema: &SchemaRef,
        options: PackOptions,
        packing: &Arc<Packing>,
    ) -> Result<(Self, Vec<FlightData>), Status> {
        let (encoder, mut messages) = Self::new(schema, options, packing)?;
        if let Some(first) = messages.first_mut() {
            first.flight_descriptor = Some(descriptor);
        }
        Ok((encoder, messages))
    }

    /// Returns the time that packing has taken so far.
    pub(crate) fn time(&self) -> StageTime {
        self.packer.time()
    }

    /// The messages of a batch, the last with metadata.
    pub(crate) fn batch(
        &mut self,
        batch: &Batch,
        output: Option<&str>,
    ) -> Result<Vec<FlightData>, Status> {
        self.rows(&batch.data, batch.metadata(output).to_bytes())
    }

    /// The messages of some rows, the last with this metadata.
    pub(crate) fn rows(
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
