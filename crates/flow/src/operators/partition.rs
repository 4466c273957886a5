//! Partitions batches by a key, in one pass over pieces that fit into a cache:
//!
//! 1. the partition of each row is computed from the key column;
//! 2. rows are counted and put into the order of their partitions, and within a partition they stay
//!    in the order of the input;
//! 3. each column is taken in that order.
//!
//! Rows of a partition are collected until there are enough for a batch, or go out with the batch
//! that they came in.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::take::take;

use super::assign::Assigner;
use super::key::PartitionKey;
use super::skew::SkewReport;
use crate::Error;

/// Rows that are partitioned at a time: their key, their order and a column fit into the second
/// cache.
const PIECE_ROWS: usize = 64 << 10;

/// Rows of a partition, and which it is: the one of null keys comes after all others.
pub type Piece = (usize, RecordBatch);

/// How batches are partitioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionOptions {
    /// Rows that are collected for a batch of the output. 0: none; each push gives a batch for each
    /// partition that it has rows of.
    pub batch_rows: usize,
}

impl Default for PartitionOptions {
    fn default() -> Self {
        Self {
            batch_rows: PIECE_ROWS,
        }
    }
}

/// Partitions a stream of batches of one schema.
pub struct Partitioner {
    schema: SchemaRef,
    options: PartitionOptions,
    assigner: Assigner,
    ids: Vec<u16>,
    /// What has been collected for each partition.
    collected: Vec<Vec<RecordBatch>>,
    report: SkewReport,
}

impl Partitioner {
    /// Refuses a key whose type its method cannot take.
    pub fn new(
        schema: SchemaRef,
        key: &PartitionKey,
        options: PartitionOptions,
    ) -> Result<Self, Error> {
        let assigner = Assigner::new(&schema, key)?;
        let partitions = assigner.partitions();
        Ok(Self {
            schema,
            options,
            assigner,
            ids: Vec::new(),
            collected: vec![Vec::new(); partitions + 1],
            report: SkewReport::new(partitions),
        })
    }

    /// How many partitions there are for keys that are not null; null keys have this index.
    pub fn partitions(&self) -> usize {
        self.assigner.partitions()
    }

    /// Rows and bytes of each partition up to now.
    pub fn report(&self) -> &SkewReport {
        &self.report
    }

    /// Partitions a batch; the batches that it completes.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<Vec<Piece>, Error> {
        check_schema(&self.schema, batch.schema_ref())?;
        let mut out = Vec::new();
        for begin in (0..batch.num_rows()).step_by(PIECE_ROWS) {
            let rows = PIECE_ROWS.min(batch.num_rows() - begin);
            self.push_piece(&batch.slice(begin, rows), &mut out)?;
        }
        Ok(out)
    }

    /// What is left, and how large the partitions are.
    pub fn finish(mut self) -> Result<(Vec<Piece>, SkewReport), Error> {
        let mut out = Vec::new();
        for partition in 0..self.collected.len() {
            self.flush(partition, &mut out)?;
        }
        Ok((out, self.report))
    }

    fn push_piece(&mut self, batch: &RecordBatch, out: &mut Vec<Piece>) -> Result<(), Error> {
        let keys = batch.column(self.assigner.column());
        self.assigner.assign(keys, &mut self.ids);
        let (order, ends) = order_by_partition(&self.ids, self.collected.len());
        let mut begin = 0;
        for (partition, end) in ends.into_iter().enumerate() {
            if end == begin {
                continue;
            }
            let rows = UInt32Array::new(ScalarBuffer::new(order.clone(), begin, end - begin), None);
            let columns: Result<Vec<ArrayRef>, _> = (batch.columns().iter())
                .map(|column| take(column, &rows, None))
                .collect();
            let options = RecordBatchOptions::new().with_row_count(Some(end - begin));
            let taken = RecordBatch::try_new_with_options(self.schema.clone(), columns?, &options)?;
            begin = end;
            self.report
                .add(partition, taken.num_rows() as u64, bytes(&taken));
            self.collected[partition].push(taken);
            let rows: usize = self.collected[partition]
                .iter()
                .map(RecordBatch::num_rows)
                .sum();
            if rows >= self.options.batch_rows {
                self.flush(partition, out)?;
            }
        }
        Ok(())
    }

    fn flush(&mut self, partition: usize, out: &mut Vec<Piece>) -> Result<(), Error> {
        let collected = std::mem::take(&mut self.collected[partition]);
        if !collected.is_empty() {
            out.push((partition, concat_batches(&self.schema, &collected)?));
        }
        Ok(())
    }
}

/// Row numbers in the order of their partitions, and where each partition ends in it.
fn order_by_partition(ids: &[u16], partitions: usize) -> (Buffer, Vec<usize>) {
    let mut ends = vec![0_usize; partitions];
    for &id in ids {
        ends[usize::from(id)] += 1;
    }
    let mut next = 0;
    for end in &mut ends {
        let rows = *end;
        *end = next;
        next += rows;
    }
    let mut order = vec![0_u32; ids.len()];
    for (row, &id) in ids.iter().enumerate() {
        let place = &mut ends[usize::from(id)];
        order[*place] = row as u32;
        *place += 1;
    }
    (Buffer::from_vec(order), ends)
}

/// Bytes of a batch's values without what they share.
fn bytes(batch: &RecordBatch) -> u64 {
    let column = |column: &ArrayRef| {
        let data = column.to_data();
        data.get_slice_memory_size()
            .unwrap_or_else(|_| data.get_buffer_memory_size()) as u64
    };
    batch.columns().iter().map(column).sum()
}

/// Refuses a batch whose columns are others, or of another type.
pub(crate) fn check_schema(expected: &SchemaRef, found: &SchemaRef) -> Result<(), Error> {
    let is_same = Arc::ptr_eq(expected, found)
        || (expected.fields().len() == found.fields().len()
            && (expected.fields().iter().zip(found.fields())).all(|(expected, found)| {
                expected.name() == found.name() && expected.data_type() == found.data_type()
            }));
    if is_same {
        return Ok(());
    }
    Err(Error::SchemaChange {
        expected: schema_text(expected),
        found: schema_text(found),
    })
}

/// `name: type` of each column.
fn schema_text(schema: &Schema) -> String {
    let fields = schema.fields().iter();
    let columns: Vec<String> = fields
        .map(|field| format!("{}: {}", field.name(), field.data_type()))
        .collect();
    format!("({})", columns.join(", "))
}

/// A table in parts.
#[derive(Debug, Clone)]
pub struct Tables {
    /// The batches of each partition, the one of null keys last.
    pub tables: Vec<Vec<RecordBatch>>,
    /// Rows and bytes of each.
    pub report: SkewReport,
}

/// Partitions a whole table and keeps the output.
pub fn partition<'a>(
    schema: &SchemaRef,
    batches: impl IntoIterator<Item = &'a RecordBatch>,
    key: &PartitionKey,
    options: PartitionOptions,
) -> Result<Tables, Error> {
    let mut partitioner = Partitioner::new(schema.clone(), key, options)?;
    let mut tables = vec![Vec::new(); partitioner.partitions() + 1];
    for batch in batches {
        for (partition, piece) in partitioner.push(batch)? {
            tables[partition].push(piece);
        }
    }
    let (rest, report) = partitioner.finish()?;
    for (partition, piece) in rest {
        tables[partition].push(piece);
    }
    Ok(Tables { tables, report })
}
