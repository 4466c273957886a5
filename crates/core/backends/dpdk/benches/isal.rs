//! Overhead that DPDK adds to ISA-L: its driver `compress_isal` compared with the library itself,
//! chunk by chunk.
//!
//! `cargo bench -p overside-backend-dpdk`. Both sides run in turns in this process, on the same
//! chunks. Printed are the median ratio of the rates over the turns, its range, and the ratio of
//! the two sides' fastest; 1 means that DPDK costs nothing.

#[path = "../../../../../benches/data.rs"]
mod data;
#[path = "../../../../../benches/jobs.rs"]
mod jobs;
#[path = "../../../../../benches/turns.rs"]
mod turns;

use std::time::Instant;

use data::{compressed, plain};
use jobs::{jobs, seconds_a_job, slice};
use overside_backend_dpdk::DpdkDevice;
use overside_device::{ContextConfig, Device, Operation, OperationConfig, Slice};
use overside_ops::{Format, Kernel, prepare};
use turns::{Side, take_turns, told};

/// The longest source that a DPDK job has.
const CHUNK_BYTES: usize = 65_535;
const CHUNKS: usize = 64;
const DEPTH: usize = 8;

fn main() {
    let (filter, is_bench) = turns::arguments();
    let device = match DpdkDevice::new("compress_isal") {
        Ok(device) => device,
        Err(error) => {
            eprintln!("skipped: {error}");
            return;
        }
    };
    let plain = plain(CHUNK_BYTES, CHUNKS);
    for operation in [Operation::Compress, Operation::Decompress] {
        let operation = operation(Format::Deflate);
        let name = operation.to_string();
        if filter.as_ref().is_none_or(|filter| name.contains(filter)) {
            println!("{name}: {}", told(&against_library(&device, operation, &plain, is_bench)));
        }
    }
}

fn against_library(
    device: &DpdkDevice,
    operation: Operation,
    plain: &[Vec<u8>],
    is_bench: bool,
) -> Vec<(f64, f64)> {
    let config = OperationConfig {
        level: matches!(operation, Operation::Compress(_)).then_some(1),
        ..OperationConfig::new(operation)
    };
    let inputs = compressed(&config, plain);
    let sources: Vec<Slice> = inputs.iter().map(|input| slice(device, input)).collect();
    let library = OperationConfig { variant: "isal".into(), ..config.clone() };
    let mut kernel = prepare(&library).and_then(|ready| ready.kernel()).expect("ISA-L");
    let context = device.open(ContextConfig {
        operation: config,
        depth: DEPTH,
        max_source_bytes: CHUNK_BYTES as u64,
        max_destination_bytes: CHUNK_BYTES as u64,
    });
    let mut context = context.expect("it can do that");
    let mut jobs = jobs(device, &sources, CHUNK_BYTES);
    take_turns(is_bench, |side| match side {
        Side::First => directly(&mut *kernel, &sources),
        Side::Second => seconds_a_job(&mut *context, &mut jobs, 1, false),
    })
}

/// Seconds a chunk, by the library without DPDK.
fn directly(kernel: &mut dyn Kernel, sources: &[Slice]) -> f64 {
    let mut out = vec![0; 2 * CHUNK_BYTES];
    let begin = Instant::now();
    for source in sources {
        let output = kernel.run(&[source], &mut out).expect("a good input");
        std::hint::black_box(&out[..output.written]);
    }
    begin.elapsed().as_secs_f64() / sources.len() as f64
}
