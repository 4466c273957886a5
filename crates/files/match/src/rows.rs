//! Rows of a column, packed into chunks.

use overside_placement::Buffer;

use crate::stream::{Batch, SeparateRecord, Stream};
use crate::{Answer, Error, Search, SearchSummary, Sink};

/// Maximum number of rows of a batch, and the most bytes of those that are not in its chunk.
const BATCH_ROWS: u64 = 1 << 16;
const SEPARATE_BYTES: usize = 4 << 20;

/// Gathers rows: each becomes a line of a chunk, unless there is a line feed in it or it is too
/// long for a chunk. Those are searched by themselves, and come out in their places.
pub(crate) struct Rows<'a> {
    stream: Stream<'a>,
    buffer: Option<Buffer>,
    /// Number of bytes of the buffer that are filled.
    filled: usize,
    batch: Batch,
    separate_bytes: usize,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(search: &'a mut Search, sink: &'a mut dyn Sink) -> Result<Self, Error> {
        search.open(&[])?;
        Ok(Self {
            stream: Stream::new(search, sink),
            buffer: None,
            filled: 0,
            batch: Batch::default(),
            separate_bytes: 0,
        })
    }

    /// Returns `true` if the search wants more rows.
    pub(crate) fn go_on(&self) -> bool {
        !self.stream.is_over
    }

    /// Returns the number of rows taken so far.
    pub(crate) fn count(&self) -> u64 {
        self.batch.before + self.batch.records
    }

    /// Takes the next row; `None` for one without a value, which does not match.
    pub(crate) fn row(&mut self, value: Option<&[u8]>) -> Result<(), Error> {
        let Some(value) = value else {
            self.stream.tally.without_value += 1;
            return self.separate(None, false);
        };
        let buffer = match self.buffer.take() {
            Some(buffer) => buffer,
            None => self.stream.buffer()?,
        };
        let capacity = buffer.capacity();
        self.buffer = Some(buffer);
        let is_long = value.len() >= capacity;
        if is_long || memchr::memchr(b'\n', value).is_some() {
            self.stream.tally.long += u64::from(is_long);
            let matches = self.stream.search.is_match(value)?;
            return self.separate(Some(value), matches);
        }
        if self.filled + value.len() >= capacity {
            self.flush()?;
            return self.row(Some(value));
        }
        if let Some(buffer) = &mut self.buffer {
            let line = &mut buffer[self.filled..=self.filled + value.len()];
            line[..value.len()].copy_from_slice(value);
            line[value.len()] = b'\n';
        }
        self.filled += value.len() + 1;
        self.counted()
    }

    fn separate(&mut self, value: Option<&[u8]>, matches: bool) -> Result<(), Error> {
        let is_wanted = self.stream.search.options.answer == Answer::Records;
        let value = value.filter(|_| is_wanted).map(<[u8]>::to_vec);
        self.separate_bytes += value.as_ref().map_or(0, Vec::len);
        self.batch.separate.push(SeparateRecord { index: self.batch.records, matches, value });
        self.counted()
    }

    fn counted(&mut self) -> Result<(), Error> {
        self.batch.records += 1;
        if self.batch.records >= BATCH_ROWS || self.separate_bytes >= SEPARATE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Sends the gathered rows.
    fn flush(&mut self) -> Result<(), Error> {
        let next = Batch { before: self.count(), ..Batch::default() };
        let batch = std::mem::replace(&mut self.batch, next);
        let filled = std::mem::take(&mut self.filled);
        self.separate_bytes = 0;
        match self.buffer.take() {
            Some(mut buffer) if filled > 0 => {
                buffer.set_len(filled);
                self.stream.send(buffer, batch)
            }
            _ => {
                self.stream.send_separate(batch);
                Ok(())
            }
        }
    }

    pub(crate) fn finish(mut self) -> Result<SearchSummary, Error> {
        self.flush()?;
        self.stream.finish()
    }
}
