//! Booleans and validity: one bit for each row.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

use super::Column;
use crate::Error;
use crate::order::Order;

const WORD: usize = 64;

/// Growing bitmap.
#[derive(Default)]
pub(super) struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    fn push(&mut self, bit: bool) {
        let at = self.len % WORD;
        if at == 0 {
            self.words.push(0);
        }
        if let Some(word) = self.words.last_mut() {
            *word |= u64::from(bit) << at;
        }
        self.len += 1;
    }

    fn append_set(&mut self, count: usize) {
        let end = self.len + count;
        while self.len < end && !self.len.is_multiple_of(WORD) {
            self.push(true);
        }
        if self.len < end {
            self.words.resize(end / WORD, u64::MAX);
            self.len = self.words.len() * WORD;
        }
        while self.len < end {
            self.push(true);
        }
    }

    /// Appends the bits of `rows`. `bits` has a byte of 0 or 1 for each row of the block.
    fn append(&mut self, bits: &[u8], rows: &[u16]) {
        let fill = (self.len.next_multiple_of(WORD) - self.len).min(rows.len());
        let (first, rows) = rows.split_at(fill);
        for row in first {
            self.push(bits[usize::from(*row)] != 0);
        }
        let words = rows.chunks_exact(WORD);
        let rest = words.remainder();
        for rows in words {
            let bit = |(at, row): (usize, &u16)| u64::from(bits[usize::from(*row)]) << at;
            let word = rows.iter().enumerate().map(bit).fold(0, |word, bit| word | bit);
            self.words.push(word);
            self.len += WORD;
        }
        for row in rest {
            self.push(bits[usize::from(*row)] != 0);
        }
    }

    fn flush(&mut self) -> BooleanBuffer {
        let len = std::mem::take(&mut self.len);
        let words = std::mem::take(&mut self.words);
        BooleanBuffer::new(Buffer::from_vec(words), 0, len)
    }
}

/// Converts each bit to a byte of 0 or 1.
fn unpack(bits: &BooleanBuffer, bytes: &mut Vec<u8>) {
    bytes.clear();
    bytes.reserve(bits.len() + WORD);
    for chunk in bits.bit_chunks().iter_padded() {
        bytes.extend((0..WORD).map(|at| (chunk >> at & 1) as u8));
    }
    bytes.truncate(bits.len());
}

/// Validity of the values of each partition. It has no bits before the first null.
pub(super) struct Validity {
    parts: Vec<(usize, Option<Bits>)>,
    bytes: Vec<u8>,
}

impl Validity {
    pub(super) fn new(partitions: usize) -> Self {
        Self { parts: (0..partitions).map(|_| (0, None)).collect(), bytes: Vec::new() }
    }

    pub(super) fn append(&mut self, nulls: Option<&NullBuffer>, order: &Order) {
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        if let Some(nulls) = nulls {
            unpack(nulls.inner(), &mut self.bytes);
        }
        for segment in order.segments() {
            let (rows, bits) = &mut self.parts[segment.partition];
            match (nulls, bits.as_mut()) {
                (None, None) => {}
                (None, Some(bits)) => bits.append_set(segment.rows.len()),
                (Some(_), Some(bits)) => bits.append(&self.bytes, segment.rows),
                (Some(_), None) => {
                    let bits = bits.insert(Bits::default());
                    bits.append_set(*rows);
                    bits.append(&self.bytes, segment.rows);
                }
            }
            *rows += segment.rows.len();
        }
    }

    /// Returns the partition's number of rows, its nulls if it has any, and their size in bytes.
    pub(super) fn flush(&mut self, partition: usize) -> (usize, Option<NullBuffer>, u64) {
        let (rows, bits) = std::mem::take(&mut self.parts[partition]);
        let nulls = bits.map(|mut bits| NullBuffer::new(bits.flush()));
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let bytes = nulls.as_ref().map_or(0, |_| rows.div_ceil(8) as u64);
        (rows, nulls, bytes)
    }
}

/// Column of booleans.
pub(super) struct Booleans {
    parts: Vec<Bits>,
    validity: Validity,
    bytes: Vec<u8>,
}

impl Booleans {
    pub(super) fn new(partitions: usize) -> Self {
        Self {
            parts: (0..partitions).map(|_| Bits::default()).collect(),
            validity: Validity::new(partitions),
            bytes: Vec::new(),
        }
    }
}

impl Column for Booleans {
    fn append(&mut self, block: &dyn Array, order: &Order) -> Result<(), Error> {
        let block = block.as_boolean();
        unpack(block.values(), &mut self.bytes);
        for segment in order.segments() {
            self.parts[segment.partition].append(&self.bytes, segment.rows);
        }
        self.validity.append(block.nulls(), order);
        Ok(())
    }

    fn flush(&mut self, partition: usize) -> Result<(ArrayRef, u64), Error> {
        let (rows, nulls, bytes) = self.validity.flush(partition);
        let values = self.parts[partition].flush();
        let bytes = bytes + rows.div_ceil(8) as u64;
        Ok((Arc::new(BooleanArray::new(values, nulls)), bytes))
    }
}
