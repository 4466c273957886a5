//! Suggests keys (bits, hash or ranges of a column) that divide a table evenly:
//!
//! 1. Rows are sampled: a random one of each `stride` rows, because producers often number rows in
//!    turns. When the sample is full, half of it is dropped and the stride is doubled.
//! 2. Each column that can be a key is tried with all ranges of bits, with a hash, and with ranges
//!    between quantiles. One half of the sample gives the quantiles, the other half tests them.
//! 3. Keys are ordered by how even the partitions are; if that is about the same, by the cost of the key.

use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, UInt32Array};
use arrow_cast::cast;
use arrow_ord::sort::sort_to_indices;
use arrow_schema::{DataType, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::take::{take, take_record_batch};
use overside_base::Random;
use overside_tables::check_schema;

use super::MAX_PARTITIONS;
use super::assign::{key_bits, value_type};
use super::filter_each::partitions_of_rows;
use super::key::{PartitionKey, PartitionMethod};
use super::skew::SkewReport;
use crate::Error;

/// Default number of rows of a sample.
pub const SAMPLE_ROWS: usize = 1 << 18;
/// Factor up to which a larger imbalance counts as equal: a sample is not more accurate.
const SAME: f64 = 1.1;

/// Key that was tried.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyCandidate {
    /// Column and method.
    pub key: PartitionKey,
    /// Number of rows of the largest partition divided by the mean, in the sample; 1 is balanced.
    pub imbalance: f64,
    /// Number of partitions without a row of the sample.
    pub empty_partitions: usize,
    /// Fraction of rows whose key is null.
    pub null_share: f64,
}

impl KeyCandidate {
    /// Returns the imbalance, with null keys as one more partition.
    fn cost(&self, partitions: usize) -> f64 {
        self.imbalance.max(self.null_share * partitions as f64)
    }
}

/// Samples a table and tries keys.
pub struct KeySuggester {
    schema: SchemaRef,
    partitions: usize,
    sample_rows: usize,
    random: Random,
    sample: Vec<RecordBatch>,
    rows: usize,
    /// Number of rows of which one is sampled.
    stride: usize,
    /// Number of rows until the next sampled one, and of the rows of its stride after it.
    next: usize,
    rest: usize,
}

impl KeySuggester {
    /// Makes a suggester of keys for `partitions` partitions that keeps at most `sample_rows` rows.
    pub fn new(schema: SchemaRef, partitions: usize, sample_rows: usize) -> Result<Self, Error> {
        if !(2..=MAX_PARTITIONS).contains(&partitions) {
            return Err(Error::Partitions { partitions: partitions as u64 });
        }
        Ok(Self {
            schema,
            partitions,
            sample_rows: sample_rows.max(2),
            random: Random::new(1),
            sample: Vec::new(),
            rows: 0,
            stride: 1,
            next: 0,
            rest: 0,
        })
    }

    /// Samples a batch.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        check_schema(&self.schema, batch.schema_ref())?;
        let mut rows = Vec::new();
        let mut row = self.next;
        while row < batch.num_rows() {
            rows.push(row as u32);
            let at = self.random.below(self.stride as u64) as usize;
            row += 1 + self.rest + at;
            self.rest = self.stride - 1 - at;
        }
        self.next = row - batch.num_rows();
        if rows.is_empty() {
            return Ok(());
        }
        self.rows += rows.len();
        self.sample.push(take_record_batch(batch, &UInt32Array::from(rows))?);
        while self.rows > self.sample_rows {
            self.halve()?;
        }
        Ok(())
    }

    /// Keeps a random one of each two rows.
    fn halve(&mut self) -> Result<(), Error> {
        let all = concat_batches(&self.schema, &self.sample)?;
        let pairs = all.num_rows() / 2;
        let chosen = (0..pairs).map(|pair| (2 * pair) as u32 + self.random.below(2) as u32);
        let rows: Vec<u32> = chosen.collect();
        self.rows = rows.len();
        self.sample = vec![take_record_batch(&all, &UInt32Array::from(rows))?];
        self.stride *= 2;
        Ok(())
    }

    /// Returns all keys that were tried, the best first.
    pub fn finish(self) -> Result<Vec<KeyCandidate>, Error> {
        let sample = concat_batches(&self.schema, &self.sample)?;
        let mut candidates = Vec::new();
        for (index, field) in self.schema.fields().iter().enumerate() {
            let names = self.schema.fields().iter().filter(|one| one.name() == field.name());
            if names.count() > 1 {
                continue;
            }
            let column = sample.project(&[index])?;
            for method in methods(&column, self.partitions) {
                let key = PartitionKey { column: field.name().clone(), method };
                candidates.extend(try_key(&column, key));
            }
        }
        let cost = |one: &KeyCandidate| one.cost(self.partitions);
        let least = candidates.iter().map(cost).fold(f64::INFINITY, f64::min);
        candidates.sort_by(|one, other| {
            let about = |one: &KeyCandidate| cost(one).max(least * SAME);
            (about(one).total_cmp(&about(other)))
                .then_with(|| price(&one.key.method).cmp(&price(&other.key.method)))
        });
        Ok(candidates)
    }
}

/// Relative cost of finding a row's partition, for sorting. Bits cost least, and low bits less than
/// high ones.
fn price(method: &PartitionMethod) -> (u8, u32) {
    match method {
        PartitionMethod::Bits { from, .. } => (0, *from),
        PartitionMethod::Hash { .. } => (1, 0),
        PartitionMethod::Ranges { .. } => (2, 0),
    }
}

/// Returns the methods that can be tried with a column.
fn methods(column: &RecordBatch, partitions: usize) -> Vec<PartitionMethod> {
    let mut methods = vec![PartitionMethod::Hash { partitions }];
    let keys = column.column(0);
    let bits = key_bits(value_type(keys.data_type()));
    if let (Some(bits), true) = (bits, partitions.is_power_of_two()) {
        let len = partitions.ilog2();
        methods.extend(
            (0..=bits.saturating_sub(len))
                .map(|from| PartitionMethod::Bits { from, to: from + len }),
        );
    }
    let bounds = quantiles(keys, partitions);
    methods.extend(bounds.map(|bounds| PartitionMethod::Ranges { bounds }));
    methods
}

fn try_key(column: &RecordBatch, key: PartitionKey) -> Option<KeyCandidate> {
    let rows = column.num_rows();
    let tried = match key.method {
        PartitionMethod::Ranges { .. } => every_second(column, 1)?,
        _ => column.clone(),
    };
    // Other columns cannot be keys, with this method or with any.
    let partitions = partitions_of_rows(&tried, &key).ok()?;
    let mut report = SkewReport::new(key.method.partitions() as usize);
    for partition in partitions {
        report.add(partition.into(), 1, 0);
    }
    Some(KeyCandidate {
        imbalance: report.imbalance(),
        empty_partitions: report.empty_partitions(),
        null_share: column.column(0).logical_null_count() as f64 / rows.max(1) as f64,
        key,
    })
}

/// Returns the even or the odd rows.
fn every_second(column: &RecordBatch, first: u32) -> Option<RecordBatch> {
    let rows = (first..column.num_rows() as u32).step_by(2);
    take_record_batch(column, &UInt32Array::from_iter_values(rows)).ok()
}

/// Returns bounds that divide half of the values evenly, if there are enough different ones and their text is
/// parsed to the same value.
fn quantiles(keys: &ArrayRef, partitions: usize) -> Option<Vec<String>> {
    let even = UInt32Array::from_iter_values((0..keys.len() as u32).step_by(2));
    let keys = cast(&take(keys, &even, None).ok()?, value_type(keys.data_type())).ok()?;
    let order = sort_to_indices(&keys, None, None).ok()?;
    // Nulls are sorted first.
    let valid = order.slice(keys.null_count(), keys.len() - keys.null_count());
    if valid.len() < partitions {
        return None;
    }
    let at = (1..partitions).map(|part| valid.value(part * valid.len() / partitions));
    let bounds = take(&keys, &UInt32Array::from_iter_values(at), None).ok()?;
    let bounds = cast(&bounds, &DataType::Utf8).ok()?;
    let bounds = bounds.as_any().downcast_ref::<StringArray>()?;
    let mut text: Vec<String> = Vec::new();
    for bound in bounds.iter().flatten() {
        if bound.is_empty() || bound.contains(',') || bound.trim() != bound {
            return None;
        }
        if text.last().is_none_or(|last| last != bound) {
            text.push(bound.to_owned());
        }
    }
    (text.len() == partitions - 1).then_some(text)
}
