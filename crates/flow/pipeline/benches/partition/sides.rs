//! Ways to partition a table that this benchmark compares.

use std::hint::black_box;
use std::sync::{Arc, OnceLock};

use arrow_array::{Array, RecordBatch, UInt32Array};
use arrow_select::take::take_record_batch;
use overside_flow::BufferPool;
use overside_flow::operators::{
    PartitionKey, PartitionOptions, Partitioner, partition, partition_by_filters,
};

use crate::data::Table;

/// Method of partitioning a table.
pub(crate) struct Side {
    pub name: &'static str,
    /// `true` if it also runs with 256 partitions, for which the other methods are too slow.
    pub is_ours: bool,
    pub run: fn(&Table, &PartitionKey),
}

pub(crate) const SIDES: &[Side] = &[
    Side { name: "overside, kept", is_ours: true, run: keep },
    Side { name: "overside, new memory", is_ours: true, run: keep_in_new_memory },
    Side { name: "overside, streaming", is_ours: true, run: stream },
    Side { name: "filter each, kept", is_ours: false, run: filter },
    Side { name: "arrow take, kept", is_ours: false, run: take_kept },
    Side { name: "arrow take, streaming", is_ours: false, run: take_streaming },
    Side { name: "memcpy", is_ours: true, run: copy },
];

fn keep(table: &Table, key: &PartitionKey) {
    let options = PartitionOptions::default();
    let schema = table.schema.clone();
    // The tables of the previous turn have been dropped, and these reuse their memory, as with the allocator
    // of polars.
    static MEMORY: OnceLock<Arc<BufferPool>> = OnceLock::new();
    let memory = MEMORY.get_or_init(|| Arc::new(BufferPool::new(1 << 30)));
    let partitioner = Partitioner::with_memory(schema, key, options, memory).expect("a key");
    black_box(partitioner.keep(&table.batches).expect("tables"));
}

/// Partitions into memory that is new to the process.
fn keep_in_new_memory(table: &Table, key: &PartitionKey) {
    let options = PartitionOptions::default();
    black_box(partition(&table.schema, &table.batches, key, options).expect("tables"));
}

fn stream(table: &Table, key: &PartitionKey) {
    let options = PartitionOptions::streaming();
    let mut partitioner = Partitioner::new(table.schema.clone(), key, options).expect("a key");
    for batch in &table.batches {
        black_box(partitioner.push(batch).expect("pieces"));
    }
    black_box(partitioner.finish().expect("no more"));
}

fn filter(table: &Table, key: &PartitionKey) {
    black_box(partition_by_filters(&table.schema, &table.batches, key).expect("tables"));
}

/// Partitions a batch with Arrow's `take`. Finds each row's partition by the same key as the other
/// sides.
fn take(batch: &RecordBatch, key: &PartitionKey) -> Vec<RecordBatch> {
    let keys = batch.project(&[batch.schema().index_of(&key.column).expect("the key")]);
    let keys = keys.expect("the key");
    let numbers = overside_flow::operators::partitions_of_rows(&keys, key).expect("partitions");
    let mut rows = vec![Vec::new(); key.method.partitions() as usize + 1];
    for (row, partition) in numbers.into_iter().enumerate() {
        rows[usize::from(partition)].push(row as u32);
    }
    (rows.into_iter())
        .map(|rows| take_record_batch(batch, &UInt32Array::from(rows)).expect("rows"))
        .collect()
}

fn take_kept(table: &Table, key: &PartitionKey) {
    let kept: Vec<Vec<RecordBatch>> = table.batches.iter().map(|batch| take(batch, key)).collect();
    black_box(kept);
}

fn take_streaming(table: &Table, key: &PartitionKey) {
    for batch in &table.batches {
        black_box(take(batch, key));
    }
}

/// Copies every buffer of every column, batch by batch, and keeps the copies.
fn copy(table: &Table, _: &PartitionKey) {
    let mut kept = Vec::new();
    for batch in &table.batches {
        for column in batch.columns() {
            let data = column.to_data();
            kept.extend(data.buffers().iter().map(|buffer| buffer.as_slice().to_vec()));
        }
    }
    black_box(kept);
}
