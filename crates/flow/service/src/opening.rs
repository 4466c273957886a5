//! How a stream of data begins: a descriptor, and a schema, which need not come with the same message.

use std::sync::Arc;

use arrow_flight::{FlightData, FlightDescriptor};
use overside_flow::pack::{CodecPool, MessageUnpacker, UnpackOptions};
use tonic::{Status, Streaming};

use crate::error::status_of;

/// The beginning of a stream.
pub struct Opening {
    /// What it is for.
    pub descriptor: Option<FlightDescriptor>,
    /// The message with the schema.
    first: FlightData,
}

impl Opening {
    /// Reads up to the first message of a stream, which has its descriptor.
    ///
    /// # Errors
    /// The stream ends, or is none.
    pub async fn read(messages: &mut Streaming<FlightData>) -> Result<Self, Status> {
        let first = messages.message().await?;
        let mut first = first.ok_or_else(|| Status::invalid_argument("an empty stream"))?;
        Ok(Self {
            descriptor: first.flight_descriptor.take(),
            first,
        })
    }

    /// Reads up to the schema.
    ///
    /// # Errors
    /// There is none.
    pub async fn unpacker(
        self,
        messages: &mut Streaming<FlightData>,
        options: UnpackOptions,
        pool: &Arc<CodecPool>,
    ) -> Result<MessageUnpacker, Status> {
        let mut first = self.first;
        while first.data_header.is_empty() {
            let next = messages.message().await?;
            first = next.ok_or_else(|| Status::invalid_argument("a stream without a schema"))?;
        }
        let unpacker = MessageUnpacker::new(&first.data_header, options, pool);
        unpacker.map_err(status_of)
    }
}
