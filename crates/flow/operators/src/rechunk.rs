//! Joins and splits batches to batches of about equal size, in rows or bytes.

use std::mem::take;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::concat::concat_batches;
use overside_tables::check_schema;

use super::partition::block_bytes;
use crate::Error;

/// Target size of batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RechunkOptions {
    /// Number of rows of each batch except the last.
    pub rows: usize,
    /// Approximate maximum of bytes; a batch of large rows has fewer rows, but at least one.
    pub bytes: usize,
}

impl Default for RechunkOptions {
    fn default() -> Self {
        Self { rows: 64 << 10, bytes: 64 << 20 }
    }
}

/// Splits a batch into parts of at most `rows` rows, which share its memory. A batch without rows is one part.
pub fn parts(batch: &RecordBatch, rows: usize) -> impl Iterator<Item = RecordBatch> {
    let all = batch.num_rows();
    let begins = (0..all.max(1)).step_by(rows.max(1));
    begins.map(move |begin| batch.slice(begin, rows.min(all - begin)))
}

/// Converts a stream of batches of any size to batches of one size; rows keep their order.
pub struct Rechunker {
    schema: SchemaRef,
    options: RechunkOptions,
    waiting: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl Rechunker {
    /// Makes a rechunker for a stream of this schema.
    pub fn new(schema: SchemaRef, options: RechunkOptions) -> Self {
        Self {
            schema,
            options: RechunkOptions { rows: options.rows.max(1), ..options },
            waiting: Vec::new(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Takes a batch. Returns the batches that it completes.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<Vec<RecordBatch>, Error> {
        check_schema(&self.schema, batch.schema_ref())?;
        let mut out = Vec::new();
        let all = batch.num_rows();
        if all == 0 {
            return Ok(out);
        }
        let row_bytes = block_bytes(batch) as f64 / all as f64;
        let mut begin = 0;
        while begin < all {
            let of_rows = self.options.rows - self.rows;
            let free = self.options.bytes.saturating_sub(self.bytes);
            let of_bytes = if row_bytes > 0.0 { (free as f64 / row_bytes) as usize } else { all };
            let mut len = of_rows.min(of_bytes).min(all - begin);
            if len == 0 && self.rows > 0 {
                self.flush(&mut out)?;
                continue;
            }
            len = len.max(1);
            self.waiting.push(batch.slice(begin, len));
            self.rows += len;
            self.bytes += (row_bytes * len as f64) as usize;
            begin += len;
            if self.rows >= self.options.rows || self.bytes >= self.options.bytes {
                self.flush(&mut out)?;
            }
        }
        Ok(out)
    }

    /// Returns the rows that remain: one batch, or several if their dictionaries cannot be joined.
    /// Empty if no rows remain.
    pub fn finish(mut self) -> Result<Vec<RecordBatch>, Error> {
        let mut out = Vec::new();
        self.flush(&mut out)?;
        Ok(out)
    }

    fn flush(&mut self, out: &mut Vec<RecordBatch>) -> Result<(), Error> {
        (self.rows, self.bytes) = (0, 0);
        let waiting = take(&mut self.waiting);
        match &waiting[..] {
            [] => {}
            [_] => out.extend(waiting),
            _ => match concat_batches(&self.schema, &waiting) {
                Ok(batch) => out.push(batch),
                // Together their dictionaries have more values than the key type can number.
                Err(ArrowError::DictionaryKeyOverflowError) => out.extend(waiting),
                Err(error) => return Err(error.into()),
            },
        }
        Ok(())
    }
}
