//! Arrow IPC, read without believing what it says of itself: a length is compared with what is
//! there before memory is taken for it.
//!
//! Apache Arrow columnar format, "Serialization and Interprocess Communication (IPC)".

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use arrow_array::RecordBatch;
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_ipc::reader::{FileDecoder, StreamDecoder, read_footer_length};
use arrow_ipc::{Block, CompressionType, Footer, Message, MessageHeader, convert};
use arrow_schema::{ArrowError, Schema, SchemaRef};

use crate::{Columns, Error};

/// What begins a message; older streams leave it out.
const CONTINUATION: u32 = u32::MAX;
/// The magic bytes and the footer's length at a file's end.
const TAIL_BYTES: u64 = 10;
/// The longest that the buffers of one compressed batch may become. Neither a length of theirs nor
/// what they hold can be trusted before they are decompressed.
const DECOMPRESSED_BYTES_MAX: u64 = 4 << 30;

/// By how much a byte can become longer at most: an LZ4 length grows by 255 with each byte of it; a
/// block of Zstandard has at least 4 bytes, and holds at most 128 KiB.
const LZ4_RATIO_MAX: u64 = 255;
const ZSTD_RATIO_MAX: u64 = 32 << 10;

/// The batches of a file.
pub struct FileBatches {
    file: File,
    decoder: FileDecoder,
    blocks: std::vec::IntoIter<Block>,
    len: u64,
}

impl FileBatches {
    /// Reads the footer and the dictionaries. Of the columns only those that `choose` wants will
    /// be decoded. The schema is that of the file.
    ///
    /// # Errors
    /// What is wrong with the file, and those of `choose`.
    pub fn open<E: From<Error>>(
        file: File,
        choose: impl FnOnce(&Schema) -> Result<Columns, E>,
    ) -> Result<(Self, SchemaRef, Columns), E> {
        let opened = Opened::new(file)?;
        let columns = choose(&opened.schema)?;
        let batches = opened.batches(&columns)?;
        Ok((batches, opened.schema, columns))
    }
}

impl Iterator for FileBatches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let block = self.blocks.next()?;
        block_of(&self.file, self.len, &block)
            .and_then(|bytes| self.decoder.read_record_batch(&block, &bytes))
            .transpose()
    }
}

/// A file whose footer was read.
struct Opened {
    file: File,
    len: u64,
    footer: Vec<u8>,
    schema: SchemaRef,
}

impl Opened {
    fn new(mut file: File) -> Result<Self, Error> {
        let len = file.seek(SeekFrom::End(0))?;
        let footer = footer(&file, len)?;
        let schema = root(&footer)?.schema();
        let schema = schema.ok_or_else(|| damaged("no schema"))?;
        if !schema.endianness().equals_to_target_endianness() {
            return Err(damaged("its numbers have the other byte order").into());
        }
        let schema = SchemaRef::new(convert::fb_to_schema(schema));
        Ok(Self {
            file,
            len,
            footer,
            schema,
        })
    }

    fn batches(&self, columns: &Columns) -> Result<FileBatches, Error> {
        let footer = root(&self.footer)?;
        let mut decoder = FileDecoder::new(SchemaRef::clone(&self.schema), footer.version());
        if let Columns::Only(indices) = columns {
            decoder = decoder.with_projection(indices.clone());
        }
        for block in footer.dictionaries().into_iter().flatten() {
            let bytes = block_of(&self.file, self.len, block)?;
            decoder.read_dictionary(block, &bytes)?;
        }
        let blocks = footer.recordBatches().into_iter().flatten().copied();
        Ok(FileBatches {
            file: self.file.try_clone()?,
            decoder,
            blocks: blocks.collect::<Vec<_>>().into_iter(),
            len: self.len,
        })
    }
}

fn root(footer: &[u8]) -> Result<Footer<'_>, ArrowError> {
    arrow_ipc::root_as_footer(footer)
        .map_err(|error| ArrowError::ParseError(format!("the footer is damaged: {error}")))
}

fn footer(file: &File, len: u64) -> Result<Vec<u8>, ArrowError> {
    let mut tail = [0; TAIL_BYTES as usize];
    let tail_at = len.checked_sub(TAIL_BYTES);
    let tail_at = tail_at.ok_or_else(|| damaged("shorter than its footer"))?;
    file.read_exact_at(&mut tail, tail_at)?;
    let footer_len = read_footer_length(tail)?;
    let at = tail_at.checked_sub(footer_len as u64);
    let at = at.ok_or_else(|| damaged("its footer is longer than the file"))?;
    let mut bytes = vec![0; footer_len];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

/// A message and its body, as a block of the footer gives them.
fn block_of(file: &File, len: u64, block: &Block) -> Result<Buffer, ArrowError> {
    let part = |part: i64| u64::try_from(part).map_err(|_| damaged("a block of negative length"));
    let (at, head) = (part(block.offset())?, part(block.metaDataLength().into())?);
    let all = head.checked_add(part(block.bodyLength())?);
    let all = all.filter(|all| at.checked_add(*all).is_some_and(|end| end <= len));
    let all = all.ok_or_else(|| damaged("a block lies outside of the file"))?;
    let mut bytes = MutableBuffer::from_len_zeroed(usize_of(all)?);
    file.read_exact_at(&mut bytes, at)?;
    let (head, body) = bytes.split_at(usize_of(head)?);
    let prefix = match head.get(..4) {
        Some(first) if first == CONTINUATION.to_le_bytes() => 8,
        _ => 4,
    };
    let message = head.get(prefix..).ok_or_else(|| damaged("a short block"))?;
    check(&message_of(message)?, body)?;
    Ok(bytes.into())
}

/// The batches of a stream.
pub struct StreamBatches<R> {
    input: R,
    decoder: StreamDecoder,
    is_over: bool,
}

impl<R: Read> StreamBatches<R> {
    /// Reads the schema.
    ///
    /// # Errors
    /// What is wrong with the stream.
    pub fn open(input: R) -> Result<(Self, SchemaRef), ArrowError> {
        let mut stream = Self {
            input,
            decoder: StreamDecoder::new(),
            is_over: false,
        };
        loop {
            if let Some(schema) = stream.decoder.schema() {
                return Ok((stream, schema));
            }
            if stream.message()?.is_some() || stream.is_over {
                return Err(damaged("no schema"));
            }
        }
    }

    /// Reads a message and its body, and decodes them.
    fn message(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        let Some(mut len) = self.word()? else {
            self.is_over = true;
            return Ok(None);
        };
        if len == CONTINUATION {
            len = self.word()?.ok_or_else(cut)?;
        }
        if len == 0 {
            self.is_over = true;
            return Ok(None);
        }
        let head = self.exactly(len.into())?;
        let message = message_of(&head)?;
        let body_len = u64::try_from(message.bodyLength());
        let body = self.exactly(body_len.map_err(|_| damaged("a body of negative length"))?)?;
        check(&message, &body)?;
        // A message without a body is decoded when the next one begins, so that is begun for it; a
        // marker is all that this takes, and messages have none otherwise.
        let body = match body.is_empty() {
            true => Buffer::from(CONTINUATION.to_le_bytes()),
            false => Buffer::from(body),
        };
        for mut bytes in [Buffer::from(len.to_le_bytes()), Buffer::from(head), body] {
            while !bytes.is_empty() {
                if let Some(batch) = self.decoder.decode(&mut bytes)? {
                    return Ok(Some(batch));
                }
            }
        }
        Ok(None)
    }

    /// The next four bytes; `None` at the end.
    fn word(&mut self) -> Result<Option<u32>, ArrowError> {
        let bytes = self.at_most(4)?;
        match <[u8; 4]>::try_from(bytes) {
            Ok(bytes) => Ok(Some(u32::from_le_bytes(bytes))),
            Err(bytes) if bytes.is_empty() => Ok(None),
            Err(_) => Err(cut()),
        }
    }

    fn exactly(&mut self, len: u64) -> Result<Vec<u8>, ArrowError> {
        let bytes = self.at_most(len)?;
        match bytes.len() as u64 == len {
            true => Ok(bytes),
            false => Err(cut()),
        }
    }

    /// Memory grows with what comes, not with what is announced.
    fn at_most(&mut self, len: u64) -> Result<Vec<u8>, ArrowError> {
        let mut bytes = Vec::new();
        self.input.by_ref().take(len).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

impl<R: Read> Iterator for StreamBatches<R> {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over {
            match self.message() {
                Ok(None) => {}
                Ok(Some(batch)) => return Some(Ok(batch)),
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

fn message_of(bytes: &[u8]) -> Result<Message<'_>, ArrowError> {
    arrow_ipc::root_as_message(bytes)
        .map_err(|error| ArrowError::ParseError(format!("a message is damaged: {error}")))
}

/// Compares the lengths that compressed buffers say they will have with a limit.
fn check(message: &Message<'_>, body: &[u8]) -> Result<(), ArrowError> {
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message
            .header_as_dictionary_batch()
            .and_then(|dictionary| dictionary.data()),
        _ => None,
    };
    let Some((batch, compression)) = batch.and_then(|batch| Some((batch, batch.compression()?)))
    else {
        return Ok(());
    };
    let ratio_max = match compression.codec() {
        CompressionType::ZSTD => ZSTD_RATIO_MAX,
        _ => LZ4_RATIO_MAX,
    };
    let mut sum = 0_u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let at = usize::try_from(buffer.offset()).ok();
        let said = at.and_then(|at| body.get(at..)?.first_chunk::<8>());
        let said = said.map_or(0, |bytes| i64::from_le_bytes(*bytes));
        // -1 says that the buffer is not compressed; what it has of bytes is in the body.
        let len = u64::try_from(buffer.length()).unwrap_or(0);
        // An empty buffer has no length before it.
        let said = u64::try_from(said).ok().filter(|_| len >= 8).unwrap_or(0);
        if said > len.saturating_mul(ratio_max) {
            let what = format!("{len} compressed bytes cannot become {said}");
            return Err(damaged(&what));
        }
        sum = sum.saturating_add(said);
    }
    match sum <= DECOMPRESSED_BYTES_MAX {
        true => Ok(()),
        false => Err(damaged(&format!(
            "a batch would be {sum} bytes long, more than {DECOMPRESSED_BYTES_MAX}"
        ))),
    }
}

fn usize_of(len: u64) -> Result<usize, ArrowError> {
    usize::try_from(len).map_err(|_| damaged("longer than memory"))
}

fn damaged(what: &str) -> ArrowError {
    ArrowError::ParseError(format!("the file is damaged: {what}"))
}

fn cut() -> ArrowError {
    damaged("it ends in the middle of a message")
}
