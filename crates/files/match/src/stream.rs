//! One input on its way through the executor.

use std::collections::VecDeque;
use std::time::Duration;

use memchr::memchr_iter;
use overside_device::{JobError, Outcome, Slice};
use overside_placement::{Buffer, Chunk, ChunkResult, Executor};

use crate::context::Surroundings;
use crate::{Answer, Error, Search, SelectedRecord, Sink};

/// Longest time that one call waits for a result; then the wait is repeated.
const WAIT: Duration = Duration::from_secs(1);

/// Counts of the records in a search of one input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchSummary {
    /// Number of selected records among those that were searched.
    pub selected: u64,
    /// Records that are longer than a chunk may be. They were searched by themselves, on the CPU.
    pub long: u64,
    /// Rows without a value. They do not match.
    pub without_value: u64,
}

/// Records that go through the executor together, and those between them that do not.
#[derive(Default)]
pub(crate) struct Batch {
    /// Byte offset in the input at which the first record begins; `None` unless the input is text.
    pub(crate) offset: Option<u64>,
    /// Number of records in the input before this batch.
    pub(crate) before: u64,
    /// Number of records in the batch. In chunks of text they are counted only if the options need
    /// it.
    pub(crate) records: u64,
    /// Records of the batch that are not in the chunk, in order.
    pub(crate) separate: Vec<SeparateRecord>,
}

/// A record beside a chunk.
pub(crate) struct SeparateRecord {
    /// Number of records of the batch before this one.
    pub(crate) index: u64,
    pub(crate) matches: bool,
    /// Value of the record, if it is needed.
    pub(crate) value: Option<Vec<u8>>,
}

/// The search of one input.
pub(crate) struct Stream<'a> {
    pub(crate) search: &'a mut Search,
    sink: &'a mut dyn Sink,
    /// Batches that were sent and have not come back. The flag is `true` if the batch has a chunk.
    sent: VecDeque<(Batch, bool)>,
    pub(crate) tally: SearchSummary,
    surroundings: Surroundings,
    /// `true` if no more input is wanted.
    pub(crate) is_over: bool,
}

impl<'a> Stream<'a> {
    /// `search` is open.
    pub(crate) fn new(search: &'a mut Search, sink: &'a mut dyn Sink) -> Self {
        let options = &search.options;
        let surroundings = Surroundings::new(options.context, options.record_bytes_max);
        let is_over = options.records_max == Some(0);
        Self {
            search,
            sink,
            sent: VecDeque::new(),
            tally: SearchSummary::default(),
            surroundings,
            is_over,
        }
    }

    fn executor(&mut self) -> Option<&mut Executor> {
        self.search.state.as_mut().map(|state| &mut state.executor)
    }

    /// A buffer for the next chunk, as long as a chunk may be.
    pub(crate) fn buffer(&mut self) -> Result<Buffer, Error> {
        loop {
            self.take(false)?;
            if let Some(buffer) = self.executor().and_then(Executor::buffer) {
                return Ok(buffer);
            }
            self.take(true)?;
        }
    }

    /// Sends a chunk of whole records.
    pub(crate) fn send(&mut self, buffer: Buffer, batch: Batch) -> Result<(), Error> {
        self.push(Chunk::from(buffer), batch)
    }

    /// Sends a chunk of whole records that lies in the caller's memory.
    pub(crate) fn lend(&mut self, records: Slice, batch: Batch) -> Result<(), Error> {
        self.take(false)?;
        self.push(Chunk::from(records), batch)
    }

    fn push(&mut self, mut chunk: Chunk, batch: Batch) -> Result<(), Error> {
        loop {
            let Some(executor) = self.executor() else {
                return Ok(());
            };
            match executor.push(chunk) {
                Ok(()) => break,
                Err(back) => chunk = back,
            }
            self.take(true)?;
        }
        self.sent.push_back((batch, true));
        Ok(())
    }

    /// Sends records none of which is in a chunk.
    pub(crate) fn send_separate(&mut self, batch: Batch) {
        self.sent.push_back((batch, false));
    }

    /// Searches a line by itself that is longer than a chunk, and the only one of its batch.
    pub(crate) fn send_line(&mut self, line: &[u8], mut batch: Batch) -> Result<(), Error> {
        self.check_line(line.len(), &batch)?;
        self.tally.long += 1;
        let matches = self.search.is_match(line)?;
        let is_wanted = self.search.options.answer == Answer::Records;
        batch.records = 1;
        batch.separate.push(SeparateRecord {
            index: 0,
            matches,
            value: is_wanted.then(|| line.to_vec()),
        });
        self.send_separate(batch);
        Ok(())
    }

    /// Refuses a line of a batch of its own that is too long.
    pub(crate) fn check_line(&self, len: usize, batch: &Batch) -> Result<(), Error> {
        let max_bytes = self.search.options.record_bytes_max;
        if len <= max_bytes {
            return Ok(());
        }
        let place = format!("line that begins at byte {}", batch.offset.unwrap_or(0));
        Err(Error::TooLong { place, max_bytes })
    }

    /// Takes finished results; with `wait` at least one, if one is to come.
    fn take(&mut self, wait: bool) -> Result<(), Error> {
        let mut wait = wait;
        loop {
            while let Some((_, false)) = self.sent.front() {
                if let Some((batch, _)) = self.sent.pop_front() {
                    self.deliver(&batch, &[], &[], 0)?;
                }
            }
            let Some(executor) = self.executor().filter(|executor| executor.in_flight() > 0) else {
                return Ok(());
            };
            match executor.pull()? {
                Some(piece) => {
                    wait = false;
                    self.piece(&piece)?;
                }
                None if wait => executor.wait(WAIT)?,
                None => return Ok(()),
            }
        }
    }

    /// Takes everything that was sent.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        while !self.sent.is_empty() {
            self.take(true)?;
        }
        Ok(())
    }

    /// Makes the sink write before a wait for the input.
    pub(crate) fn idle(&mut self) -> Result<(), Error> {
        self.settle()?;
        self.sink.idle().map_err(Error::Write)
    }

    /// Ends the search of this input.
    pub(crate) fn finish(mut self) -> Result<SearchSummary, Error> {
        self.settle()?;
        Ok(self.tally)
    }

    fn piece(&mut self, piece: &ChunkResult) -> Result<(), Error> {
        let Some((batch, _)) = self.sent.pop_front() else {
            return Ok(());
        };
        let output = match &piece.result {
            Ok(Outcome::Done(output)) => output,
            Ok(Outcome::Incompressible) => {
                let reason = "it is called incompressible, which is no answer to a search";
                return Err(JobError::Failed(reason.into()).into());
            }
            Err(error) => return Err(error.clone().into()),
        };
        let matching = output.value.unwrap_or(0);
        let bits = piece.output().unwrap_or_default();
        for source in piece.source.segments() {
            self.deliver(&batch, source, bits, matching)?;
        }
        Ok(())
    }

    /// Counts or delivers the selected records of a batch. `text` is its chunk, `bits` has a bit
    /// for each record that matches, `matching` is their number.
    fn deliver(
        &mut self,
        batch: &Batch,
        text: &[u8],
        bits: &[u8],
        matching: u64,
    ) -> Result<(), Error> {
        if self.is_over {
            return Ok(());
        }
        let invert = self.search.options.invert;
        if self.search.options.answer == Answer::Records {
            let none = !invert && matching == 0 && batch.separate.is_empty();
            return match none && self.surroundings.after == 0 {
                true => (self.surroundings).passed_all(
                    batch.before + batch.records,
                    batch.offset,
                    text,
                    self.sink,
                ),
                false => self.hand_out(batch, text, bits),
            };
        }
        let separate = batch.separate.iter().filter(|record| record.matches).count();
        let matching = matching + separate as u64;
        self.tally.selected += if invert { batch.records - matching } else { matching };
        if let Some(max) = self.search.options.records_max {
            self.tally.selected = self.tally.selected.min(max);
        }
        let is_answered = self.search.options.answer == Answer::Any && self.tally.selected > 0;
        self.is_over = is_answered || self.is_full();
        Ok(())
    }

    /// Returns `true` if [`crate::Options::records_max`] records are selected.
    fn is_full(&self) -> bool {
        Some(self.tally.selected) == self.search.options.records_max
    }

    fn hand_out(&mut self, batch: &Batch, text: &[u8], bits: &[u8]) -> Result<(), Error> {
        let options = &self.search.options;
        let (invert, has_context) = (options.invert, options.context.is_wanted());
        let with_numbers = options.numbers || has_context || batch.offset.is_none();
        let mut separate = batch.separate.iter().peekable();
        let unfinished = (!text.is_empty() && !text.ends_with(b"\n")).then_some(text.len());
        let mut ends = memchr_iter(b'\n', text).chain(unfinished).enumerate();
        let (mut index, mut begin) = (0, 0);
        while !self.is_over {
            let next = separate.next_if(|record| record.index == index);
            let (matches, value, offset) = match next {
                Some(record) => (record.matches, record.value.as_deref(), begin),
                None => {
                    let Some((number, end)) = ends.next() else {
                        break;
                    };
                    let value = &text[begin..end];
                    let offset = std::mem::replace(&mut begin, end + 1);
                    (is_set(bits, number), Some(value), offset)
                }
            };
            index += 1;
            let is_selected = matches != invert && !self.is_full();
            if !is_selected && !has_context {
                continue;
            }
            let record = SelectedRecord {
                number: if with_numbers { batch.before + index } else { 0 },
                offset: batch.offset.map(|first| first + offset as u64),
                value,
            };
            if is_selected {
                self.select(record)?;
            } else {
                self.surroundings.passed(record, self.sink)?;
            }
            self.is_over |= self.is_full() && self.surroundings.after == 0;
        }
        Ok(())
    }

    /// Passes a selected record on.
    fn select(&mut self, record: SelectedRecord<'_>) -> Result<(), Error> {
        self.tally.selected += 1;
        let before = self.surroundings.selected(self.sink);
        let goes_on = before.and_then(|()| self.sink.found(record));
        self.is_over = !goes_on.map_err(Error::Write)?;
        Ok(())
    }
}

impl Drop for Stream<'_> {
    /// Discards chunks after an error or an early end, so that the next input begins without any.
    fn drop(&mut self) {
        while self.sent.iter().any(|(_, is_chunk)| *is_chunk) {
            let Some(executor) = self.executor() else {
                return;
            };
            match executor.pull() {
                Ok(Some(_)) => while let Some((_, false)) = self.sent.pop_front() {},
                Ok(None) if executor.in_flight() > 0 && executor.wait(WAIT).is_ok() => {}
                // It will say so again when it is used.
                _ => return,
            }
        }
    }
}

fn is_set(bits: &[u8], index: usize) -> bool {
    bits.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}
