//! Single messages for Arrow Flight: header and body apart, without the framing of a stream or a file.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::MessageHeader;
use arrow_schema::SchemaRef;
use bytes::Bytes;

use super::codec::Layout;
use super::decoder::Decoder;
use super::input::cut;
use super::message::{self, PREFIX_BYTES};
use super::messages::Raw;
use super::packer::{PackOptions, Packer};
use super::pool::CodecPool;
use super::stages::StageTime;
use super::unpacker::UnpackOptions;
use super::{outer, schema};
use crate::Error;
use crate::schema::schema_change;

/// Arrow IPC message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// FlatBuffers header of the message.
    pub header: Bytes,
    /// Buffers of the message; empty for a schema.
    pub body: Bytes,
}

/// Encoder of record batches to messages.
pub struct MessagePacker {
    packer: Packer<Vec<u8>>,
    /// Number of bytes of the previous batch.
    last_bytes: usize,
}

impl MessagePacker {
    /// Starts a stream: its schema, and dictionaries without values.
    ///
    /// # Errors
    /// Those of [`Packer::new`].
    pub fn new(
        schema: &SchemaRef,
        options: PackOptions,
        pool: &Arc<CodecPool>,
    ) -> Result<(Self, Vec<Message>), Error> {
        let options = PackOptions { layout: Layout::Stream, ..options };
        let packer = Packer::new(Vec::new(), Arc::clone(schema), options, pool)?;
        let mut packer = Self { packer, last_bytes: 0 };
        // The encoder writes the schema with the first batch.
        let mut messages = packer.pack(&RecordBatch::new_empty(Arc::clone(schema)))?;
        messages.pop();
        Ok((packer, messages))
    }

    /// Returns the time and the bytes of its work so far.
    pub fn time(&self) -> StageTime {
        self.packer.time()
    }

    /// Encodes a batch: new or changed dictionaries, then the batch.
    ///
    /// # Errors
    /// Those of [`Packer::write`].
    pub fn pack(&mut self, batch: &RecordBatch) -> Result<Vec<Message>, Error> {
        self.packer.get_mut()?.reserve(self.last_bytes);
        self.packer.write(batch)?;
        self.packer.flush()?;
        let bytes = std::mem::take(self.packer.get_mut()?);
        self.last_bytes = bytes.len();
        split(bytes.into())
    }
}

/// Splits `bytes` into its messages.
fn split(mut bytes: Bytes) -> Result<Vec<Message>, Error> {
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let prefix = bytes.get(..PREFIX_BYTES).ok_or_else(cut)?;
        let len = prefix[4..].first_chunk().ok_or_else(cut)?;
        let end = PREFIX_BYTES + u32::from_le_bytes(*len) as usize;
        if end > bytes.len() {
            return Err(cut());
        }
        let header = bytes.split_to(end).slice(PREFIX_BYTES..);
        let body_len = message::parse(&header)?.bodyLength();
        let body_len = usize::try_from(body_len).map_err(|_| cut())?;
        if body_len > bytes.len() {
            return Err(cut());
        }
        let body = bytes.split_to(body_len);
        messages.push(Message { header, body });
    }
    Ok(messages)
}

/// Decoder of messages to record batches. Uncompressed buffers are not copied, unless a type needs
/// another alignment.
pub struct MessageUnpacker {
    decoder: Decoder,
    time: StageTime,
}

impl MessageUnpacker {
    /// Starts a stream with the header of its first message.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the message is not a schema.
    pub fn new(
        header: &[u8],
        options: UnpackOptions,
        pool: &Arc<CodecPool>,
    ) -> Result<Self, Error> {
        let (header, _) = message::header_of(Buffer::from(header))?;
        let schema = schema::read(message::parse(&header)?.header_as_schema())?;
        let decoder = Decoder::new(&schema, options.message_bytes_max, pool)?;
        Ok(Self { decoder, time: StageTime::default() })
    }

    /// Returns the schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        self.decoder.schema()
    }

    /// Returns the time and the bytes of its work so far.
    pub fn time(&self) -> StageTime {
        StageTime { cpu_ns: self.time.cpu_ns + self.decoder.cpu_ns, ..self.time }
    }

    /// Decodes the next message to a batch; `None` if it was a dictionary.
    ///
    /// # Errors
    /// [`Error::SchemaChange`] for another schema; others if the message is damaged. After an error no
    /// further message can be decoded.
    pub fn unpack(&mut self, message: Message) -> Result<Option<RecordBatch>, Error> {
        let mut time = StageTime::default();
        let batch = time.measure(|| self.decode(message));
        self.time += time;
        batch
    }

    fn decode(&mut self, message: Message) -> Result<Option<RecordBatch>, Error> {
        self.time.bytes_in += (message.header.len() + message.body.len()) as u64;
        let parsed = message::parse(&message.header)?;
        if let Some(found) = parsed.header_as_schema() {
            let found = outer::without_key(&schema::read(Some(found))?);
            return match found == *self.decoder.schema() {
                // Repeating the same schema is no change.
                true => Ok(None),
                false => Err(schema_change(self.decoder.schema(), &found)),
            };
        }
        let is_batch = matches!(
            parsed.header_type(),
            MessageHeader::RecordBatch | MessageHeader::DictionaryBatch
        );
        let is_whole = u64::try_from(parsed.bodyLength()) == Ok(message.body.len() as u64);
        if !is_batch || !is_whole {
            let what = "a message that is no batch, or whose body has another length";
            return Err(Error::Damaged(what.into()));
        }
        let incoming = self.decoder.start(Raw {
            header: Buffer::from(message.header),
            body: Buffer::from(message.body),
        })?;
        self.time.bytes_out += incoming.bytes;
        self.decoder.finish(incoming)
    }
}
