//! Partitions batches by a key, in one pass:
//!
//! 1. The partition of each row of a piece is computed from the key column.
//! 2. Counting gives each row of a block its position among its partition's rows, in the order of the input.
//! 3. Each column's values are read in order and appended to their partitions.
//!
//! Rows of a partition are collected until they fill a batch, or returned with the piece that they came in.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, SchemaRef};
use overside_tables::check_schema;
use overside_tables::memory::BufferPool;

use super::assign::Assigner;
use super::columns::{self, Column};
use super::key::PartitionKey;
use super::order::Order;
use super::skew::SkewReport;
use super::slots::MAX_BLOCK_ROWS;
use crate::Error;

/// Maximum number of rows that are sorted at a time if they are collected, so that full batches are nearly
/// full.
const BLOCK_ROWS: usize = 16 << 10;
/// Bytes that the batches of all partitions together have about, unless they would have fewer than [`BLOCK_ROWS`]: so
/// much memory goes round within a processor's cache.
const CACHED_BYTES: usize = 32 << 20;

/// Index of a partition (that of null keys comes after all others) and rows of it.
pub type Piece = (usize, RecordBatch);

/// Options for partitioning batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionOptions {
    /// Maximum number of rows that are collected for an output batch; fewer if those of all partitions would
    /// exceed 32 MiB, but 16,384, and fewer still if they would exceed `buffer_bytes`. With 0 none are collected: each push returns a batch of at most 65,536 rows for
    /// each partition that it has rows of.
    pub batch_rows: usize,
    /// Approximate number of input bytes that may wait in collected batches; beyond it, all of them are
    /// returned.
    pub buffer_bytes: usize,
}

impl Default for PartitionOptions {
    fn default() -> Self {
        Self { batch_rows: 64 << 10, buffer_bytes: 256 << 20 }
    }
}

impl PartitionOptions {
    /// Returns options with which each push returns all of its rows.
    pub fn streaming() -> Self {
        Self { batch_rows: 0, ..Self::default() }
    }
}

/// Partitions a stream of batches of one schema.
pub struct Partitioner {
    schema: SchemaRef,
    assigner: Assigner,
    columns: Vec<Box<dyn Column>>,
    /// Maximum number of rows of a collected batch; 0 if none are collected.
    batch_rows: usize,
    block_rows: usize,
    buffer_bytes: usize,
    ids: Vec<u16>,
    order: Order,
    /// Number of rows that are collected of each partition, that of null keys last.
    rows: Vec<usize>,
    /// Number of input bytes of the blocks that were collected since the last full flush.
    bytes: usize,
    report: SkewReport,
}

impl Partitioner {
    /// Makes a partitioner. Refuses a key whose type its method does not support.
    pub fn new(
        schema: SchemaRef,
        key: &PartitionKey,
        options: PartitionOptions,
    ) -> Result<Self, Error> {
        Self::with_memory(schema, key, options, &Arc::default())
    }

    /// Makes a partitioner with shared memory. Refuses the same keys as [`Partitioner::new`].
    pub fn with_memory(
        schema: SchemaRef,
        key: &PartitionKey,
        options: PartitionOptions,
        memory: &Arc<BufferPool>,
    ) -> Result<Self, Error> {
        let assigner = Assigner::new(&schema, key)?;
        let partitions = assigner.partitions();
        let kinds = || schema.fields().iter().map(|field| field.data_type());
        let columns = kinds().map(|kind| columns::column(kind, partitions + 1, memory));
        let row_bytes: usize = kinds().map(|kind| kind.primitive_width().unwrap_or(16)).sum();
        let rows_of = |bytes: usize| bytes / row_bytes.max(1) / partitions;
        let cached_rows = rows_of(CACHED_BYTES).max(BLOCK_ROWS);
        // Reserves no more than may wait.
        let room_rows = rows_of(options.buffer_bytes).max(1);
        let batch_rows = options.batch_rows.min(cached_rows).min(room_rows);
        Ok(Self {
            columns: columns.collect(),
            block_rows: match batch_rows {
                0 => MAX_BLOCK_ROWS,
                rows => BLOCK_ROWS.min(rows),
            },
            batch_rows,
            buffer_bytes: options.buffer_bytes,
            ids: Vec::new(),
            order: Order::new(batch_rows),
            rows: vec![0; partitions + 1],
            bytes: 0,
            report: SkewReport::new(partitions),
            assigner,
            schema,
        })
    }

    /// Returns the number of partitions for keys that are not null. This number is also the index
    /// of the partition of null keys.
    pub fn partitions(&self) -> usize {
        self.assigner.partitions()
    }

    /// Returns the rows and bytes of each partition that have been returned so far.
    pub fn report(&self) -> &SkewReport {
        &self.report
    }

    /// Partitions a batch. Returns the batches that it completes. After an error only earlier output is
    /// valid.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<Vec<Piece>, Error> {
        check_schema(&self.schema, batch.schema_ref())?;
        let mut out = Vec::new();
        for begin in (0..batch.num_rows()).step_by(self.block_rows) {
            let rows = self.block_rows.min(batch.num_rows() - begin);
            self.append(&batch.slice(begin, rows), &mut out)?;
        }
        Ok(out)
    }

    /// Returns the rows that are still collected, and the sizes of all partitions.
    pub fn finish(mut self) -> Result<(Vec<Piece>, SkewReport), Error> {
        let mut out = Vec::new();
        self.flush_all(&mut out)?;
        Ok((out, self.report))
    }

    /// Partitions all batches and returns all of the output.
    pub fn keep<'a>(
        mut self,
        batches: impl IntoIterator<Item = &'a RecordBatch>,
    ) -> Result<Tables, Error> {
        let mut tables = vec![Vec::new(); self.partitions() + 1];
        for batch in batches {
            for (partition, piece) in self.push(batch)? {
                tables[partition].push(piece);
            }
        }
        let (rest, report) = self.finish()?;
        for (partition, piece) in rest {
            tables[partition].push(piece);
        }
        Ok(Tables { tables, report })
    }

    fn append(&mut self, block: &RecordBatch, out: &mut Vec<Piece>) -> Result<(), Error> {
        let keys = block.column(self.assigner.column());
        self.assigner.assign(keys, &mut self.ids);
        self.order.sort(&self.ids, self.rows.len());
        let mut pairs = self.columns.iter().zip(block.columns());
        let is_compatible = pairs.all(|(column, block)| column.is_compatible(block));
        let bytes = block_bytes(block);
        if !is_compatible || self.bytes.saturating_add(bytes) > self.buffer_bytes {
            self.flush_all(out)?;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        if self.batch_rows > 0 {
            let full: Vec<usize> = (self.order.counts())
                .filter(|(partition, rows)| self.rows[*partition] + rows > self.batch_rows)
                .map(|(partition, _)| partition)
                .collect();
            for partition in full {
                self.flush(partition, out)?;
            }
        }
        for (column, block) in self.columns.iter_mut().zip(block.columns()) {
            column.append(block, &self.order)?;
        }
        for (partition, rows) in self.order.counts() {
            self.rows[partition] += rows;
        }
        if self.batch_rows == 0 {
            self.flush_all(out)?;
        }
        Ok(())
    }

    fn flush_all(&mut self, out: &mut Vec<Piece>) -> Result<(), Error> {
        for partition in 0..self.rows.len() {
            self.flush(partition, out)?;
        }
        self.bytes = 0;
        Ok(())
    }

    fn flush(&mut self, partition: usize, out: &mut Vec<Piece>) -> Result<(), Error> {
        let rows = std::mem::take(&mut self.rows[partition]);
        if rows == 0 {
            return Ok(());
        }
        let (mut arrays, mut bytes) = (Vec::with_capacity(self.columns.len()), 0);
        for column in &mut self.columns {
            let (array, more) = column.flush(partition)?;
            arrays.push(array);
            bytes += more;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?;
        self.report.add(partition, rows as u64, bytes);
        out.push((partition, batch));
        Ok(())
    }
}

/// Returns the approximate number of bytes of a batch's values.
pub fn block_bytes(block: &RecordBatch) -> usize {
    let column = |column: &dyn Array| match column.data_type() {
        kind if kind.primitive_width().is_some() => {
            kind.primitive_width().unwrap_or_default() * column.len()
        }
        DataType::Boolean | DataType::Null => column.len() / 8,
        DataType::Utf8View => column.as_string_view().lengths().map(|len| len as usize).sum(),
        DataType::BinaryView => column.as_binary_view().lengths().map(|len| len as usize).sum(),
        _ => {
            let data = column.to_data();
            let bytes = data.get_slice_memory_size();
            bytes.unwrap_or_else(|_| data.get_buffer_memory_size())
        }
    };
    block.columns().iter().map(|one| column(one)).sum()
}

/// Partitioned table.
#[derive(Debug, Clone)]
pub struct Tables {
    /// Batches of each partition, that of null keys last.
    pub tables: Vec<Vec<RecordBatch>>,
    /// Rows and bytes of each partition.
    pub report: SkewReport,
}

/// Partitions a whole table and returns the output.
pub fn partition<'a>(
    schema: &SchemaRef,
    batches: impl IntoIterator<Item = &'a RecordBatch>,
    key: &PartitionKey,
    options: PartitionOptions,
) -> Result<Tables, Error> {
    Partitioner::new(schema.clone(), key, options)?.keep(batches)
}
