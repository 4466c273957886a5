//! Partitioning beside DataFusion's `BatchPartitioner`: by hash, in 4 and 16 ways, streaming (what comes out of a batch
//! is dropped before the next one), on one thread.
//!
//!     cargo run --release --manifest-path benches/peers/Cargo.toml
//!
//! Sides take turns, forwards and backwards. A figure is the median, in GB of the input for each second of CPU time of
//! the thread; a ratio is the median of those of the turns. Both sides have to give all rows, each object's to one
//! partition.

#[path = "../../../crates/flow/pipeline/benches/partition/data.rs"]
mod data;

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use datafusion_physical_expr::Partitioning;
use datafusion_physical_expr::expressions::Column;
use datafusion_physical_plan::metrics::Time;
use datafusion_physical_plan::repartition::BatchPartitioner;
use overside_flow::operators::{PartitionKey, PartitionOptions, Partitioner};
use rustix::time::{ClockId, clock_gettime};

use data::Table;

const BYTES: usize = 500_000_000;
const TURNS: usize = 11;
/// Expected speed-up over DataFusion, by number of partitions.
const TARGETS: [(usize, f64); 2] = [(4, 1.2), (16, 1.5)];

fn main() {
    if let Some(folder) = std::env::args().skip_while(|word| word != "--write").nth(1) {
        return [data::particles(BYTES), data::ships(BYTES)]
            .iter()
            .for_each(|table| table.write(folder.as_ref()));
    }
    for table in [data::particles, data::ships] {
        let table = table(BYTES);
        for (ways, target) in TARGETS {
            compare(&table, ways, target);
        }
    }
}

/// Function that partitions a table: it passes on each piece with its partition.
type Side = fn(&Table, usize, &mut dyn FnMut(usize, RecordBatch));

fn compare(table: &Table, ways: usize, target: f64) {
    const SIDES: [(&str, Side); 2] = [("overside", ours), ("datafusion", theirs)];
    for (name, side) in SIDES {
        check(name, table, ways, side);
    }
    let mut seconds = [const { Vec::new() }; 2];
    for turn in 0..TURNS {
        for at in [turn % 2, 1 - turn % 2] {
            let begin = cpu_seconds();
            (SIDES[at].1)(table, ways, &mut |_, piece| drop(black_box(piece)));
            seconds[at].push(cpu_seconds() - begin);
        }
    }
    let ratio = median(seconds[1].iter().zip(&seconds[0]).map(|(theirs, ours)| theirs / ours));
    let [ours, theirs] = seconds.map(|all| table.bytes as f64 / 1e9 / median(all.into_iter()));
    println!(
        "{:<9} hash:{ways:<2} streaming  overside {ours:5.2} GB/s  DataFusion {theirs:5.2} GB/s  ratio {ratio:.2} \
         (goal {target})",
        table.name
    );
}

fn ours(table: &Table, ways: usize, take: &mut dyn FnMut(usize, RecordBatch)) {
    let key = PartitionKey::parse(table.key, &format!("hash:{ways}")).expect("a key");
    let options = PartitionOptions::streaming();
    let partitioner = Partitioner::new(table.schema.clone(), &key, options);
    let mut partitioner = partitioner.expect("a key of the table");
    for batch in &table.batches {
        for (partition, piece) in partitioner.push(batch).expect("pieces") {
            take(partition, piece);
        }
    }
    let (rest, _) = partitioner.finish().expect("the rest");
    for (partition, piece) in rest {
        take(partition, piece);
    }
}

fn theirs(table: &Table, ways: usize, take: &mut dyn FnMut(usize, RecordBatch)) {
    let index = table.schema.index_of(table.key).expect("the key");
    let key = Arc::new(Column::new(table.key, index));
    let hash = Partitioning::Hash(vec![key], ways);
    let partitioner = BatchPartitioner::try_new(hash, Time::new(), 0, 1);
    let mut partitioner = partitioner.expect("a partitioner");
    for batch in &table.batches {
        let done = partitioner.partition(batch.clone(), |partition, piece| {
            take(partition, piece);
            Ok(())
        });
        done.expect("pieces");
    }
}

/// All rows come out, and those of an object in one partition.
fn check(name: &str, table: &Table, ways: usize, side: Side) {
    let mut rows = 0;
    let mut partition_of: HashMap<Option<i64>, usize> = HashMap::new();
    side(table, ways, &mut |partition, piece| {
        rows += piece.num_rows();
        let keys = piece.column_by_name(table.key).expect("the key");
        let keys: Vec<Option<i64>> = match keys.as_primitive_opt::<Int64Type>() {
            Some(keys) => keys.iter().collect(),
            None => {
                (keys.as_primitive::<Int32Type>().iter()).map(|key| key.map(i64::from)).collect()
            }
        };
        for key in keys {
            let known = *partition_of.entry(key).or_insert(partition);
            assert_eq!(known, partition, "{name}: an object is in two partitions");
        }
    });
    let expected: usize = table.batches.iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, expected, "{name}: rows");
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the CPU time of this thread in user and kernel mode, in seconds.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
