//! Tests of codecs on devices: their bytes are those of the threads.

use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow_array::RecordBatch;
use overside_base::Random;
use overside_device::{Device, Operation};
use overside_ops::Format;
use overside_placement::{Policy, Verify};
use overside_tables::pack::{Codec, CodecPool, Layout, Outer, PackOptions, Placement};
use overside_testkit::{InlineDevice, InlineOptions};

use crate::pack::{packed, unpacked};
use crate::random::{KINDS, table};

fn policies() -> [Policy; 4] {
    ["cpu", "device", "split:40", "adaptive"].map(|policy| policy.parse().unwrap())
}

fn pool(policy: Policy, device: Arc<dyn Device>) -> Arc<CodecPool> {
    let placement = Placement { policy, devices: vec![device], verify: Verify::All };
    let threads = NonZeroUsize::new(2).expect("two");
    Arc::new(CodecPool::with_placement(threads, placement).expect("a pool"))
}

fn batches() -> Vec<RecordBatch> {
    let mut random = Random::new(11);
    let of_kind = |kind| table(&mut random, kind, 40_000);
    (0..KINDS).step_by(3).map(of_kind).collect()
}

fn parts(batch: &RecordBatch) -> [RecordBatch; 2] {
    [batch.slice(0, 30_000), batch.slice(30_000, 10_000)]
}

fn ways() -> [PackOptions; 4] {
    let outer = |format| Some(Outer::new(format, None));
    [
        (Codec::Lz4, None),
        (Codec::Zstd(1), None),
        (Codec::None, outer(Format::Lz4Block)),
        (Codec::None, outer(Format::Zstd)),
    ]
    .map(|(codec, outer)| PackOptions { layout: Layout::Stream, codec, outer })
}

#[test]
fn every_placement_writes_the_same_bytes_and_reads_them() {
    let threads = Arc::new(CodecPool::new(NonZeroUsize::MIN).expect("a pool"));
    for batch in batches() {
        for options in ways() {
            let parts = parts(&batch);
            let bytes = packed(&parts, options, &threads);
            for policy in policies() {
                let device = Arc::new(InlineDevice::new(InlineOptions::default()));
                let pool = pool(policy, device);
                let is_same = packed(&parts, options, &pool) == bytes;
                assert!(is_same, "{policy} {options:?}");
                // `assert_eq` would print all bytes.
                let is_same = unpacked(&bytes, &pool).expect("batches") == parts;
                assert!(is_same, "{policy} {options:?} {}", batch.schema());
            }
        }
    }
}

/// Returns the number of chunks of an operation that ran on the device.
fn done(pool: &CodecPool, operation: &str) -> u64 {
    let operation: Operation = operation.parse().expect("an operation");
    let reports = pool.reports();
    let of_it = reports.iter().filter(|(of, _)| *of == operation);
    of_it.filter_map(|(_, report)| Some(report.devices.first()?.chunks)).sum()
}

#[test]
fn a_device_gets_the_blocks_of_lz4_and_the_chunks_of_outer_compression() {
    let device = Arc::new(InlineDevice::new(InlineOptions::default()));
    let pool = pool(Policy::Device, device);
    let batch = table(&mut Random::new(3), 4, 40_000);
    for options in ways() {
        let bytes = packed(&parts(&batch), options, &pool);
        assert_eq!(unpacked(&bytes, &pool).expect("batches").len(), 2);
    }
    for operation in
        ["compress-lz4-block", "decompress-lz4-block", "compress-zstd", "decompress-zstd"]
    {
        assert!(done(&pool, operation) > 0, "{operation}");
    }
}
