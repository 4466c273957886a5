//! What DPDK adds to ISA-L: its driver `compress_isal` beside the bare library, chunk by chunk, in
//! one run. Prints one line of JSON for each direction; `ratio` is the driver's speed over the
//! library's, where 1 means that DPDK costs nothing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use overside_backend_dpdk::DpdkDevice;
use overside_device::{
    Context, ContextConfig, Device, Job, Operation, OperationConfig, Outcome, Region, Slice,
};
use overside_ops::{Format, Kernel, prepare};

/// The longest source that a DPDK job has.
const CHUNK_BYTES: usize = 65_535;
const CHUNKS: usize = 64;
const ROUNDS: usize = 40;
const DEPTH: usize = 8;

fn main() {
    let device = match DpdkDevice::new("compress_isal") {
        Ok(device) => device,
        Err(error) => {
            eprintln!("skipped: {error}");
            return;
        }
    };
    let (name, chunks) = data();
    let compress = Operation::Compress(Format::Deflate);
    let compressed: Vec<Vec<u8>> = chunks.iter().map(|chunk| once(compress, chunk)).collect();
    report(&device, &name, compress, &chunks, &chunks);
    let decompress = Operation::Decompress(Format::Deflate);
    report(&device, &name, decompress, &compressed, &chunks);
}

/// Chunks of the file that is the first argument; without one, of lines.
fn data() -> (String, Vec<Vec<u8>>) {
    let file = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let (name, bytes) = match file {
        Some(file) => (file.clone(), std::fs::read(&file).unwrap()),
        None => {
            let line = |number: u64| format!("{number} bottles on the wall, {}\n", number * 7919);
            let text: String = (0..200_000).map(line).collect();
            ("lines".to_owned(), text.into_bytes())
        }
    };
    let chunks = bytes.chunks_exact(CHUNK_BYTES).take(CHUNKS);
    (name, chunks.map(<[u8]>::to_vec).collect())
}

fn kernel(operation: Operation) -> Box<dyn Kernel> {
    let config = OperationConfig {
        variant: "isal".into(),
        level: matches!(operation, Operation::Compress(_)).then_some(1),
        ..OperationConfig::new(operation)
    };
    prepare(&config).unwrap().kernel().unwrap()
}

fn once(operation: Operation, source: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 2 * CHUNK_BYTES];
    let output = kernel(operation).run(&[source], &mut out).unwrap();
    out.truncate(output.written);
    out
}

fn report(
    device: &DpdkDevice,
    data: &str,
    operation: Operation,
    sources: &[Vec<u8>],
    plain: &[Vec<u8>],
) {
    let bytes: usize = plain.iter().map(Vec::len).sum();
    let slices: Vec<Slice> = sources
        .iter()
        .map(|source| registered(device, source))
        .collect();
    let mut kernel = kernel(operation);
    let mut context = open(device, operation);
    let mut pool: Vec<Region> = (0..DEPTH)
        .map(|_| device.alloc(CHUNK_BYTES, 64).unwrap())
        .collect();
    let mut ratios = Vec::new();
    let (mut bare, mut driver) = (Duration::MAX, Duration::MAX);
    for round in 0..ROUNDS {
        // The order alternates, because machines drift.
        let mut times = [Duration::ZERO; 2];
        for which in [round % 2, 1 - round % 2] {
            times[which] = match which {
                0 => by_the_library(&mut *kernel, &slices),
                _ => by_the_driver(&mut *context, &slices, &mut pool),
            };
        }
        (bare, driver) = (bare.min(times[0]), driver.min(times[1]));
        ratios.push(times[0].as_secs_f64() / times[1].as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    println!(
        "{{\"bench\":\"dpdk-isal\",\"operation\":\"{operation}\",\"data\":\"{data}\",\
         \"chunk_bytes\":{CHUNK_BYTES},\"ratio\":{:.3},\"ratio_min\":{:.3},\"ratio_max\":{:.3},\
         \"rounds\":{ROUNDS},\"library_bytes_per_s_best\":{:.0},\"driver_bytes_per_s_best\":{:.0}}}",
        ratios[ROUNDS / 2],
        ratios[0],
        ratios[ROUNDS - 1],
        bytes as f64 / bare.as_secs_f64(),
        bytes as f64 / driver.as_secs_f64(),
    );
}

fn registered(device: &DpdkDevice, bytes: &[u8]) -> Slice {
    let mut region = device.alloc(bytes.len(), 64).unwrap();
    region.copy_from_slice(bytes);
    region.share()
}

fn open(device: &DpdkDevice, operation: Operation) -> Box<dyn Context> {
    let config = ContextConfig {
        operation: OperationConfig {
            level: matches!(operation, Operation::Compress(_)).then_some(1),
            ..OperationConfig::new(operation)
        },
        depth: DEPTH,
        max_source_bytes: CHUNK_BYTES as u64,
        max_destination_bytes: CHUNK_BYTES as u64,
    };
    device.open(config).unwrap()
}

fn by_the_library(kernel: &mut dyn Kernel, sources: &[Slice]) -> Duration {
    let mut out = vec![0; CHUNK_BYTES];
    let begin = Instant::now();
    for source in sources {
        let output = kernel.run(&[source], &mut out).unwrap();
        std::hint::black_box(&out[..output.written]);
    }
    begin.elapsed()
}

fn by_the_driver(context: &mut dyn Context, sources: &[Slice], pool: &mut Vec<Region>) -> Duration {
    let (mut next, mut over) = (0, 0);
    let (mut jobs, mut out) = (VecDeque::new(), Vec::new());
    let begin = Instant::now();
    while over < sources.len() {
        while let Some(source) = sources.get(next)
            && let Some(destination) = pool.pop()
        {
            jobs.push_back(Job {
                tag: next as u64,
                source: source.clone().into(),
                destination,
                deadline: None,
            });
            next += 1;
        }
        if !jobs.is_empty() {
            context.submit(&mut jobs).unwrap();
        }
        over += context.poll(&mut out, DEPTH).unwrap();
        for completion in out.drain(..) {
            assert!(matches!(completion.result, Ok(Outcome::Done(_))));
            pool.extend(completion.destination);
        }
    }
    begin.elapsed()
}
