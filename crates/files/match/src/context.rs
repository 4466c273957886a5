//! The records before and after those that are selected.

use std::collections::VecDeque;
use std::io;

use memchr::{memchr_iter, memrchr_iter};

use crate::{Error, SelectedRecord, Sink};

/// Number of records around a selected one that the sink gets with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Context {
    /// Number of records before each selected one.
    pub before: usize,
    /// Number of records after each selected one.
    pub after: usize,
}

impl Context {
    /// Returns `true` if records before or after a selected one are wanted.
    pub fn is_wanted(self) -> bool {
        self.before + self.after > 0
    }
}

/// Keeps the last records that were not selected, and hands out those that belong to a selected one.
pub(crate) struct Surroundings {
    wanted: Context,
    /// The last records that were not handed out, `wanted.before` at most.
    held: VecDeque<HeldRecord>,
    held_bytes: usize,
    bytes_max: usize,
    /// Number of records after the last selected one that must still be passed on.
    pub(crate) after: usize,
}

struct HeldRecord {
    number: u64,
    offset: Option<u64>,
    value: Option<Vec<u8>>,
}

impl Surroundings {
    /// `bytes_max`: limit on the bytes that are held back.
    pub(crate) fn new(wanted: Context, bytes_max: usize) -> Self {
        Self { wanted, held: VecDeque::new(), held_bytes: 0, bytes_max, after: 0 }
    }

    /// A record is selected: those before it go out, and those after it are going to.
    pub(crate) fn selected(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        self.after = self.wanted.after;
        self.held_bytes = 0;
        for held in self.held.drain(..) {
            sink.context(SelectedRecord {
                number: held.number,
                offset: held.offset,
                value: held.value.as_deref(),
            })?;
        }
        Ok(())
    }

    /// A record is not selected.
    pub(crate) fn passed(
        &mut self,
        record: SelectedRecord<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), Error> {
        if self.after > 0 {
            self.after -= 1;
            return sink.context(record).map_err(Error::Write);
        }
        if self.wanted.before == 0 {
            return Ok(());
        }
        // The memory of the one that goes is used again.
        let mut room = Vec::new();
        if self.held.len() == self.wanted.before
            && let Some(first) = self.held.pop_front()
        {
            room = first.value.unwrap_or_default();
            self.held_bytes -= room.len();
            room.clear();
        }
        let value = record.value.map(|value| {
            room.extend_from_slice(value);
            room
        });
        self.held_bytes += record.value.map_or(0, <[u8]>::len);
        if self.held_bytes > self.bytes_max {
            return Err(Error::TooLong {
                place: format!("context that ends with record {}", record.number),
                max_bytes: self.bytes_max,
            });
        }
        self.held.push_back(HeldRecord { number: record.number, offset: record.offset, value });
        Ok(())
    }

    /// Handles a batch of lines without a selected record that are no context of an earlier one. Only the
    /// last ones are kept. `last` is the number of the last one, `offset` that of the first.
    pub(crate) fn passed_all(
        &mut self,
        last: u64,
        offset: Option<u64>,
        text: &[u8],
        sink: &mut dyn Sink,
    ) -> Result<(), Error> {
        let Some(skipped) = self.wanted.before.checked_sub(1) else {
            return Ok(());
        };
        if text.is_empty() {
            return Ok(());
        }
        let lines = text.strip_suffix(b"\n").unwrap_or(text);
        let mut begin = memrchr_iter(b'\n', lines).nth(skipped).map_or(0, |end| end + 1);
        let ends = memchr_iter(b'\n', &lines[begin..]).map(|end| begin + end);
        let ends: Vec<usize> = ends.chain([lines.len()]).collect();
        let first = last - ends.len() as u64;
        for (number, end) in (first + 1..).zip(ends) {
            let record = SelectedRecord {
                number,
                offset: offset.map(|offset| offset + begin as u64),
                value: Some(&lines[begin..end]),
            };
            self.passed(record, sink)?;
            begin = end + 1;
        }
        Ok(())
    }
}
