//! Tests of the benchmark of unpacking, partitioning and packing.

use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow_array::RecordBatch;
use overside_base::Random;
use overside_flow::bench::{Algorithm, Bench, BenchOptions, Pass};
use overside_flow::generate::Generated;
use overside_flow::operators::PartitionKey;
use overside_flow::pack::{Codec, CodecPool, Outer, PackOptions, Placement};
use overside_ops::Format;
use overside_placement::{Policy, Verify};
use overside_testkit::{InlineDevice, InlineOptions};

use crate::random::{KINDS, table};

fn threads(count: usize) -> Arc<CodecPool> {
    let count = NonZeroUsize::new(count).expect("threads");
    Arc::new(CodecPool::new(count).expect("a pool"))
}

fn particles() -> Vec<RecordBatch> {
    Generated::Particles.snapshots(5000, 1).take(4).collect()
}

fn key(method: &str) -> Option<PartitionKey> {
    Some(PartitionKey::parse("id", method).expect("a method"))
}

/// Runs two passes over a table.
fn passes(batches: Vec<RecordBatch>, options: BenchOptions, pool: &Arc<CodecPool>) -> [Pass; 2] {
    let schema = batches[0].schema();
    let mut bench = Bench::new(&schema, batches, options, pool).expect("a bench");
    [(); 2].map(|()| bench.pass().expect("a pass"))
}

#[test]
fn both_algorithms_give_the_same_partitions() {
    for codec in [Codec::None, Codec::Lz4, Codec::Zstd(1)] {
        for method in ["bits:2", "hash:3"] {
            let [one_pass, filters] = [Algorithm::OnePass, Algorithm::Filters].map(|algorithm| {
                let options = BenchOptions {
                    key: key(method),
                    algorithm,
                    pack: PackOptions { codec, ..PackOptions::default() },
                };
                let [first, second] = passes(particles(), options, &threads(2));
                assert_eq!(first.parts, second.parts);
                assert_eq!(first.check, second.check);
                let times = second.times;
                let stages = [times.unpack, times.partition, times.repack];
                assert!(stages.iter().all(|stage| stage.wall_ns > 0), "{times:?}");
                assert_eq!(
                    second.elapsed_ns(),
                    stages.iter().map(|stage| stage.wall_ns).sum::<u64>()
                );
                second
            });
            let rows = |pass: &Pass| pass.parts.iter().map(|part| part.rows).collect::<Vec<_>>();
            assert_eq!(rows(&one_pass), rows(&filters));
            assert_eq!(rows(&one_pass).iter().sum::<u64>(), 20_000);
        }
    }
}

#[test]
fn tables_of_all_types_are_verified_without_a_key() {
    let mut random = Random::new(5);
    for kind in 0..KINDS {
        let batch = table(&mut random, kind, 3000);
        let [pass, _] = passes(vec![batch], BenchOptions::default(), &threads(1));
        assert_eq!(pass.parts.len(), 1);
        assert_eq!(pass.parts[0].rows, 3000);
    }
}

#[test]
fn every_thread_submits_to_the_device() {
    for count in [1, 2] {
        let device = Arc::new(InlineDevice::new(InlineOptions::default()));
        let placement =
            Placement { policy: Policy::Device, devices: vec![device], verify: Verify::None };
        let count = NonZeroUsize::new(count).expect("threads");
        let pool = CodecPool::with_placement(count, placement).expect("a pool");
        let pool = Arc::new(pool);
        let options = BenchOptions {
            pack: PackOptions {
                outer: Some(Outer::new(Format::Zstd, None)),
                ..PackOptions::default()
            },
            ..BenchOptions::default()
        };
        // Several chunks in each message.
        let batches = Generated::Particles.snapshots(60_000, 1).take(2).collect();
        let [_, pass] = passes(batches, options, &pool);
        // 4.8 MB in each message, in chunks of 1 MiB, both ways.
        assert_eq!((pass.device.jobs, pass.device.cpu_jobs), (20, 0));
        assert!(pass.device.applied.is_some());
        let reports = pool.reports();
        let compressed = reports.iter().filter(|(of, _)| of.to_string() == "compress-zstd");
        assert!(compressed.count() <= count.get());
    }
}
