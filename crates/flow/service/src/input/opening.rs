//! Beginning of a stream of data: a descriptor, and a schema, which need not come with the same
//! message. Then its batches follow.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_flight::{FlightData, FlightDescriptor};
use arrow_schema::SchemaRef;
use overside_flow::Packing;
use overside_flow::pack::{Message, MessageUnpacker, StageTime, UnpackOptions};
use tonic::{Status, Streaming};

use crate::error::status_of;

/// The beginning of a stream.
pub struct Opening {
    /// Descriptor of the first message, which gives the purpose of the stream; `None` if the
    /// message has none.
    pub descriptor: Option<FlightDescriptor>,
    /// The message with the schema.
    first: FlightData,
}

impl Opening {
    /// Reads up to the first message of a stream, which has its descriptor.
    ///
    /// # Errors
    /// The stream ends early or is invalid.
    pub async fn read(messages: &mut Streaming<FlightData>) -> Result<Self, Status> {
        let first = messages.message().await?;
        let mut first = first.ok_or_else(|| Status::invalid_argument("an empty stream"))?;
        Ok(Self { descriptor: first.flight_descriptor.take(), first })
    }

    /// Reads up to the schema.
    ///
    /// # Errors
    /// There is no schema.
    pub async fn decoder(
        self,
        messages: &mut Streaming<FlightData>,
        options: UnpackOptions,
        packing: &Arc<Packing>,
    ) -> Result<FlightDecoder, Status> {
        let mut first = self.first;
        while first.data_header.is_empty() {
            let next = messages.message().await?;
            first = next.ok_or_else(|| Status::invalid_argument("a stream without a schema"))?;
        }
        FlightDecoder::new(&first.data_header, options, packing)
    }
}

/// Messages of Flight as batches; the time for this counts as unpacking.
pub struct FlightDecoder {
    unpacker: MessageUnpacker,
    packing: Arc<Packing>,
}

impl FlightDecoder {
    /// Makes a decoder for the stream that begins with the header of a schema.
    ///
    /// # Errors
    /// The header is not a schema.
    pub fn new(
        header: &[u8],
        options: UnpackOptions,
        packing: &Arc<Packing>,
    ) -> Result<Self, Status> {
        let unpacker = MessageUnpacker::new(header, options, packing.unpack.pool());
        Ok(Self { unpacker: unpacker.map_err(status_of)?, packing: Arc::clone(packing) })
    }

    /// Returns the time that packing has taken so far.
    pub fn time(&self) -> StageTime {
        self.unpacker.time()
    }

    /// The schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        self.unpacker.schema()
    }

    /// The batch of a message; `None` if it was a dictionary.
    ///
    /// # Errors
    /// It is damaged.
    pub fn unpack(&mut self, message: FlightData) -> Result<Option<RecordBatch>, Status> {
        let message = Message { header: message.data_header, body: message.data_body };
        let (unpack, before) = (&self.packing.unpack, self.unpacker.time());
        let batch = tokio::task::block_in_place(|| unpack.work(|| self.unpacker.unpack(message)));
        let batch = batch.map_err(status_of)?;
        let (batches, rows) = batch.as_ref().map_or((0, 0), |batch| (1, batch.num_rows()));
        unpack.done(batches, rows as u64, self.unpacker.time().since(before));
        Ok(batch)
    }
}
