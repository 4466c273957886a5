//! Lines of text.

use std::io::{self, ErrorKind};

use memchr::{memchr, memchr_iter, memrchr};
use overside_placement::Buffer;

use crate::search::TRIAL_BYTES;
use crate::stream::{Batch, Stream};
use crate::{Error, Input, Search, SearchSummary, Sink};

impl Search {
    /// Searches lines. The last one need not end in `\n`.
    ///
    /// # Errors
    /// [`Error`]; records found before are in the sink.
    pub fn text(
        &mut self,
        input: &mut dyn Input,
        sink: &mut dyn Sink,
    ) -> Result<SearchSummary, Error> {
        let mut lines = Lines {
            head: Vec::new(),
            taken: 0,
            input,
            at_end: false,
            tail: Vec::new(),
            offset: 0,
            before: 0,
            counts: self.options.counts_records(),
            failure: None,
        };
        if self.wants_trial(lines.input.len_bytes()) {
            lines.read_head(TRIAL_BYTES);
        }
        let sample = memrchr(b'\n', &lines.head).map_or(0, |end| end + 1);
        self.open(&lines.head[..sample])?;
        let mut stream = Stream::new(self, sink);
        while !stream.is_over {
            let buffer = stream.buffer()?;
            if !lines.next(&mut stream, buffer)? {
                break;
            }
        }
        let summary = stream.finish()?;
        match lines.failure {
            Some(error) => Err(Error::Read(error)),
            None => Ok(summary),
        }
    }
}

/// Cuts text into chunks of whole lines.
struct Lines<'a> {
    /// First bytes of the input, read for a trial of the engines, and how many of them were taken.
    head: Vec<u8>,
    taken: usize,
    input: &'a mut dyn Input,
    at_end: bool,
    /// The beginning of a line whose end has not been read. Shorter than a chunk.
    tail: Vec<u8>,
    /// Byte offset at which the next chunk begins, and the number of lines before it if lines are
    /// counted.
    offset: u64,
    before: u64,
    counts: bool,
    /// Read error that ended the input early. The bytes read before it are searched first.
    failure: Option<io::Error>,
}

impl Lines<'_> {
    fn read_head(&mut self, len: usize) {
        let mut head = vec![0; len];
        let mut filled = 0;
        while filled < len {
            let read = self.read(&mut head[filled..]);
            if read == 0 {
                break;
            }
            filled += read;
        }
        head.truncate(filled);
        self.head = head;
    }

    /// Reads once; 0 at the end, and where the input fails.
    fn read(&mut self, into: &mut [u8]) -> usize {
        if self.taken < self.head.len() {
            let len = into.len().min(self.head.len() - self.taken);
            into[..len].copy_from_slice(&self.head[self.taken..self.taken + len]);
            self.taken += len;
            return len;
        }
        loop {
            match self.input.read(into) {
                Ok(len) => {
                    self.at_end = len == 0;
                    return len;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.failure = Some(error);
                    self.at_end = true;
                    return 0;
                }
            }
        }
    }

    /// Sends the next chunk; `false` at the end.
    fn next(&mut self, stream: &mut Stream<'_>, mut buffer: Buffer) -> Result<bool, Error> {
        let capacity = buffer.capacity();
        buffer[..self.tail.len()].copy_from_slice(&self.tail);
        let mut len = self.tail.len();
        let mut has_line = false;
        while len < capacity && !self.at_end {
            if self.taken == self.head.len() && self.input.waits() {
                if has_line {
                    break;
                }
                stream.idle()?;
            }
            let read = self.read(&mut buffer[len..]);
            has_line = has_line || memchr(b'\n', &buffer[len..len + read]).is_some();
            len += read;
        }
        let end = match memrchr(b'\n', &buffer[..len]) {
            Some(end) => end + 1,
            None if self.at_end => len,
            None => return self.long(stream, buffer).map(|()| true),
        };
        self.tail.clear();
        self.tail.extend_from_slice(&buffer[end..len]);
        if end == 0 {
            return Ok(false);
        }
        buffer.set_len(end);
        let mut batch = self.batch();
        if self.counts {
            let unfinished = !buffer.ends_with(b"\n");
            batch.records = memchr_iter(b'\n', &buffer).count() as u64 + u64::from(unfinished);
        }
        self.offset += end as u64;
        self.before += batch.records;
        stream.send(buffer, batch)?;
        Ok(true)
    }

    fn batch(&self) -> Batch {
        Batch { offset: Some(self.offset), before: self.before, ..Batch::default() }
    }

    /// Searches a line that fills `buffer` and is longer.
    fn long(&mut self, stream: &mut Stream<'_>, mut buffer: Buffer) -> Result<(), Error> {
        let batch = self.batch();
        let mut line = buffer.to_vec();
        self.tail.clear();
        while !self.at_end {
            let read = self.read(&mut buffer);
            let end = memchr(b'\n', &buffer[..read]);
            line.extend_from_slice(&buffer[..end.unwrap_or(read)]);
            stream.check_line(line.len(), &batch)?;
            if let Some(end) = end {
                self.tail.extend_from_slice(&buffer[end + 1..read]);
                self.offset += 1;
                break;
            }
        }
        drop(buffer);
        self.offset += line.len() as u64;
        self.before += 1;
        stream.send_line(&line, batch)
    }
}
