//! Reads the messages of a stream in sequence, or those of a file by its index.

use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::Buffer;
use arrow_ipc::{Block, MessageHeader};
use arrow_schema::SchemaRef;

use super::footer::NAME;
use super::input::{Input, Source, cut};
use super::message::{self, CONTINUATION, unreadable};
use super::schema;
use crate::Error;
use crate::memory::BufferPool;

/// Number of bytes of the footer's length and the magic bytes at a file's end.
const TAIL_BYTES: u64 = 10;
/// Maximum number of words of zeros between the magic bytes and the first message: at most 64 bytes
/// with the magic bytes.
const PADDING_WORDS_MAX: usize = 16;

/// Message before it is decoded.
pub(super) struct Raw {
    pub header: Buffer,
    pub body: Buffer,
}

pub(super) struct Messages<'a> {
    input: Input<'a>,
    order: Order,
    bytes_read: u64,
}

enum Order {
    /// Messages in sequence. Holds the first word of the first message.
    Stream(Option<u32>),
    /// Footer of a file, and its messages: dictionaries, then batches.
    File(Buffer, std::vec::IntoIter<Block>),
    Over,
}

impl<'a> Messages<'a> {
    /// Detects whether the input is a file or a stream.
    pub(super) fn open(mut input: Input<'a>) -> Result<Self, Error> {
        let first = input.word()?.ok_or_else(cut)?;
        let is_file = NAME.starts_with(&first.to_le_bytes());
        let order = match (is_file, input.len()) {
            (false, _) => Order::Stream(Some(first)),
            (true, Some(len)) => Self::index(&input, len)?,
            // A file that cannot be read from its end is read as the stream that it contains.
            (true, None) => {
                input.next(4)?;
                let mut word = 0;
                for _ in 0..PADDING_WORDS_MAX {
                    word = input.word()?.ok_or_else(cut)?;
                    if word != 0 {
                        break;
                    }
                }
                Order::Stream(Some(word))
            }
        };
        Ok(Self { input, order, bytes_read: 0 })
    }

    /// Returns the number of bytes read so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read + self.input.position()
    }

    fn index(input: &Input<'_>, len: u64) -> Result<Order, Error> {
        let tail_at = len.checked_sub(TAIL_BYTES).ok_or_else(cut)?;
        let tail = input.at(tail_at, TAIL_BYTES)?;
        let (footer_len, name) = tail.split_first_chunk().ok_or_else(cut)?;
        if name != NAME {
            let what = "a file that does not end like one; was it written to its end?";
            return Err(Error::Damaged(what.into()));
        }
        let footer_len = u64::from(u32::from_le_bytes(*footer_len));
        let footer_at = tail_at.checked_sub(footer_len);
        let footer_at =
            footer_at.ok_or_else(|| Error::Damaged("the footer is longer than the file".into()))?;
        let bytes = input.at(footer_at, footer_len)?;
        let bad = |error| unreadable("the footer", &error);
        let is_footer = |bytes: &[u8]| arrow_ipc::root_as_footer(bytes).map(drop);
        let (bytes, ()) = message::mended(bytes, is_footer).map_err(bad)?;
        let footer = arrow_ipc::root_as_footer(&bytes).map_err(bad)?;
        let dictionaries = footer.dictionaries().into_iter().flatten();
        let batches = footer.recordBatches().into_iter().flatten();
        let blocks: Vec<Block> = dictionaries.chain(batches).copied().collect();
        // Blocks must not overlap, so that no more bytes are read than there are.
        let mut sum = 0_u64;
        for block in &blocks {
            let (_, header_len, body_len) = parts(block)?;
            sum = sum.saturating_add(header_len.saturating_add(body_len));
        }
        if sum > len {
            let what = "the messages of a file are longer than the file";
            return Err(Error::Damaged(what.into()));
        }
        Ok(Order::File(bytes.clone(), blocks.into_iter()))
    }

    /// Returns the byte range of each message of a file, from its index.
    fn ranges(&self) -> Result<Vec<Range<u64>>, Error> {
        let blocks = match &self.order {
            Order::File(_, blocks) => blocks.as_slice(),
            Order::Stream(_) | Order::Over => &[],
        };
        let range = |block| {
            let (begin, header_len, body_len) = parts(block)?;
            let end = begin.saturating_add(header_len.saturating_add(body_len));
            Ok(begin..end)
        };
        blocks.iter().map(range).collect()
    }

    /// Returns the schema, which precedes the first message.
    pub(super) fn schema(&mut self) -> Result<SchemaRef, Error> {
        if let Order::File(footer, _) = &self.order {
            let footer = arrow_ipc::root_as_footer(footer)
                .map_err(|error| unreadable("the footer", &error))?;
            return schema::read(footer.schema());
        }
        let raw = self.next_raw()?.ok_or_else(cut)?;
        schema::read(message::parse(&raw.header)?.header_as_schema())
    }

    /// Reads the next dictionary or batch; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Raw>, Error> {
        let Some(raw) = self.next_raw()? else {
            return Ok(None);
        };
        match message::parse(&raw.header)?.header_type() {
            MessageHeader::RecordBatch | MessageHeader::DictionaryBatch => Ok(Some(raw)),
            MessageHeader::Schema => {
                Err(Error::Damaged("a second schema in the middle of it".into()))
            }
            other => {
                let name = other.variant_name().unwrap_or("an unknown one");
                Err(Error::Damaged(format!("a message that is no batch: {name}")))
            }
        }
    }

    fn next_raw(&mut self) -> Result<Option<Raw>, Error> {
        let raw = match &mut self.order {
            Order::Over => None,
            Order::File(_, blocks) => match blocks.next() {
                Some(block) => {
                    let raw = block_of(&self.input, &block)?;
                    self.bytes_read += (raw.header.len() + raw.body.len()) as u64;
                    Some(raw)
                }
                None => None,
            },
            Order::Stream(first) => following(&mut self.input, first.take())?,
        };
        if raw.is_none() {
            self.order = Order::Over;
        }
        Ok(raw)
    }
}

/// Returns the byte range of each dictionary and batch of an Arrow IPC file of that length.
pub(crate) fn blocks(file: File, len: u64) -> Result<Vec<Range<u64>>, Error> {
    let memory = Arc::new(BufferPool::new(0));
    Messages::open(Input::new(Source::File(file, len), &memory))?.ranges()
}

/// Reads the next message of a stream. Its first word may have been read already.
fn following(input: &mut Input<'_>, first: Option<u32>) -> Result<Option<Raw>, Error> {
    let first = match first {
        Some(first) => Some(first),
        None => input.word()?,
    };
    let len = match first {
        Some(CONTINUATION) => input.word()?.ok_or_else(cut)?,
        Some(len) => len,
        None => return Ok(None),
    };
    if len == 0 {
        return Ok(None);
    }
    let (header, body_len) = message::header_of(input.next(len.into())?)?;
    let body_len =
        u64::try_from(body_len).map_err(|_| Error::Damaged("a body of negative length".into()))?;
    let body = input.next(body_len)?;
    Ok(Some(Raw { header, body }))
}

/// Returns the offset of a block, and the lengths of its header and its body.
fn parts(block: &Block) -> Result<(u64, u64, u64), Error> {
    let part = |part: i64| {
        u64::try_from(part).map_err(|_| Error::Damaged("a block of negative length".into()))
    };
    Ok((part(block.offset())?, part(block.metaDataLength().into())?, part(block.bodyLength())?))
}

fn block_of(input: &Input<'_>, block: &Block) -> Result<Raw, Error> {
    let (begin, header_len, body_len) = parts(block)?;
    let all = input.at(begin, header_len.saturating_add(body_len))?;
    let header_len = header_len as usize;
    let prefix_len = match all.first_chunk() {
        Some(first) if u32::from_le_bytes(*first) == CONTINUATION => 8,
        _ => 4,
    };
    if prefix_len > header_len {
        return Err(Error::Damaged("a block without a header".into()));
    }
    let header = all.slice_with_length(prefix_len, header_len - prefix_len);
    let (header, said) = message::header_of(header)?;
    let body = all.slice(header_len);
    match u64::try_from(said) == Ok(body_len) {
        true => Ok(Raw { header, body }),
        false => Err(Error::Damaged("a block of another length than its message".into())),
    }
}
