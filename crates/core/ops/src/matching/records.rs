//! Converts the places of matches to matching records.

use memchr::{memchr, memchr_iter, memrchr};

use super::engine::Engine;
use crate::variant::single;
use crate::{Error, Kernel, MatchKind, Output};

/// Matcher of one kind with one engine.
pub(super) struct Matcher {
    kind: MatchKind,
    engine: Box<dyn Engine>,
}

impl Matcher {
    pub(super) fn new(kind: MatchKind, engine: Box<dyn Engine>) -> Self {
        Self { kind, engine }
    }

    fn search(&mut self, buffer: &[u8]) -> Result<Option<u64>, Error> {
        let place = self.engine.first(buffer)?;
        let record = place.and_then(|place| Record::at(buffer, place));
        Ok(record.map(|record| record.begin as u64))
    }

    fn count(&mut self, buffer: &[u8]) -> Result<u64, Error> {
        let (mut count, mut next) = (0, 0);
        let is_complete = buffer.is_empty() || buffer.ends_with(b"\n");
        // The beginning of the record does not matter here.
        self.engine.each(buffer, &mut |place| {
            if is_complete && place == buffer.len() {
                // The place is behind the last record.
                return place;
            }
            if place >= next {
                count += 1;
                let len = memchr(b'\n', &buffer[place..]);
                next = len.map_or(buffer.len() + 1, |len| place + len + 1);
            }
            next
        })?;
        Ok(count)
    }

    /// Sets the matching records' bits; returns the bitmap's length and the number of bits set.
    fn bitmap(&mut self, buffer: &[u8], bitmap: &mut [u8]) -> Result<(usize, u64), Error> {
        let len = record_count(buffer).div_ceil(8);
        let capacity = bitmap.len();
        let bitmap = bitmap.get_mut(..len).ok_or(Error::OutputTooSmall { capacity })?;
        bitmap.fill(0);
        let (mut index, mut counted, mut count) = (0, 0, 0);
        each_record(self.engine.as_mut(), buffer, |begin, _| {
            index += line_ends(&buffer[counted..begin]);
            counted = begin;
            bitmap[index / 8] |= 1 << (index % 8);
            count += 1;
        })?;
        Ok((len, count))
    }
}

/// Calls `matching` with the beginning of each matching record and of the record after it, in order.
pub(super) fn each_record(
    engine: &mut dyn Engine,
    buffer: &[u8],
    mut matching: impl FnMut(usize, usize),
) -> Result<(), Error> {
    let mut next = 0;
    engine.each(buffer, &mut |place| {
        if place >= next {
            let Some(record) = Record::at(buffer, place) else {
                return buffer.len();
            };
            matching(record.begin, record.next);
            next = record.next;
        }
        next
    })
}

impl Kernel for Matcher {
    fn run(&mut self, source: &[&[u8]], destination: &mut [u8]) -> Result<Output, Error> {
        let buffer = single(source)?;
        Ok(match self.kind {
            MatchKind::Search => Output { written: 0, value: self.search(buffer)? },
            MatchKind::Count => Output { written: 0, value: Some(self.count(buffer)?) },
            MatchKind::Bitmap => {
                let (written, count) = self.bitmap(buffer, destination)?;
                Output { written, value: Some(count) }
            }
            MatchKind::Groups => unreachable!("another kernel finds them"),
        })
    }
}

/// Position of a record in the buffer.
struct Record {
    begin: usize,
    /// Offset behind its `\n`; one behind the end of the buffer if it has none, because that end is
    /// still a place in it.
    next: usize,
}

impl Record {
    /// Returns the record that has `place` between its first byte and its `\n`, both included;
    /// `None` for the end of a buffer whose last record is complete.
    fn at(buffer: &[u8], place: usize) -> Option<Self> {
        let begin = memrchr(b'\n', &buffer[..place]).map_or(0, |end| end + 1);
        if begin == buffer.len() {
            return None;
        }
        let len = memchr(b'\n', &buffer[place..]);
        Some(Self { begin, next: len.map_or(buffer.len() + 1, |len| place + len + 1) })
    }
}

fn record_count(buffer: &[u8]) -> usize {
    let unfinished = buffer.last().is_some_and(|&last| last != b'\n');
    line_ends(buffer) + usize::from(unfinished)
}

fn line_ends(buffer: &[u8]) -> usize {
    memchr_iter(b'\n', buffer).count()
}
