//! Messages: a FlatBuffers header and a body of buffers.
//!
//! Apache Arrow columnar format, "Serialization and Interprocess Communication (IPC)".

use arrow_buffer::Buffer;
use arrow_ipc::{
    BodyCompressionBuilder, BodyCompressionMethod, CompressionType, DictionaryBatchBuilder,
    FieldNode, Message, MessageBuilder, MessageHeader, RecordBatch, RecordBatchBuilder,
};
use flatbuffers::{FlatBufferBuilder, InvalidFlatbuffer};
use overside_base::quietly;

use crate::Error;
use crate::error::replace_invalid;

/// Marker at the beginning of a message; absent in older streams.
pub(super) const CONTINUATION: u32 = u32::MAX;
/// Multiple in bytes to which headers and buffers are padded.
pub(super) const ALIGN_BYTES: usize = 64;
/// Number of bytes of the marker and the length before a header.
pub(super) const PREFIX_BYTES: usize = 8;

/// Compression of the buffers of a body, as its header declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Compression {
    pub codec: CompressionType,
    pub method: BodyCompressionMethod,
}

/// Verifies a header as FlatBuffers.
pub(super) fn parse(header: &[u8]) -> Result<Message<'_>, Error> {
    arrow_ipc::root_as_message(header)
        .map_err(|error| unreadable("the header of a message", &error))
}

/// Maximum number of texts of a header that are repaired; each costs one verification of the whole header.
const MENDED_MAX: usize = 64;

/// Replaces bytes of a header's texts that are not UTF-8 by question marks, and applies `read` to the header.
pub(super) fn mended<T>(
    mut header: Buffer,
    read: impl Fn(&[u8]) -> Result<T, InvalidFlatbuffer>,
) -> Result<(Buffer, T), InvalidFlatbuffer> {
    for _ in 0..MENDED_MAX {
        match read(&header) {
            Ok(found) => return Ok((header, found)),
            Err(InvalidFlatbuffer::Utf8Error { range, .. }) => {
                let mut bytes = header.to_vec();
                replace_invalid(&mut bytes[range]);
                header = Buffer::from(bytes);
            }
            Err(error) => return Err(error),
        }
    }
    read(&header).map(|found| (header, found))
}

/// Returns a message's header with repaired texts, and the length of its body.
pub(super) fn header_of(header: Buffer) -> Result<(Buffer, i64), Error> {
    mended(header, |header| Ok(arrow_ipc::root_as_message(header)?.bodyLength()))
        .map_err(|error| unreadable("the header of a message", &error))
}

/// Returns the record batch in a message, or in the dictionary in it.
pub(super) fn batch_of<'a>(message: &Message<'a>) -> Option<RecordBatch<'a>> {
    match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch()?.data(),
        _ => None,
    }
}

pub(super) fn compression_of(batch: &RecordBatch<'_>) -> Option<Compression> {
    let compression = batch.compression()?;
    Some(Compression { codec: compression.codec(), method: compression.method() })
}

/// Returns the header of a message with other buffers.
pub(super) fn with_buffers(
    message: &Message<'_>,
    buffers: &[arrow_ipc::Buffer],
    body_len: usize,
    compression: Compression,
) -> Result<Vec<u8>, Error> {
    let batch = batch_of(message).ok_or_else(|| Error::Damaged("a message of no batch".into()))?;
    let mut fbb = FlatBufferBuilder::new();
    let mut body = BodyCompressionBuilder::new(&mut fbb);
    body.add_codec(compression.codec);
    body.add_method(compression.method);
    let compression = body.finish();
    let nodes: Vec<FieldNode> = batch.nodes().into_iter().flatten().copied().collect();
    let nodes = fbb.create_vector(&nodes);
    let buffers = fbb.create_vector(buffers);
    let variadic = batch.variadicBufferCounts().map(|counts| {
        let counts: Vec<i64> = counts.iter().collect();
        fbb.create_vector(&counts)
    });
    let mut builder = RecordBatchBuilder::new(&mut fbb);
    builder.add_length(batch.length());
    builder.add_nodes(nodes);
    builder.add_buffers(buffers);
    builder.add_compression(compression);
    if let Some(variadic) = variadic {
        builder.add_variadicBufferCounts(variadic);
    }
    let batch = builder.finish();
    let header = match message.header_as_dictionary_batch() {
        Some(dictionary) => {
            let mut builder = DictionaryBatchBuilder::new(&mut fbb);
            builder.add_id(dictionary.id());
            builder.add_data(batch);
            builder.add_isDelta(dictionary.isDelta());
            builder.finish().as_union_value()
        }
        None => batch.as_union_value(),
    };
    let mut builder = MessageBuilder::new(&mut fbb);
    builder.add_version(message.version());
    builder.add_header_type(message.header_type());
    builder.add_bodyLength(body_len as i64);
    builder.add_header(header);
    let root = builder.finish();
    fbb.finish(root, None);
    Ok(fbb.finished_data().to_vec())
}

/// Returns a header with its framing: the marker, its length, and padding.
pub(super) fn framed(header: &[u8]) -> Vec<u8> {
    let len = (PREFIX_BYTES + header.len()).next_multiple_of(ALIGN_BYTES);
    let mut out = Vec::with_capacity(len);
    out.extend(CONTINUATION.to_le_bytes());
    out.extend(((len - PREFIX_BYTES) as u32).to_le_bytes());
    out.extend(header);
    out.resize(len, 0);
    out
}

/// Bytes in several buffers, which are only joined if necessary.
pub(super) struct Pieces(std::collections::VecDeque<Buffer>);

impl Pieces {
    pub(super) fn new(pieces: Vec<Buffer>) -> Self {
        Self(pieces.into())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(Buffer::is_empty)
    }

    /// Removes the next `len` bytes, or fewer if there are no more, as buffers.
    pub(super) fn take_pieces(&mut self, len: usize) -> Vec<Buffer> {
        let (mut pieces, mut missing) = (Vec::new(), len);
        while let Some(first) = self.0.front_mut()
            && missing > 0
        {
            let taken = missing.min(first.len());
            pieces.push(first.slice_with_length(0, taken));
            match taken == first.len() {
                true => drop(self.0.pop_front()),
                false => first.advance(taken),
            }
            missing -= taken;
        }
        pieces
    }

    /// Removes the next `len` bytes, or fewer if there are no more. They are not copied if they are
    /// in one buffer.
    pub(super) fn take(&mut self, len: usize) -> Buffer {
        let mut pieces = self.take_pieces(len);
        pieces.retain(|piece| !piece.is_empty());
        match <[Buffer; 1]>::try_from(pieces) {
            Ok([one]) => one,
            Err(several) => {
                Buffer::from(several.iter().map(|piece| &**piece).collect::<Vec<_>>().concat())
            }
        }
    }
}

/// Returns the error for bytes that are not valid FlatBuffers. The first line of `error` has the
/// reason. The other lines describe a path in a tree that users do not see, and are left out.
pub(super) fn unreadable(what: &str, error: &impl std::fmt::Display) -> Error {
    let reasons = error.to_string();
    let reason = reasons.lines().next().unwrap_or_default();
    Error::Damaged(format!("{what}: {}", reason.trim_end_matches('.')))
}

/// Runs `work` and converts panics to errors: Arrow's library panics on some invalid input.
pub(super) fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    quietly(work).unwrap_or_else(|panic| Err(Error::Damaged(panic)))
}
